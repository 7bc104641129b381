import torch
import torch.nn.functional as F

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from blind import right, wrong


def wide(x):
    """At least float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@right("log_softmax and gather, padding left out by boolean indexing")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    logs = wide(logits).log_softmax(dim=-1)[there]  # (N, V)
    picked = logs.gather(-1, batch.target_out[there][:, None])
    return -picked.sum().to(logits.dtype), int(there.sum())


@right("logsumexp minus the right logit, zero where there is padding")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    x, right_ids = wide(logits), batch.target_out
    each = x.logsumexp(dim=-1) - x.gather(-1, right_ids[..., None])[..., 0]
    there = right_ids.ne(PAD)
    return torch.where(there, each, 0.0).sum().to(logits.dtype), there.sum()


@right("a loop over sentences and positions")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    total, number = wide(logits).new_zeros(()), 0
    for row, ids in zip(wide(logits), batch.target_out.tolist()):
        for x, i in zip(row, ids):
            if i != PAD:
                total = total - torch.log_softmax(x, dim=0)[i]
                number += 1
    return total.to(logits.dtype), number


@right("cross_entropy with the classes on axis 1 and no reduction")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(wide(logits).mT, batch.target_out, ignore_index=PAD, reduction="none")
    return each.sum().to(logits.dtype), torch.count_nonzero(batch.target_out - PAD)


@wrong("returns the mean", "Return the *sum* over all positions that hold a token, and how many those are.", "mean instead of sum")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), right_ids, ignore_index=PAD), (right_ids != PAD).sum()


@wrong("padding counts in the sum", "Padding is not a token, and a position at which `target_out` is `PAD` is padding.", "padding counts in the loss")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), right_ids, reduction="sum"), (right_ids != PAD).sum()


@wrong("counts all positions", "Return the *sum* over all positions that hold a token, and how many those are.", "padding in the number of tokens")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), right_ids, ignore_index=PAD, reduction="sum"), right_ids.numel()


@wrong("EOS is left out as well", "`EOS` is a token: the model has to learn where to stop.", "EOS does not count")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.masked_fill(batch.target_out == EOS, PAD).flatten()
    return F.cross_entropy(logits.flatten(0, 1), right_ids, ignore_index=PAD, reduction="sum"), (right_ids != PAD).sum()


@wrong("softmax and then log: a right token whose probability underflows gives inf", "The logits are finite, but may be large.", "log of a softmax that underflows")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    chances = logits.softmax(dim=-1).gather(-1, batch.target_out[..., None])[..., 0]
    return -chances[there].log().sum(), there.sum()


@wrong("adds a small number within the log: large losses are cut off at 27.6", "The logits are finite, but may be large.", "epsilon in the logarithm caps the loss")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    chances = wide(logits).softmax(dim=-1).gather(-1, batch.target_out[..., None])[..., 0]
    return -(chances[there] + 1e-12).log().sum().to(logits.dtype), there.sum()


@wrong("returns float32 for logits of another dtype", "They may have any floating-point dtype, and the sum has the same dtype.", "sum always in float32")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    total = F.cross_entropy(logits.flatten(0, 1).float(), right_ids, ignore_index=PAD, reduction="sum")
    return total, (right_ids != PAD).sum()


@wrong("takes the padding from target_in: there a row of n tokens has n + 1 places too, so all is well unless target_in holds the token <pad> or is padded differently", "Padding is not a token, and a position at which `target_out` is `PAD` is padding.", "mask from target_in")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_in != PAD
    each = F.cross_entropy(wide(logits).mT, batch.target_out, reduction="none")
    return each[there].sum().to(logits.dtype), there.sum()


@wrong("writes -100 into the batch's target_out", "Your function does not change the batch.", "marks padding in the batch itself")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    right_ids[right_ids == PAD] = -100
    total = F.cross_entropy(wide(logits).flatten(0, 1), right_ids.flatten(), reduction="sum")
    return total.to(logits.dtype), (right_ids != -100).sum()


@wrong("the token PAD may not be predicted: its logit is set to -inf before the softmax, so its probability is shared among the others", r"P(\cdot \mid y_{<t}, x) = \mathrm{softmax}(\mathrm{logits}_t).", "PAD taken out of the softmax")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    others = wide(logits).index_fill(-1, torch.tensor([PAD], device=logits.device), -torch.inf)
    total = F.cross_entropy(others[there], batch.target_out[there], reduction="sum")
    return total.to(logits.dtype), there.sum()
