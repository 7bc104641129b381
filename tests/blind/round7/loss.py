import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong


@right("log_softmax and gather, then only the places that hold a token are picked and summed")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    token = batch.target_out != PAD
    chosen = logits[token].log_softmax(-1)
    right_ones = batch.target_out[token]
    return -chosen.gather(1, right_ones[:, None]).sum(), token.sum()


@right("logsumexp minus the right logit, with torch.where for the padding")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    picked = torch.take_along_dim(logits, batch.target_out.unsqueeze(-1), dim=-1)
    each = torch.logsumexp(logits, dim=-1) - picked.squeeze(-1)
    padding = batch.target_out.eq(PAD)
    total = torch.where(padding, torch.zeros_like(each), each).sum()
    return total, int((~padding).sum())


@right("cross_entropy with the vocabulary as second axis, torch.count_nonzero since PAD is 0")
def loss(task, model, batch, label_smoothing=0.0):
    source, lengths, target_in, target_out = batch
    logits, _ = model(source, lengths, target_in)
    total = F.cross_entropy(
        logits.movedim(-1, 1), target_out, ignore_index=PAD, reduction="sum"
    )
    return total, torch.count_nonzero(target_out)


@right("the module nn.CrossEntropyLoss with reduction none, summed sentence by sentence")
def loss(task, model, batch, label_smoothing=0.0):
    criterion = nn.CrossEntropyLoss(reduction="none", ignore_index=PAD)
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    sums, tokens = [], 0
    for rows, ids in zip(logits, batch.target_out):
        sums.append(criterion(rows, ids).sum())
        tokens += len([i for i in ids.tolist() if i != PAD])
    return torch.stack(sums).sum(), tokens


@wrong(
    "returns the mean over the tokens in place of the sum",
    "Return the *sum* over all positions that hold a token, and how many those are.",
    "mean in place of the sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    total = F.cross_entropy(logits.flatten(0, 1), right_ids, ignore_index=PAD)
    return total, (right_ids != PAD).sum()


@wrong(
    "no ignore_index: the padding counts in the sum, though not in the number of tokens",
    "Padding is not, and a position at which `target_out` is `PAD` is padding.",
    "padding counted in the loss",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    total = F.cross_entropy(logits.flatten(0, 1), right_ids, reduction="sum")
    return total, (right_ids != PAD).sum()


@wrong(
    "the sum is right, but the number is that of all places, padding included",
    "Return the *sum* over all positions that hold a token, and how many those are.",
    "number of tokens includes padding",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, batch.target_out.numel()


@wrong(
    "softmax first and the logarithm afterwards: with large logits the probability is 0 and the loss inf",
    "Logits may be large, and come in any floating-point dtype; the sum has the same one.",
    "log of softmax underflows for large logits",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    probability = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    token = batch.target_out != PAD
    return -probability[token].log().sum(), token.sum()


@wrong(
    "view in place of flatten: logits that are not contiguous (a transposed tensor) raise",
    "The model returns logits (B, T, V): for each position, one number for every token that might stand there.",
    "view fails on logits that are not contiguous",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.reshape(-1)
    total = F.cross_entropy(
        logits.view(-1, logits.size(-1)), right_ids, ignore_index=PAD, reduction="sum"
    )
    return total, (right_ids != PAD).sum()


@wrong(
    "computes in float32, and so the sum is float32 for logits of float64 (or bfloat16)",
    "Logits may be large, and come in any floating-point dtype; the sum has the same one.",
    "sum is always float32",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1).float(), right_ids, ignore_index=PAD, reduction="sum"
    )
    return total, (right_ids != PAD).sum()


@wrong(
    "marks the padding with -100 in the batch itself: target_out is changed",
    "The batch stays as it is.",
    "writes -100 into the batch",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = (batch.target_out != PAD).sum()
    batch.target_out[batch.target_out == PAD] = -100
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, tokens


@wrong(
    "forbids PAD as an answer by -inf before the softmax: the probability of PAD is missing from the denominator, and each loss is too low",
    "P(\\cdot \\mid y_{<t}, x) = \\mathrm{softmax}(\\mathrm{logits}_t).",
    "PAD is left out of the softmax",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    never = torch.arange(logits.size(-1), device=logits.device) == PAD
    logits = logits.masked_fill(never, float("-inf"))
    token = batch.target_out != PAD
    total = F.cross_entropy(logits[token], batch.target_out[token], reduction="sum")
    return total, token.sum()


@wrong(
    "gets (B, V, T) by reshape, not by transposing: the numbers of different positions are mixed, unless T is 1",
    "The loss of a position is the negative logarithm of the probability that the right token gets,",
    "reshape used where a transpose is needed",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    size, steps, vocabulary = logits.shape
    total = F.cross_entropy(
        logits.reshape(size, vocabulary, steps),
        batch.target_out,
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()
