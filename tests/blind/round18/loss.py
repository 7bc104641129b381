import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import EOS, PAD
from blind import right, wrong

POSITION = (
    "The loss of a position is the negative logarithm of the probability that the model"
    " gives to the correct token:"
)
SUM = (
    "Return the *sum* of the losses over all positions that hold a token, and the"
    " number of these positions."
)
END = "`EOS` counts as a token, because the model must learn where to stop."
PADDING = (
    "A position at which `target_out` is `PAD` is padding and does not count, wherever"
    " in its row it stands."
)
LARGE = "The logits are finite, but they may be large, and they need not be contiguous."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
MODES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
EXACT = "Positions and counts must be exact in every dtype."


@right("shifts the logits by the correct one, so the loss is one logsumexp, in float64")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    exact = logits.double()
    correct = exact.gather(-1, batch.target_out[..., None])
    losses = (exact - correct).logsumexp(-1)
    tokens = batch.target_out != PAD
    total = losses.masked_fill(~tokens, 0).sum()
    return total.to(logits.dtype), int(tokens.sum())


@right("picks the rows that hold a token before it computes anything")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    tokens = batch.target_out.ne(PAD)
    right_ids = batch.target_out[tokens]
    logs = logits[tokens].to(torch.float64).log_softmax(-1)
    total = -logs[torch.arange(len(right_ids), device=logs.device), right_ids].sum()
    return total.to(logits.dtype), tokens.sum()


@right("a loop over the sentences, with cross_entropy in float64 and a Python count")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits[:0].double().sum(), 0  # zero, with a gradient
    for row, ids in zip(logits, batch.target_out):
        total = total + F.cross_entropy(
            row.double(), ids, ignore_index=PAD, reduction="sum"
        )
        count += sum(i != PAD for i in ids.tolist())
    return total.to(logits.dtype), count


@right("a loop over the time steps: a logsumexp by hand and a one-hot einsum")
def loss(task, model, batch, label_smoothing=0.0):
    def step_losses(step, ids):
        top = step.detach().amax(-1, keepdim=True)
        normalizer = (step - top).exp().sum(-1).log() + top[:, 0]
        one_hot = F.one_hot(ids, step.shape[-1]).to(step.dtype)
        return normalizer - torch.einsum("bv,bv->b", step, one_hot)

    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = 0.0, 0
    for step, ids in zip(logits.double().unbind(1), batch.target_out.unbind(1)):
        tokens = ids.ne(PAD)
        total = total + step_losses(step, ids).where(tokens, 0).sum()
        count = count + torch.count_nonzero(tokens)
    return total.to(logits.dtype), count


@wrong(
    "applies softmax before cross_entropy, which applies it again",
    breaks=POSITION,
    name="softmax applied twice",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    probabilities = logits.softmax(-1).flatten(0, 1)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(probabilities, ids, ignore_index=PAD, reduction="sum")
    return total, (ids != PAD).sum()


@wrong(
    "reshapes the logits to (B, V, T) instead of transposing them",
    breaks=POSITION,
    name="reshape instead of transpose",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    b, t, v = logits.shape
    total = F.cross_entropy(
        logits.reshape(b, v, t), batch.target_out, ignore_index=PAD, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "leaves out EOS, as decode does",
    breaks=END,
    name="EOS not counted",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.masked_fill(batch.target_out == EOS, PAD).flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, (ids != PAD).sum()


@wrong(
    "writes -100 into the batch's own target_out, where it is PAD",
    breaks=INPUTS,
    name="target_out changed in place",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out
    ids[ids == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="sum")
    return total, (ids != -100).sum()


@wrong(
    "limits the probability to at least 1e-12 before it takes the logarithm",
    breaks=LARGE,
    name="loss of large logits limited",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = batch.target_out != PAD
    probabilities = logits.double().softmax(-1)
    correct = probabilities.gather(-1, batch.target_out[..., None])[..., 0]
    losses = -correct.clamp(min=1e-12).log()
    return losses.where(tokens, 0).sum().to(logits.dtype), tokens.sum()


@wrong(
    "takes the mask from target_in, which differs if a target contains PAD",
    breaks=PADDING,
    name="mask from target_in",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = batch.target_in != PAD
    losses = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    return losses[tokens.flatten()].sum(), tokens.sum()


@wrong(
    "returns a count of at least one, to avoid a division by zero later",
    breaks=SUM,
    name="count of an empty batch is one",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, (ids != PAD).sum().clamp(min=1)


@wrong(
    "counts in the dtype of the logits, which is rounded in bfloat16",
    breaks=EXACT,
    name="count rounded in bfloat16",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weights = (batch.target_out != PAD).to(logits.dtype)
    losses = F.cross_entropy(
        logits.transpose(1, 2), batch.target_out, reduction="none"
    )
    return (losses * weights).sum(), int(weights.sum())


@wrong(
    "switches the model to eval mode, so dropout is off in training",
    breaks=MODES,
    name="model switched to eval mode",
)
def loss(task, model, batch, label_smoothing=0.0):
    if isinstance(model, nn.Module):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, (ids != PAD).sum()


@wrong(
    "detaches the normalizer, so the loss is right, but only the correct logit gets a"
    " gradient",
    breaks=GRADIENTS,
    name="gradient of the normalizer missing",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = batch.target_out != PAD
    normalizer = logits.detach().double().logsumexp(-1)
    correct = logits.double().gather(-1, batch.target_out[..., None])[..., 0]
    losses = (normalizer - correct).where(tokens, 0)
    return losses.sum().to(logits.dtype), tokens.sum()
