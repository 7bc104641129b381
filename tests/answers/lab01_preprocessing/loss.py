"""Answers to loss."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong_edits
from answers.lab01_preprocessing.pad import padded_by_loop
from answers.lab01_preprocessing.shared import draw
from answers.signs import CUT, FITS, IN_PLACE, NO_NAME, TOO_MUCH
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import SequenceTask
from nbjudge import Request, edit


@wide("loss")
def any_batch(g):
    for batch in (1, 2, 5):
        for longest in (1, 3, 8):
            sizes = draw(g, batch, low=0, high=longest + 1).tolist()
            targets = [draw(g, size).tolist() for size in sizes]
            given, said = (
                padded_by_loop(rows)
                for rows in zip(*(([BOS, *row], [*row, EOS]) for row in targets))
            )
            table = torch.randn(11, 11, generator=g, dtype=torch.float64)
            lengths = torch.full((batch,), 4)
            yield Request(
                (draw(g, batch, 4), lengths, given, said, table), gradients=True
            )


def of_logits(compare):
    """Enter a right loss, made of the logits and of what should be said."""

    @right("loss", compare.__name__)
    def loss(task, model, batch, label_smoothing=0.0):
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        return compare(logits, batch.target_out)


@of_logits
def by_ignore_index(logits, said):
    total = F.cross_entropy(
        logits.flatten(0, 1), said.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total, int((said != PAD).sum())


@of_logits
def vocabulary_second(logits, said):
    total = F.cross_entropy(logits.mT, said, ignore_index=PAD, reduction="sum")
    return total, (said != PAD).sum()


@of_logits
def by_permute_and_class(logits, said):
    each = nn.CrossEntropyLoss(ignore_index=PAD, reduction="none")
    return each(logits.permute(0, 2, 1), said).sum(), int(said.ne(PAD).sum())


@of_logits
def masked_afterwards(logits, said):
    each = F.cross_entropy(logits.transpose(1, 2), said, reduction="none")
    return (each * (said != PAD)).sum(), (said != PAD).sum().item()


@of_logits
def picked_by_mask(logits, said):
    mask = said != PAD
    total = F.cross_entropy(logits[mask], said[mask], reduction="sum")
    return total, int(mask.sum())


@of_logits
def gathered(logits, said):
    chosen = logits.log_softmax(dim=-1).gather(-1, said[..., None]).squeeze(-1)
    return -(chosen * (said != PAD)).sum(), int((said != PAD).sum())


@of_logits
def by_nll(logits, said):
    log_p = F.log_softmax(logits, dim=-1).view(-1, logits.size(-1))
    total = F.nll_loss(log_p, said.reshape(-1), ignore_index=PAD, reduction="sum")
    return total, torch.count_nonzero(said)


@of_logits
def by_logsumexp(logits, said):
    each = torch.logsumexp(logits, dim=2) - logits.gather(2, said[:, :, None])[:, :, 0]
    return each.masked_fill(said == PAD, 0.0).sum(), int((said > PAD).sum())


@of_logits
def mean_times_count(logits, said):
    count = int((said != PAD).sum())
    mean = F.cross_entropy(logits.flatten(0, 1), said.flatten(), ignore_index=PAD)
    return count * mean, count


@of_logits
def sentence_by_sentence_loss(logits, said):
    total, count = logits.new_zeros(()), 0
    for row, ids in zip(logits, said):
        row, ids = row[ids != PAD], ids[ids != PAD]
        total = total + F.cross_entropy(row, ids, reduction="sum")
        count += len(ids)
    return total, count


@of_logits
def one_hot(logits, said):
    hot = F.one_hot(said, logits.size(-1)).to(logits.dtype)
    hot[..., PAD] = 0
    return -(hot * logits.log_softmax(-1)).sum(), int(hot.bool().sum())


@of_logits
def weighted(logits, said):
    weight = torch.ones_like(logits[0, 0]).where(
        torch.arange(logits.size(-1), device=logits.device) != PAD, 0
    )
    total = F.cross_entropy(
        logits.flatten(0, 1), said.flatten(), weight=weight, reduction="sum"
    )
    return total, (said != PAD).sum()


LOSS = SequenceTask.loss
FLAT, RIGHT = "logits.flatten(0, 1)", "batch.target_out.flatten()"
COUNTED = "the sum is right, the token count is wrong"
COUNT = "(batch.target_out != PAD).sum()"
wrong_edits(
    "loss",
    mean_of_sentences=(
        edit(LOSS, "return total", "return total / len(batch.target_out)"),
        "a mean instead of the sum",
    ),
    masked_logits=(
        edit(LOSS, FLAT, f"({FLAT} * (batch.target_out != PAD).flatten()[:, None])")
        & edit(LOSS, "ignore_index=PAD", "ignore_index=-100"),
        "the loss is too large where there is padding",
        NO_NAME,
        FITS,
    ),
    all_places_counted=(
        edit(LOSS, COUNT, "batch.target_out.numel()"),
        "the token count includes padding",
    ),
    padding_is_a_token=(
        edit(LOSS, "ignore_index=PAD", "ignore_index=-100")
        & edit(LOSS, COUNT, "batch.target_out.numel()"),
        "padding is included in the loss",
    ),
    end_not_counted=(
        edit(LOSS, "!= PAD", "> EOS"),
        COUNTED,
    ),
    counted_in_half=(
        edit(LOSS, COUNT, "(batch.target_out != PAD).half().sum()"),
        "a wrong or mismatched dtype",
    ),
    one_count_in_a_row=(edit(LOSS, COUNT, f"{COUNT}[None]"), COUNTED),
    model_left_in_train_mode=(
        edit(LOSS, "logits, _ = model(", "logits, _ = model.train()("),
        IN_PLACE,
    ),
    trained_alone=(
        edit(
            LOSS,
            "return total",
            "total = total if model.training else total.detach(); return total",
        ),
        CUT,
    ),
    first_ids_counted=(
        edit(
            LOSS,
            RIGHT,
            "(batch.target_out * (batch.target_out != PAD).long().cumprod(1)).flatten()",
        ),
    ),
    not_flattened=(
        edit(LOSS, FLAT, "logits") & edit(LOSS, RIGHT, "batch.target_out"),
        "logits and targets do not fit together",
    ),
    not_summed=(
        edit(LOSS, '"sum"', '"none"'),
        "a loss per position instead of one sum",
    ),
    a_number=(
        edit(LOSS, "return total", "return total.item()"),
        "a returned value is not a tensor",
    ),
    detached=(edit(LOSS, "return total", "return total.detach()"), CUT),
    without_count=(edit(LOSS, f", {COUNT}", ""), TOO_MUCH),
    negative=(edit(LOSS, "return total", "return -total"), "wrong sign"),
    logits_not_taken_out=(edit(LOSS, "logits, _", "logits"), NO_NAME),
)
