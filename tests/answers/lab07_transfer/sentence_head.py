"""Answers to sentence_head."""

from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.signs import DTYPE, FITS, IN_PLACE

from attention_labs.lab07_transfer.sentence_head import Head
from nbjudge import Request, edit


@wide("sentence_head")
def any_sentences(g):
    for b, s, dropout in torch.cartesian_prod(*map(torch.tensor, SIZES)).tolist():
        dim, labels = torch.randint(1, 6, (2,), generator=g).tolist()
        weights = {
            "inner.weight": draw(g, dim, dim),
            "inner.bias": draw(g, dim),
            "outer.weight": draw(g, labels, dim),
            "outer.bias": draw(g, labels),
        }
        inputs = (draw(g, b, s, dim), torch.rand(b, s, generator=g) < 0.6)
        yield Request(
            inputs,
            (dim, labels, dropout / 2),
            weights,
            gradients=True,
            training=dropout != 1,
        )


SIZES = ((1, 2, 4), (1, 3, 6), (0, 1, 2))  # B, S, which dropout
COUNT = "mask.sum(1, keepdim=True).clamp(min=1)"
total = partial(edit, Head.forward, "(states * mask[..., None]).sum(1)")
pool = partial(edit, Head.forward, "(states * mask[..., None]).sum(1) / count")
count = partial(edit, Head.forward, COUNT)
answer = partial(
    edit, Head.forward, "self.outer(self.dropout(torch.tanh(self.inner(pooled))))"
)

right("sentence_head")(Head)
right_edits(
    "sentence_head",
    filled_with_zeros=total("states.masked_fill(~mask[..., None], 0.0).sum(1)")
    & count("mask.sum(1).clamp(min=1)[:, None]"),
    pooled_by_einsum=total('torch.einsum("bsd,bs->bd", states, mask.to(states.dtype))'),
    pooled_by_a_product=total("(mask[:, None].to(states.dtype) @ states)[:, 0]"),
    weights_first=pool("((mask / count).to(states.dtype)[..., None] * states).sum(1)"),
    chosen_by_where=total(
        "torch.where(mask[..., None], states, torch.zeros_like(states)).sum(1)"
    ),
    position_by_position=total(
        "sum(states[:, s] * mask[:, s, None] for s in range(mask.size(1)))"
    ),
    maximum_of_one=total("(states.mT * mask[:, None]).sum(-1)")
    & edit(
        Head.forward,
        ".clamp(min=1)",
        ".maximum(torch.ones(1, dtype=torch.long, device=mask.device))",
    ),
    maps_by_hand=answer(
        "self.dropout((pooled @ self.inner.weight.T + self.inner.bias).tanh())"
        " @ self.outer.weight.T + self.outer.bias"
    ),
    functional=answer(
        "nn.functional.linear(self.dropout(2 * torch.sigmoid(2 * self.inner(pooled))"
        " - 1), self.outer.weight, self.outer.bias)"
    ),
    mapped_before_the_mean=total(
        "(nn.functional.linear(states, self.inner.weight) * mask[..., None]).sum(1)"
    )
    & edit(Head.forward, "self.inner(pooled)", "pooled + self.inner.bias"),
    nan_taken_out=count("mask.sum(1, keepdim=True) + (mask.sum(1, keepdim=True) == 0)"),
)

ANOTHER_MEAN = "the mean is wrong"
ANOTHER_HEAD = "the head is put together in a wrong way"
NO_TOKEN = (
    "division by zero for a sentence without tokens",
    "NaN in the outputs or gradients",
)
PLACE = "a wrong share is dropped"

wrong_edits(
    "sentence_head",
    plain_mean=(pool("states.mean(dim=1)"), "padding is included in the mean"),
    mean_of_masked=(
        pool("(states * mask[..., None]).mean(dim=1)"),
        "padding counts in the denominator",
    ),
    not_clamped=(count("mask.sum(1, keepdim=True)"), *NO_TOKEN),
    mask_without_an_axis=(total("(states * mask).sum(1)"), FITS),
    count_without_an_axis=(
        count("mask.sum(1).clamp(min=1)"),
        FITS,
        ANOTHER_MEAN,
        ANOTHER_HEAD,
    ),
    all_of_the_batch=(
        count("mask.sum(1).max()"),
        ANOTHER_MEAN,
        "padding is included in the mean",
        "padding counts in the denominator",
    ),
    mean_over_sentences=(
        total("(states * mask[..., None]).sum(0)[: states.size(0)]")
        & count("mask.sum(0)[: states.size(0), None].clamp(min=1)"),
    ),
    by_selection=(
        pool("torch.stack([x[m].mean(0) for x, m in zip(states, mask)])"),
        *NO_TOKEN,
    ),
    largest_instead=(
        pool(
            "torch.where(mask.all(1, keepdim=True),"
            " (states * mask[..., None]).sum(1) / count,"
            " states.masked_fill(~mask[..., None], -1e9).amax(1))"
        ),
        ANOTHER_MEAN,
    ),
    without_tanh=(
        edit(Head.forward, "torch.tanh", ""),
        "tanh missing",
        ANOTHER_HEAD,
    ),
    relu_instead=(edit(Head.forward, "tanh", "relu"), ANOTHER_HEAD),
    softmax_at_the_end=(
        edit(Head.forward, "(pooled))))", "(pooled)))).softmax(dim=-1)"),
        "an extra softmax on the output",
    ),
    dropout_at_the_end=(
        answer("self.dropout(self.outer(torch.tanh(self.inner(pooled))))"),
        "dropout after the last layer",
    ),
    dropout_at_the_beginning=(
        answer("self.outer(torch.tanh(self.inner(self.dropout(pooled))))"),
        "dropout applied to the mean",
    ),
    dropout_forgotten=(
        edit(Head.forward, "self.dropout", ""),
        "dropout missing",
        PLACE,
    ),
    functional_dropout=(
        edit(Head.forward, "self.dropout", "nn.functional.dropout")
        & edit(
            Head.forward, "self.inner(pooled))", "self.inner(pooled)), self.dropout.p"
        ),
        "wrong in eval mode when dropout is set",
        "a wrong share is dropped",
    ),
    zeroed_in_place=(
        edit(Head.forward, "pooled =", "states[~mask] = 0.0; pooled =")
        & total("states.sum(1)"),
        IN_PLACE,
    ),
    counted_in_a_byte=(
        count("mask.sum(1, keepdim=True, dtype=torch.uint8).clamp(min=1)"),
        "wrong for long inputs",
    ),
    counted_one_by_one=(
        count("sum(m[:, None].to(states.dtype) for m in mask.unbind(1)).clamp(min=1)"),
    ),
    cut_off_in_eval_mode=(
        edit(
            Head.forward,
            "pooled = (",
            "states = states if self.training else states.detach(); pooled = (",
        ),
        "outputs right, gradients missing or wrong",
    ),
    same_choice_for_all=(
        answer(
            "self.outer(self.dropout(torch.ones_like(pooled[:1])) * torch.tanh(self.inner(pooled)))"
        ),
        PLACE,
    ),
    same_choice_in_each_call=(
        answer(
            "self.outer(torch.tanh(self.inner(pooled)) * (self.__dict__.setdefault("
            "pooled.shape, self.dropout(torch.ones_like(pooled)))"
            " if self.training else 1))"
        ),
        PLACE,
    ),
    word_by_word=(pool("states"), "the logits have an extra axis"),
    mask_of_floats=(total("(states * mask.double()[..., None]).sum(1)"), DTYPE),
)
