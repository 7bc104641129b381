import torch
import torch.nn.functional as F

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong

SUM = (
    "Return the *sum* of the losses over all positions that hold a token, and the"
    " number of these positions."
)
FORMULA = "A softmax turns the logits of a position into probabilities."
EOS_COUNTS = "`EOS` counts as a token, because the model must learn where to stop."
PADDING = (
    "A position at which `target_out` is `PAD` is padding and does not count, wherever"
    " in its row it stands."
)
LARGE = "The logits are finite, but they may be large, and they need not be contiguous."
DTYPE = "They may have any floating-point dtype, and the sum must have the same dtype."
INPUTS = "Do not change the inputs."
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
EXACT = "Positions and counts must be exact in every dtype."


@right("logsumexp minus the logit of the right token, in float64")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    wide = logits.double()
    picked = wide.gather(2, batch.target_out.unsqueeze(2)).squeeze(2)
    losses = torch.logsumexp(wide, dim=2) - picked
    mask = batch.target_out.ne(PAD)
    return losses[mask].sum().to(logits.dtype), int(mask.sum())


@right("cross_entropy over (B, V, T) with a class weight of zero for PAD")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(*batch[:3])[0]
    weight = torch.ones_like(logits[0, 0]).detach()
    weight[PAD] = 0
    total = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, weight=weight, reduction="sum"
    )
    return total, torch.count_nonzero(batch.target_out != PAD)


@right("one sentence after the other, only with the positions that hold a token")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits[:0].double().sum(), 0
    for row, right_ids in zip(logits, batch.target_out):
        for scores, i in zip(row, right_ids.tolist()):
            if i != PAD:
                total = total - scores.double().log_softmax(0)[i]
                count += 1
    return total.to(logits.dtype), count


@right("shifts the logits by their maximum, and picks with a one-hot einsum")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    wide = logits.double()
    shifted = wide - wide.detach().amax(dim=-1, keepdim=True)
    one_hot = F.one_hot(batch.target_out, logits.size(-1)) * mask[..., None]
    right_ones = torch.einsum("btv,btv->", shifted, one_hot.double())
    normalizers = shifted.exp().sum(-1).log().where(mask, 0.0).sum()
    return (normalizers - right_ones).to(logits.dtype), mask.sum()


@wrong(
    "returns the mean over the tokens in place of the sum",
    breaks=SUM,
    name="mean instead of sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mean = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    return mean, (batch.target_out != PAD).sum()


@wrong(
    "adds up the losses of padding too",
    breaks=PADDING,
    name="padding has a say in the loss",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "leaves EOS out of the loss and of the count",
    breaks=EOS_COUNTS,
    name="EOS is treated like padding",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = (batch.target_out != PAD) & (batch.target_out != EOS)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, reduction="none"
    )
    return (losses * mask).sum(), mask.sum()


@wrong(
    "takes PAD out of the softmax, because it is never the right token",
    breaks=FORMULA,
    name="the probability of PAD is left out",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_out != PAD
    log_p = logits[..., PAD + 1 :].log_softmax(-1)
    index = (batch.target_out - PAD - 1).clamp(min=0)
    losses = -log_p.gather(2, index[..., None])[..., 0]
    return losses.where(mask, 0.0).sum(), mask.sum()


@wrong(
    "adds up the mask in the dtype of the logits: bfloat16 cannot hold 257",
    breaks=EXACT,
    name="tokens are counted in low precision",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, reduction="none"
    )
    mask = (batch.target_out != PAD).to(logits.dtype)
    return (losses * mask).sum(), mask.sum()


@wrong(
    "takes the mask from target_in, where PAD stands one position later",
    breaks=PADDING,
    name="the mask comes from the decoder's input",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mask = batch.target_in != PAD
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, reduction="none"
    )
    return losses[mask].sum(), mask.sum()


@wrong(
    "writes -100, which cross_entropy ignores, into the batch's own target_out",
    breaks=INPUTS,
    name="the padding in the batch is overwritten",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    correct = batch.target_out
    count = (correct != PAD).sum()
    correct[correct == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), correct.flatten(), reduction="sum")
    return total, count


@wrong(
    "puts the model into eval mode before the call, so dropout is off in training",
    breaks=SIZES,
    name="the model is switched to eval mode",
)
def loss(task, model, batch, label_smoothing=0.0):
    if isinstance(model, torch.nn.Module):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "takes the logarithm of a softmax with a floor of 1e-12, so no loss exceeds 28",
    breaks=LARGE,
    name="a floor under the probabilities",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    p = logits.float().softmax(-1) if logits.dtype != torch.float64 else logits.softmax(-1)
    p = p.gather(2, batch.target_out[..., None])[..., 0]
    mask = batch.target_out != PAD
    total = -p.clamp(min=1e-12).log()[mask].sum()
    return total.to(logits.dtype), mask.sum()


@wrong(
    "computes in float32 and returns the sum like this, whatever the logits are",
    breaks=DTYPE,
    name="the sum is always float32",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.float().flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()
