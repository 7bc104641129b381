"""Answers to loss."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab01_preprocessing.pad import padded_by_loop
from answers.lab01_preprocessing.texts import draw
from answers.signs import CUT, FITS, NO_NAME, TOO_MUCH
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from nbjudge.question import Request


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


@right("loss")
def by_ignore_index(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), right, ignore_index=PAD, reduction="sum"
    )
    return total, int((right != PAD).sum())


@right("loss")
def vocabulary_second(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@right("loss")
def by_permute_and_class(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    total = nn.CrossEntropyLoss(ignore_index=PAD, reduction="none")(
        logits.permute(0, 2, 1), batch.target_out
    ).sum()
    return total, int(batch.target_out.ne(PAD).sum())


@right("loss")
def masked_afterwards(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    each = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return (each * mask).sum(), mask.sum().item()


@right("loss")
def picked_by_mask(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    return F.cross_entropy(logits[mask], batch.target_out[mask], reduction="sum"), int(
        mask.sum()
    )


@right("loss")
def gathered(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    chosen = (
        logits.log_softmax(dim=-1).gather(-1, batch.target_out[..., None]).squeeze(-1)
    )
    mask = batch.target_out != PAD
    return -(chosen * mask).sum(), int(mask.sum())


@right("loss")
def by_nll(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = F.log_softmax(logits, dim=-1).view(-1, logits.size(-1))
    total = F.nll_loss(
        log_p, batch.target_out.reshape(-1), ignore_index=PAD, reduction="sum"
    )
    return total, torch.count_nonzero(batch.target_out)


@right("loss")
def by_logsumexp(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = logits.gather(2, batch.target_out.unsqueeze(2)).squeeze(2)
    each = torch.logsumexp(logits, dim=2) - right
    return each.masked_fill(batch.target_out == PAD, 0.0).sum(), int(
        (batch.target_out > PAD).sum()
    )


@right("loss")
def mean_times_count(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    count = int((batch.target_out != PAD).sum())
    return (
        count
        * F.cross_entropy(
            logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
        ),
        count,
    )


@right("loss")
def sentence_by_sentence_loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros(()), 0
    for row, said in zip(logits, batch.target_out):
        size = int((said != PAD).sum())
        total = total + F.cross_entropy(row[:size], said[:size], reduction="sum")
        count += size
    return total, count


@right("loss")
def one_hot(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    hot = F.one_hot(batch.target_out, logits.size(-1)).to(logits.dtype)
    hot[..., PAD] = 0
    return -(hot * logits.log_softmax(-1)).sum(), int(hot.sum())


@wrong("loss", "a mean, where the sum is meant")
def mean_over_tokens(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "a mean, where the sum is meant")
def mean_of_sentences(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total / len(batch.target_out), count


@wrong("loss", "padding has a say")
def pads_counted_in_the_sum(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "padding has a say")
def last_position_ignored(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    return total[:, : int((batch.target_out != PAD).sum(1).max())].sum(), int(
        (batch.target_out != PAD).sum()
    )


@wrong("loss", "padding has a say", NO_NAME, FITS)
def masked_logits(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits = logits * (batch.target_out != PAD)[..., None]
    total = F.cross_entropy(logits.mT, batch.target_out, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "padding is counted")
def all_places_counted(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0], batch.target_out.numel()


@wrong("loss", "other tokens are counted")
def end_not_counted(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0], int((batch.target_out > EOS).sum())


@wrong("loss", "the loss looks at what goes in", "the model is given the answer")
def compared_with_the_input(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_in.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "the model is given the answer")
def answer_given(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch._replace(target_in=batch.target_out))


@wrong("loss", "the target is shifted once more")
def shifted_again(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right = batch.target_out[:, 1:].flatten()
    total = F.cross_entropy(
        logits[:, :-1].flatten(0, 1), right, ignore_index=PAD, reduction="sum"
    )
    return total, int((right != PAD).sum())


@wrong("loss", "softmax done twice")
def softmax_before(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    probabilities = torch.softmax(logits, dim=-1)
    total = F.cross_entropy(
        probabilities.mT, batch.target_out, ignore_index=PAD, reduction="sum"
    )
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "positions and vocabulary mixed up")
def not_flattened(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("loss", "a loss per position, where one sum is meant")
def not_summed(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.mT, batch.target_out, ignore_index=PAD, reduction="none"
    )
    return each, int((batch.target_out != PAD).sum())


@wrong("loss", "no gradient can pass a number")
def a_number(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total.item(), count


@wrong("loss", CUT)
def detached(task, model, batch, label_smoothing=0.0):
    total, count = by_ignore_index(task, model, batch)
    return total.detach(), count


@wrong("loss", TOO_MUCH)
def without_count(task, model, batch, label_smoothing=0.0):
    return by_ignore_index(task, model, batch)[0]


@wrong("loss", "sign turned around")
def negative(task, model, batch, label_smoothing=0.0):
    total, count = gathered(task, model, batch)
    return -total, count


@wrong("loss", NO_NAME)
def logits_not_taken_out(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, int((batch.target_out != PAD).sum())


@right("loss")
def weighted(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weight = torch.ones_like(logits[0, 0]).index_fill(0, torch.tensor(PAD), 0)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), weight=weight, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong("loss", "logits of other positions and tokens")
def reshaped(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    sentences, positions, words = logits.shape
    logits = logits.view(sentences, words, positions)
    return F.cross_entropy(
        logits, batch.target_out, ignore_index=PAD, reduction="sum"
    ), int((batch.target_out != PAD).sum())


@wrong("loss", "the end does not count")
def end_ignored(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=EOS,
        reduction="sum",
    )
    return total, int((batch.target_out != PAD).sum())
