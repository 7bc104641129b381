"""Answers to sentence_head."""

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, with_part, wrong
from answers.signs import DTYPE, FITS, IN_PLACE
from torch import nn

from nbjudge.question import Request


@wide("sentence_head")
def any_sentences(g):
    for b in (1, 2, 4):
        for s in (1, 3, 6):
            for dropout in (0, 1, 2):
                dim, labels = torch.randint(1, 6, (2,), generator=g).tolist()
                weights = {
                    "inner.weight": draw(g, dim, dim),
                    "inner.bias": draw(g, dim),
                }
                weights |= {
                    "outer.weight": draw(g, labels, dim),
                    "outer.bias": draw(g, labels),
                }
                mask = torch.rand(b, s, generator=g) < 0.6
                yield Request(
                    (draw(g, b, s, dim), mask),
                    (dim, labels, dropout),
                    weights,
                    gradients=True,
                )


class Head(nn.Module):
    def __init__(self, dim, num_labels, dropout=0.1):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, num_labels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states, mask):
        return self.answer(self.pool(states, mask))

    def pool(self, states, mask):
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        return (states * mask.unsqueeze(-1)).sum(dim=1) / count

    def answer(self, mean):
        return self.outer(self.dropout(torch.tanh(self.inner(mean))))


right("sentence_head")(Head)


@right("sentence_head")
@with_part(Head, "pool")
def filled_with_zeros(self, states, mask):
    states = states.masked_fill(~mask[..., None], 0.0)
    return states.sum(1) / mask.sum(1).clamp(min=1)[:, None]


@right("sentence_head")
@with_part(Head, "pool")
def pooled_by_einsum(self, states, mask):
    m = mask.to(states.dtype)
    return torch.einsum("bsd,bs->bd", states, m) / m.sum(1, keepdim=True).clamp(min=1)


@right("sentence_head")
@with_part(Head, "pool")
def pooled_by_a_product(self, states, mask):
    m = mask.to(states.dtype)[:, None]
    return (m @ states)[:, 0] / m.sum(-1).clamp(min=1)


@right("sentence_head")
@with_part(Head, "pool")
def weights_first(self, states, mask):
    m = mask.to(states.dtype)
    m = m / m.sum(1, keepdim=True).clamp(min=1)
    return (m[..., None] * states).sum(1)


@right("sentence_head")
@with_part(Head, "pool")
def chosen_by_where(self, states, mask):
    count = mask.sum(1, keepdim=True)
    total = torch.where(mask[..., None], states, torch.zeros_like(states)).sum(1)
    return total / torch.where(count == 0, torch.ones_like(count), count)


@right("sentence_head")
@with_part(Head, "pool")
def position_by_position(self, states, mask):
    total, count = 0, 0
    for s in range(states.size(1)):
        m = mask[:, s : s + 1].to(states.dtype)
        total, count = total + states[:, s] * m, count + m
    return total / count.clamp_min(1)


@right("sentence_head")
@with_part(Head, "pool")
def maximum_of_one(self, states, mask):
    count = mask.sum(1)
    return (states.mT * mask[:, None]).sum(-1) / torch.maximum(
        count, torch.ones_like(count)
    ).unsqueeze(1)


@right("sentence_head")
@with_part(Head, "answer")
def maps_by_hand(self, mean):
    hidden = (mean @ self.inner.weight.T + self.inner.bias).tanh()
    return self.dropout(hidden) @ self.outer.weight.T + self.outer.bias


@right("sentence_head")
@with_part(Head, "answer")
def functional(self, mean):
    hidden = (
        2 * torch.sigmoid(2 * F.linear(mean, self.inner.weight, self.inner.bias)) - 1
    )
    return F.linear(self.dropout(hidden), self.outer.weight, self.outer.bias)


@right("sentence_head")
@with_part(Head, "forward")
def mapped_before_the_mean(self, states, mask):
    m = mask.to(states.dtype).unsqueeze(2)
    mean = (F.linear(states, self.inner.weight) * m).sum(1) / m.sum(1).clamp(min=1)
    return self.outer(self.dropout(torch.tanh(mean + self.inner.bias)))


@right("sentence_head")
@with_part(Head, "pool")
def nan_taken_out(self, states, mask):
    mean = (states * mask[..., None]).sum(1) / (
        mask.sum(1, keepdim=True) + (mask.sum(1, keepdim=True) == 0)
    )
    return mean


@wrong("sentence_head", "padding counts")
@with_part(Head, "pool")
def plain_mean(self, states, mask):
    return states.mean(dim=1)


@wrong("sentence_head", "divided by padding, too")
@with_part(Head, "pool")
def mean_of_masked(self, states, mask):
    return (states * mask[..., None]).mean(dim=1)


@wrong("sentence_head", "a division by no token at all", "not a number")
@with_part(Head, "pool")
def not_clamped(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@wrong("sentence_head", FITS)
@with_part(Head, "pool")
def mask_without_an_axis(self, states, mask):
    return (states * mask).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@wrong(
    "sentence_head",
    FITS,
    "the mean is taken in another way",
    "the head is put together in another way",
)
@with_part(Head, "pool")
def count_without_an_axis(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1).clamp(min=1)


@wrong(
    "sentence_head",
    "the mean is taken in another way",
    "padding counts",
    "divided by padding, too",
)
@with_part(Head, "pool")
def all_of_the_batch(self, states, mask):
    return (states * mask[..., None]).sum(1) / mask.sum(1).max()


@wrong(
    "sentence_head",
    "the head is put together in another way",
    "the sum, not the mean",
    FITS,
)
@with_part(Head, "pool")
def mean_over_sentences(self, states, mask):
    return (states * mask[..., None]).sum(0)[: states.size(0)] / mask.sum(0)[
        : states.size(0), None
    ].clamp(min=1)


@wrong("sentence_head", "a division by no token at all", "not a number")
@with_part(Head, "pool")
def by_selection(self, states, mask):
    return torch.stack([x[m].mean(0) for x, m in zip(states, mask)])


@wrong("sentence_head", "the mean is taken in another way")
@with_part(Head, "pool")
def largest_instead(self, states, mask):
    pooled = states.masked_fill(~mask[..., None], -1e9).amax(1)
    whole = mask.all(1, keepdim=True)
    return torch.where(whole, Head.pool(self, states, mask), pooled)


@wrong("sentence_head", "tanh left out", "the head is put together in another way")
@with_part(Head, "answer")
def without_tanh(self, mean):
    return self.outer(self.dropout(self.inner(mean)))


@wrong("sentence_head", "the head is put together in another way")
@with_part(Head, "answer")
def relu_instead(self, mean):
    return self.outer(self.dropout(F.relu(self.inner(mean))))


@wrong("sentence_head", "a softmax too many")
@with_part(Head, "answer")
def softmax_at_the_end(self, mean):
    return Head.answer(self, mean).softmax(dim=-1)


@wrong("sentence_head", "dropout at another place")
@with_part(Head, "answer")
def dropout_at_the_end(self, mean):
    return self.dropout(self.outer(torch.tanh(self.inner(mean))))


@wrong("sentence_head", "dropout at another place")
@with_part(Head, "answer")
def dropout_at_the_beginning(self, mean):
    return self.outer(torch.tanh(self.inner(self.dropout(mean))))


@wrong("sentence_head", "dropout left out", "dropout at another place")
@with_part(Head, "answer")
def dropout_forgotten(self, mean):
    return self.outer(torch.tanh(self.inner(mean)))


@wrong("sentence_head", "dropout outside of training")
@with_part(Head, "answer")
def functional_dropout(self, mean):
    return self.outer(F.dropout(torch.tanh(self.inner(mean)), self.dropout.p))


@wrong("sentence_head", IN_PLACE)
@with_part(Head, "pool")
def zeroed_in_place(self, states, mask):
    states[~mask] = 0.0
    return states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@wrong("sentence_head", "an answer for every word")
@with_part(Head, "forward")
def word_by_word(self, states, mask):
    return self.answer(states)


@wrong("sentence_head", DTYPE)
@with_part(Head, "pool")
def mask_of_floats(self, states, mask):
    return (states * mask.float().double()[..., None]).sum(1) / mask.sum(
        1, keepdim=True
    ).clamp(min=1)
