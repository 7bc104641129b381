import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch

from blind import right, wrong


@right("logsumexp minus the correct logit, both below the maximum, only where it counts")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    counts = batch.target_out != PAD
    chosen, correct = logits[counts], batch.target_out[counts]
    chosen = chosen - chosen.detach().amax(dim=-1, keepdim=True)
    hit = chosen.gather(-1, correct[:, None]).squeeze(-1)
    return (chosen.logsumexp(-1) - hit).sum(), counts.sum()


@right("softmax by hand with the maximum taken off; a one-hot matrix picks the token")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    shifted = logits - logits.max(dim=-1, keepdim=True).values.detach()
    log_probabilities = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    correct = F.one_hot(batch.target_out, logits.size(-1)).bool()
    here = (batch.target_out != PAD)[:, :, None]
    losses = torch.where(correct & here, -log_probabilities, 0)
    return losses.sum(), int(here.sum())


@right("one call per sentence with cross_entropy, the sums stacked and added once")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    sums, number = [], 0
    for row, target in zip(logits, batch.target_out):
        keep = target.ne(PAD)
        sums.append(F.cross_entropy(row[keep], target[keep], reduction="none"))
        number += int(keep.count_nonzero())
    return torch.cat(sums).sum(), number


@right("the module NLLLoss on log_softmax, with the classes on axis 1")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    criterion = nn.NLLLoss(ignore_index=PAD, reduction="sum")
    total = criterion(logits.log_softmax(dim=2).transpose(1, 2), batch.target_out)
    number = batch.target_out.numel() - torch.sum(batch.target_out == PAD)
    return total, number


@wrong(
    "returns the mean, the default of cross_entropy",
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
    "no ignore_index: the losses at the padding are in the sum",
    "- A position at which `target_out` is `PAD` is padding and does not count.",
    "padding counts in the sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "leaves out EOS, in the sum and in the number",
    "- `EOS` counts as a token, because the model must learn where to stop.",
    "EOS is not counted",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    counts = (batch.target_out != PAD) & (batch.target_out != EOS)
    return losses[counts].sum(), counts.sum()


@wrong(
    "softmax and logarithm one after the other: with large logits the probability is 0 and"
    " the loss infinite",
    "- The logits are finite, but they may be large.",
    "log of a softmax that underflows",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    probabilities = logits.softmax(dim=-1)
    correct = probabilities.gather(-1, batch.target_out[..., None])[..., 0]
    counts = batch.target_out != PAD
    return -correct[counts].log().sum(), counts.sum()


@wrong(
    "computes in float32 and returns float32, whatever the dtype of the logits",
    "They may have any floating-point dtype, and the sum must have the same dtype.",
    "sum is float32 for other dtypes",
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


@wrong(
    "adds up position by position in the dtype of the logits: in bfloat16 a long batch"
    " stops growing (2048 + 6 is 2048)",
    "- Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "running sum in bfloat16 stops growing",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    total, number = logits.new_zeros(()), 0
    for b, t in (batch.target_out != PAD).nonzero().tolist():
        total = total + losses[b, t]
        number += 1
    return total, number


@wrong(
    "sets the logit of PAD to minus infinity, because PAD is never"
    " the answer: the probabilities of all other tokens grow",
    "The loss of a position is the negative logarithm of the probability that the model"
    " gives to the correct token:",
    "PAD is taken out of the softmax",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    banned = torch.arange(logits.size(-1), device=logits.device) == PAD
    logits = logits.masked_fill(banned, -torch.inf)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "calls the model by the names of its arguments: a model whose forward calls them"
    " otherwise raises TypeError",
    "- Call the model as `model(source, lengths, target_in)`.",
    "calls the model with keyword arguments",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(
        source=batch.source, lengths=batch.lengths, target_in=batch.target_in
    )
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "takes the mask from target_in, which has its padding at the same places, unless a"
    " target contains the token '<pad>': then the PAD in target_out counts and the token"
    " after it does not",
    "- A position at which `target_out` is `PAD` is padding and does not count.",
    "mask is made from target_in",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = F.cross_entropy(logits.mT, batch.target_out, reduction="none")
    counts = batch.target_in != PAD
    return losses[counts].sum(), counts.sum()


@wrong(
    "counts the first EOS of each row as its end and takes everything before it: a token"
    " '<eos>' inside a target ends the row too early",
    "Return the *sum* of the losses over all positions that hold a token, and the number of"
    " these positions.",
    "row ends at its first EOS",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ends = (batch.target_out == EOS).long().argmax(dim=1, keepdim=True)
    counts = torch.arange(batch.target_out.size(1), device=ends.device) <= ends
    targets = batch.target_out.masked_fill(~counts, -100)
    total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    return total, int(counts.sum())
