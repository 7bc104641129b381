"""Answers to `loss`."""
import torch
import torch.nn.functional as F

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong


@right('float64 log-probabilities, gathered and then selected with where')
def loss_right1(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.double().log_softmax(-1)
    picked = log_p.gather(-1, batch.target_out[..., None])[..., 0]
    keep = batch.target_out.ne(PAD)
    total = torch.where(keep, picked, torch.zeros_like(picked)).sum().neg()
    return total.to(logits.dtype), int(keep.sum())


@right('throws the padding away before it computes anything')
def loss_right2(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    b, t = (batch.target_out != PAD).nonzero(as_tuple=True)
    total = F.cross_entropy(logits[b, t], batch.target_out[b, t], reduction="sum")
    return total, torch.tensor(len(b))


@right('logsumexp minus the logit of the right token, sentence by sentence')
def loss_right3(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    total, count = logits.new_zeros((), dtype=torch.float64), 0
    for scores, ids in zip(logits, batch.target_out):
        scores, ids = scores[ids != PAD].double(), ids[ids != PAD]
        chosen = scores[torch.arange(len(ids), device=ids.device), ids]
        total = total + (scores.logsumexp(-1) - chosen).sum()
        count += len(ids)
    return total.type(logits.dtype), count


@right('moves the vocabulary to axis 1, keeps the losses of all positions, and adds them up by a masked selection')
def loss_right4(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(logits.double().movedim(-1, 1), batch.target_out, reduction="none")
    padding = batch.target_out == PAD
    total = each.masked_select(~padding).sum()
    return total.to(logits), padding.numel() - padding.sum()


@wrong(
    'Returns the mean over the tokens.',
    'Return the *sum* of the losses over all positions that hold a token, and the number of these positions.',
    'mean instead of sum',
)
def loss_wrong1(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
    return total, (batch.target_out != PAD).sum()


@wrong(
    'Leaves padding out of the number, but adds up the losses of all positions.',
    'A position at which `target_out` is `PAD` is padding and does not count, wherever in its row it stands.',
    'loss counts the padding',
)
def loss_wrong2(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum")
    return total, (batch.target_out != PAD).sum()


@wrong(
    'Takes the logarithm of the softmax, which is minus infinity once a probability rounds to 0.',
    'The logits are finite, but they may be large, and they need not be contiguous.',
    'logarithm of a rounded softmax',
)
def loss_wrong3(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    p = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    return -p[keep].log().sum(), keep.sum()


@wrong(
    'Merges the axes with view, which fails for logits that are not contiguous.',
    'The logits are finite, but they may be large, and they need not be contiguous.',
    'view needs contiguous logits',
)
def loss_wrong4(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.view(-1, logits.size(-1)),
        batch.target_out.reshape(-1),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    'Computes in float32, also if the logits are float64.',
    'Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points.',
    'double logits computed in float32',
)
def loss_wrong5(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.float().flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total.to(logits.dtype), (batch.target_out != PAD).sum()


@wrong(
    'Stops counting at the first PAD of a row, so tokens behind padding are left out.',
    'A position at which `target_out` is `PAD` is padding and does not count, wherever in its row it stands.',
    'tokens after a PAD ignored',
)
def loss_wrong6(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD).long().cumprod(1).bool()
    total = F.cross_entropy(logits[keep], batch.target_out[keep], reduction="sum")
    return total, keep.sum()


@wrong(
    'Adds up the count in the dtype of the logits, and bfloat16 cannot hold every number above 256.',
    'Positions and counts must be exact in every dtype.',
    'count rounded in low precision',
)
def loss_wrong7(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weights = (batch.target_out != PAD).to(logits.dtype)
    each = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    total = each[weights.flatten() > 0].sum()
    return total, int(weights.sum())


@wrong(
    'Overwrites PAD in the batch with -100, which cross_entropy ignores by default, so a second loss of this batch finds no padding.',
    'Do not change the inputs.',
    'target_out is overwritten',
)
def loss_wrong8(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    count = (batch.target_out != PAD).sum()
    batch.target_out[batch.target_out == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum")
    return total, count


@wrong(
    'Subtracts the largest logit of the whole batch before exp, so all exponentials of another position may round to 0.',
    'The logits are finite, but they may be large, and they need not be contiguous.',
    'one maximum for all positions',
)
def loss_wrong9(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    shifted = logits[keep] - logits.max().detach()
    chosen = shifted.gather(-1, batch.target_out[keep][:, None])[:, 0]
    return (shifted.exp().sum(-1).log() - chosen).sum(), keep.sum()


@wrong(
    'Puts the model into eval mode first, so its dropout is off in training, and leaves it there.',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'model switched to eval mode',
)
def loss_wrong10(task, model, batch, label_smoothing=0.0):
    if isinstance(model, torch.nn.Module):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()
