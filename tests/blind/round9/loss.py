import torch
import torch.nn.functional as F

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong


@right("picks the positions that hold a token first, then needs no ignore_index")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    where = batch.target_out.ne(PAD).nonzero(as_tuple=True)
    total = F.cross_entropy(logits[where], batch.target_out[where], reduction="sum")
    return total, len(where[0])


@right("log_softmax in double precision, gather, where; back to the dtype at the end")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    log_p = logits.double().log_softmax(-1)
    chosen = log_p.gather(-1, batch.target_out[..., None])[..., 0]
    token = batch.target_out != PAD
    total = -torch.where(token, chosen, torch.zeros_like(chosen)).sum()
    return total.to(logits.dtype), token.sum()


@right("loops over the sentences and their positions")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros((), dtype=torch.float64), 0
    for sentence, ids in zip(logits, batch.target_out.tolist()):
        for scores, i in zip(sentence, ids):
            if i == PAD:
                continue
            total = total - torch.log_softmax(scores.double(), dim=0)[i]
            count += 1
    return total.to(logits.dtype), count


@right("a criterion object, with the vocabulary as the second axis")
def loss(task, model, batch, label_smoothing=0.0, *, criterion=torch.nn.NLLLoss):
    predicted = model(batch.source, batch.lengths, batch.target_in)[0]
    log_p = torch.nn.LogSoftmax(dim=1)(predicted.movedim(-1, 1))
    summed = criterion(ignore_index=PAD, reduction="sum")(log_p, batch.target_out)
    return summed, torch.count_nonzero(batch.target_out - PAD)


@wrong(
    "padding has its loss added to the sum",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "padding is not ignored in the sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "returns the mean loss instead of the sum",
    "Return the *sum* of the losses over all positions that hold a token, and the number of"
    " these positions.",
    "mean instead of sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "EOS counts neither in the sum nor in the number",
    "`EOS` counts as a token, because the model must learn where to stop.",
    "EOS is left out like padding",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    token = (batch.target_out != PAD) & (batch.target_out != EOS)
    total = F.cross_entropy(logits[token], batch.target_out[token], reduction="sum")
    return total, token.sum()


@wrong(
    "softmax and log one after the other: a probability that underflows to 0 gives an infinite"
    " loss, as with logits 0 and 200",
    "The logits are finite, but they may be large.",
    "log of softmax instead of log_softmax",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.flatten(0, 1).softmax(dim=-1).log()
    right_ids = batch.target_out.flatten()
    total = F.nll_loss(log_p, right_ids, ignore_index=PAD, reduction="sum")
    return total, (right_ids != PAD).sum()


@wrong(
    "computes in float32 and stays there: bfloat16 or float64 logits give a float32 sum",
    "They may have any floating-point dtype, and the sum must have the same dtype.",
    "sum stays float32",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1).float(),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "writes -100 over the padding of the batch; the next call with this batch fails or counts"
    " padding",
    "Do not change the inputs.",
    "overwrites the padding of the batch",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    count = (right_ids != PAD).sum()
    right_ids[right_ids == PAD] = -100  # what cross_entropy ignores by default
    total = F.cross_entropy(logits.flatten(0, 1), right_ids, reduction="sum")
    return total, count


@wrong(
    "multiplies by the mask: if the loss of a padding position is infinite in the dtype (half"
    " precision, logits 60000 and -60000), 0 times infinity makes the sum NaN",
    "The logits are finite, but they may be large.",
    "infinite loss times zero is NaN",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    token = (batch.target_out != PAD).flatten()
    return (each * token).sum(), token.sum()


@wrong(
    "looks for the padding in target_in: the number is right, but if a target contains the"
    " token <pad>, the wrong position is left out",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "mask from target_in instead of target_out",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    token = batch.target_in != PAD
    total = F.cross_entropy(logits[token], batch.target_out[token], reduction="sum")
    return total, token.sum()


@wrong(
    "counts the source's tokens and one EOS for each sentence: right only if every target is"
    " as long as its source",
    "Return the *sum* of the losses over all positions that hold a token, and the number of"
    " these positions.",
    "counts source tokens instead of target tokens",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.lengths + 1).sum()


@wrong(
    "takes everything after the first EOS for padding: a target that contains the token <eos>"
    " is cut short, and a PAD inside a target counts",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "padding is taken to begin after the first EOS",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ends = (batch.target_out == EOS).long()
    token = ends.cumsum(1) - ends == 0  # no EOS before this position
    total = F.cross_entropy(logits[token], batch.target_out[token], reduction="sum")
    return total, token.sum()
