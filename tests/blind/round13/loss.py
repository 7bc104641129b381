import torch
import torch.nn.functional as F

from attention_course.tasks.core import EOS, PAD

from blind import right, wrong


@right("a loop over single positions in float64, with logsumexp")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    losses = [logits.new_zeros((), dtype=torch.float64)]
    for scores, row in zip(logits, batch.target_out.tolist()):
        for score, token in zip(scores, row):
            if token != PAD:
                score = score.double()
                losses.append(score.logsumexp(0) - score[token])
    return torch.stack(losses).sum().to(logits.dtype), len(losses) - 1


@right("einsum of log-probabilities, one-hot targets and the mask, in float64")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    logp = F.log_softmax(logits, dim=-1, dtype=torch.float64)
    correct = F.one_hot(batch.target_out, logits.size(-1)).to(logp)
    counts = batch.target_out.ne(PAD).to(logp)
    total = torch.einsum("btv,btv,bt->", logp, correct, counts).neg()
    return total.to(logits.dtype), batch.target_out.ne(PAD).sum()


@right("selects the positions with tokens first, and needs no ignore_index")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    chosen, wanted = logits[keep], batch.target_out[keep]
    shifted = chosen - chosen.amax(dim=-1, keepdim=True).detach()
    normalizer = shifted.exp().sum(dim=-1).log()
    picked = shifted.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
    return (normalizer - picked).sum(), int(keep.sum())


@right("cross_entropy with the vocabulary on axis 1, unreduced, then torch.where")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    each = F.cross_entropy(
        logits.double().movedim(-1, 1), batch.target_out, reduction="none"
    )
    is_token = batch.target_out != PAD
    total = torch.where(is_token, each, torch.zeros_like(each)).sum(0).sum(0)
    return total.type_as(logits), torch.count_nonzero(is_token)


@wrong(
    "returns the mean over the tokens",
    "Return the *sum* of the losses over all positions that hold a token, and the number"
    " of these positions.",
    "mean instead of sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    mean = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD
    )
    return mean, (batch.target_out != PAD).sum()


@wrong(
    "adds up the losses of the padding as well",
    "A position at which `target_out` is `PAD` is padding and does not count, wherever in"
    " its row it stands.",
    "padding in the sum",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "leaves EOS out, as it does padding",
    "`EOS` counts as a token, because the model must learn where to stop.",
    "EOS does not count",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD) & (batch.target_out != EOS)
    total = F.cross_entropy(logits[keep], batch.target_out[keep], reduction="sum")
    return total, keep.sum()


@wrong(
    "takes the logarithm of a finished softmax, which is -inf for large logits",
    "The logits are finite, but they may be large, and they need not be contiguous.",
    "log of softmax instead of log_softmax",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    probabilities = logits.softmax(dim=-1)[keep]  # (N, V)
    right_ones = probabilities.gather(1, batch.target_out[keep][:, None])
    return -right_ones.log().sum(), keep.sum()


@wrong(
    "merges the axes with view, which fails for logits that are not contiguous",
    "The logits are finite, but they may be large, and they need not be contiguous.",
    "view of non-contiguous logits",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.view(-1, logits.size(-1)),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()


@wrong(
    "computes in float32 and leaves the sum so, for bfloat16 and float64 logits too",
    "They may have any floating-point dtype, and the sum must have the same dtype.",
    "sum always in float32",
    subtle=True,
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
    "counts the tokens of each row and takes that many positions from the row's"
    " beginning, which is wrong if a PAD stands between tokens",
    "A position at which `target_out` is `PAD` is padding and does not count, wherever in"
    " its row it stands.",
    "padding is expected only at the end",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    counts = (batch.target_out != PAD).sum(1)
    positions = torch.arange(logits.size(1), device=counts.device)
    keep = positions < counts[:, None]
    total = F.cross_entropy(logits[keep], batch.target_out[keep], reduction="sum")
    return total, counts.sum()


@wrong(
    "takes the mask from target_in, where a <pad> of the target stands one position later",
    "A position at which `target_out` is `PAD` is padding and does not count, wherever in"
    " its row it stands.",
    "mask from target_in",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_in != PAD
    total = F.cross_entropy(logits[keep], batch.target_out[keep], reduction="sum")
    return total, keep.sum()


@wrong(
    "overwrites PAD in the batch's own target_out by -100, the default of ignore_index",
    "Do not change the inputs.",
    "target_out changed in place",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    target = batch.target_out
    count = (target != PAD).sum()
    target[target == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
    return total, count


@wrong(
    "puts the model into train mode first, so an evaluation runs with dropout",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "loss changes the mode of the model",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    model.train()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, (batch.target_out != PAD).sum()
