import torch
import torch.nn.functional as F

from attention_course.tasks.core import EOS, PAD

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


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
    "adds up and counts all positions, padding too",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "padding counted",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"
    )
    return total, batch.target_out.numel()


@wrong(
    "leaves EOS out as well as padding",
    "`EOS` counts as a token, because the model must learn where to stop.",
    "EOS does not count",
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    counts = (batch.target_out != PAD) & (batch.target_out != EOS)
    total = F.cross_entropy(logits[counts], batch.target_out[counts], reduction="sum")
    return total, counts.sum()


@wrong(
    "takes the logarithm of a softmax: large logits give a probability of 0 and -inf",
    "The logits are finite, but they may be large.",
    "log of a softmax",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = logits.softmax(dim=-1).log()
    right_one = log_p.gather(-1, batch.target_out[..., None])[..., 0]
    counts = batch.target_out != PAD
    return -right_one[counts].sum(), counts.sum()


@wrong(
    "finds the padding in target_in: where the target has the token <pad>, the position"
    " after it is left out instead of its own",
    "A position at which `target_out` is `PAD` is padding and does not count.",
    "padding looked up in target_in",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    counts = batch.target_in != PAD
    total = F.cross_entropy(logits[counts], batch.target_out[counts], reduction="sum")
    return total, counts.sum()


@wrong(
    "computes in float32 and returns float32, whatever the logits are",
    "They may have any floating-point dtype, and the sum must have the same dtype.",
    "sum always float32",
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
    "writes -100 over the padding in the batch itself",
    "Do not change the inputs.",
    "target_out changed in place",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    wanted = batch.target_out
    wanted[wanted == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
    return total, (wanted != -100).sum()


@wrong(
    "counts in the dtype of the logits: 257 tokens in bfloat16 are 256",
    "Positions and counts, however, must be exact in every dtype.",
    "count rounded to the dtype of the logits",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    counts = (batch.target_out != PAD).to(logits.dtype)
    each = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    return (each * counts.flatten()).sum(), counts.sum()


@wrong(
    "puts the model into eval mode before it calls it",
    "Do not change the inputs.",
    "mode of the model changed",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
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
    "adds up Python numbers, so no gradient comes back to the model",
    "Gradients must be right, too.",
    "gradient lost by item()",
    subtle=True,
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = logits.new_zeros(())
    for row, wanted in zip(logits.log_softmax(-1), batch.target_out.tolist()):
        for log_p, token in zip(row, wanted):
            if token != PAD:
                total -= log_p[token].item()
    return total, int((batch.target_out != PAD).sum())


# ---------------------------------------------------------------- right answers


@right("logsumexp minus the logit of the right token, in float64")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    precise = logits.double()
    chosen = precise.gather(2, batch.target_out.unsqueeze(2)).squeeze(2)
    each = precise.logsumexp(dim=2) - chosen
    counts = batch.target_out.ne(PAD)
    return each.masked_fill(~counts, 0).sum().to(logits.dtype), counts.sum()


@right("a loop over positions, and an int for the count")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    log_p = F.log_softmax(logits.double(), dim=-1)
    total, number = logits.new_zeros((), dtype=torch.float64), 0
    for b in range(log_p.size(0)):
        for t in range(log_p.size(1)):
            token = int(batch.target_out[b, t])
            if token == PAD:
                continue
            total = total - log_p[b, t, token]
            number += 1
    return total.to(logits.dtype), number


@right("one-hot targets whose row of PAD is zero, and einsum")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    log_p = logits.to(torch.float64).log_softmax(dim=-1)
    wanted = F.one_hot(batch.target_out, logits.size(-1)).to(log_p)
    wanted = wanted * (batch.target_out != PAD)[..., None]
    total = -torch.einsum("btv,btv->", log_p, wanted)
    return total.to(logits.dtype), torch.count_nonzero(batch.target_out - PAD)


@right("nll_loss of a log_softmax, padding renamed in a copy, a sum for every row")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    wanted = batch.target_out.masked_fill(batch.target_out == PAD, -100)
    log_p = F.log_softmax(logits, dim=2).flatten(0, 1)
    each = F.nll_loss(log_p, wanted.flatten(), reduction="none").view_as(wanted)
    return each.sum(dim=1).sum(dim=0), (wanted >= 0).sum().item()
