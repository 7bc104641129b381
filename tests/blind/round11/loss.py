import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong


@right("logsumexp minus the right logit, at the selected positions")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    chosen, tokens = logits[keep], batch.target_out[keep]
    right_logits = chosen.gather(1, tokens[:, None]).squeeze(1)
    return (chosen.logsumexp(1) - right_logits).sum(), keep.sum()


@right("log_softmax and nll_loss with V as the second axis, in float32 or better")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = F.nll_loss(
        precise.log_softmax(-1).movedim(-1, 1),
        batch.target_out,
        ignore_index=PAD,
        reduction="sum",
    )
    return total.to(logits.dtype), int(torch.count_nonzero(batch.target_out - PAD))


@right("a categorical distribution, and where instead of a selection")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    says = torch.distributions.Categorical(logits=logits.double(), validate_args=False)
    surprise = -says.log_prob(batch.target_out)
    padding = batch.target_out.eq(PAD)
    total = torch.where(padding, torch.zeros_like(surprise), surprise).sum()
    return total.to(logits.dtype), padding.numel() - padding.sum()


@right("a loop over the target positions, counting as it goes")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros((), dtype=torch.float64), 0
    for step, tokens in zip(logits.unbind(1), batch.target_out.unbind(1)):
        keep = tokens.ne(PAD).nonzero().flatten()
        total = total + F.cross_entropy(
            step[keep].double(), tokens[keep], reduction="none"
        ).sum()
        count += len(keep)
    return total.to(logits.dtype), count


@wrong(
    "the mean over the tokens",
    "Return the *sum* of the losses over all positions that hold a token, and the number"
    " of these positions.",
    "mean instead of sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    value = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    return value, (batch.target_out != PAD).sum()


@wrong(
    "sums the losses of the padding too",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "padding counts in the sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    value = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return value, (batch.target_out != PAD).sum()


@wrong(
    "leaves out EOS",
    "`EOS` counts as a token, because the model must learn where to stop.",
    "EOS does not count",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD) & (batch.target_out != EOS)
    value = F.cross_entropy(logits[keep], batch.target_out[keep], reduction="sum")
    return value, keep.sum()


@wrong(
    "counts all positions, although the sum is right",
    "Return the *sum* of the losses over all positions that hold a token, and the number"
    " of these positions.",
    "padding counts as tokens",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    value = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return value, batch.target_out.numel()


@wrong(
    "always returns float32",
    "They may have any floating-point dtype, and the sum must have the same dtype.",
    "wrong dtype",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    value = F.cross_entropy(
        logits[keep].float(), batch.target_out[keep], reduction="sum"
    )
    return value, keep.sum()


@wrong(
    "the logarithm of the softmax, in which small probabilities become 0 and the loss"
    " infinite",
    "The logits are finite, but they may be large.",
    "log of softmax",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    chances = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    return -chances[keep].log().sum(), keep.sum()


@wrong(
    "writes -100 over the padding of the batch",
    "Do not change the inputs.",
    "the batch is changed in place",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    target = batch.target_out
    count = (target > PAD).sum()
    target[target == PAD] = -100
    value = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
    return value, count


@wrong(
    "looks for the padding in target_in: if a target contains the token <pad>, this is"
    " one position too late",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "mask of target_in",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_in != PAD
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, reduction="none"
    )
    return losses[keep].sum(), keep.sum()


@wrong(
    "counts in the dtype of the logits, so bfloat16 rounds counts above 256",
    "Positions and counts, however, must be exact in every dtype.",
    "inexact count",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weights = (batch.target_out != PAD).to(logits.dtype)
    losses = -logits.log_softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    return (losses * weights).sum(), weights.sum()


@wrong(
    "switches the model to eval mode, and leaves it there",
    "Do not change the inputs.",
    "the model is changed",
)
def loss(task, model, batch, label_smoothing=0.0):
    if isinstance(model, nn.Module):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    value = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return value, (batch.target_out != PAD).sum()
