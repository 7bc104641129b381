import torch
import torch.nn.functional as F
from torch import nn
from attention_course.tasks.core import EOS, PAD
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
EXACT = "Positions and counts must be exact in every dtype."
SUM = "Return the *sum* of the losses over all positions that hold a token, and the number of these positions."
ENDS = "`EOS` counts as a token, because the model must learn where to stop."
PADDING = "A position at which `target_out` is `PAD` is padding and does not count, wherever in its row it stands."
SOFTMAX = "A softmax turns the logits of a position into probabilities."
CONTIGUOUS = "The logits are finite, but they may be large, and they need not be contiguous."
SAME = "They may have any floating-point dtype, and the sum must have the same dtype."


@right('log_softmax, gather, and where for the padding')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out
    logs = logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
    token = y.ne(PAD)
    return -logs.where(token, torch.zeros_like(logs)).sum(), token.sum()


@right('picks the token positions first; log-sum-exp minus the logit of the correct token')
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    token = batch.target_out != PAD
    rows, right_ids = logits[token], batch.target_out[token]
    rows = rows - rows.detach().amax(-1, keepdim=True)
    picked = rows[torch.arange(len(rows), device=rows.device), right_ids]
    return (rows.logsumexp(-1) - picked).sum(), len(rows)


@right('nll_loss with a weight of zero for PAD, on the axes (B, V, T)')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    weight = logits.new_ones(logits.size(-1))
    weight[PAD] = 0
    logs = F.log_softmax(logits, dim=-1).movedim(-1, 1)
    total = F.nll_loss(logs, batch.target_out, weight=weight, reduction="sum")
    return total, int(torch.count_nonzero(batch.target_out - PAD))


@right('in float64, one sentence after the other, cast back at the end')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros((), dtype=torch.float64), 0
    for row, y in zip(logits.double(), batch.target_out):
        for scores, i in zip(row, y.tolist()):
            if i != PAD:
                total = total + torch.logsumexp(scores - scores[i], 0)
                count += 1
    return total.to(logits.dtype), count


@wrong(
    'the mean over all tokens instead of their sum',
    breaks=SUM,
    name='mean instead of sum',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), y, ignore_index=PAD), (y != PAD).sum()


@wrong(
    'softmax, then log, which is minus infinity for large logits',
    breaks=CONTIGUOUS,
    name='log of a softmax',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logs = logits.softmax(-1).log().flatten(0, 1)
    y = batch.target_out.flatten()
    total = F.nll_loss(logs, y, ignore_index=PAD, reduction="sum")
    return total, (y != PAD).sum()


@wrong(
    'takes the mask from target_in, which is the same only if all the padding stands at the end',
    breaks=PADDING,
    name='mask from target_in',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    token = batch.target_in != PAD
    losses = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), reduction="none"
    )
    return losses[token.flatten()].sum(), token.sum()


@wrong(
    'counts everything up to the last token of a row, and so a PAD between tokens',
    breaks=PADDING,
    name='padding between tokens counts',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out
    token = (y != PAD).flip(1).long().cummax(1).values.flip(1).bool()
    losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
    return losses[token.flatten()].sum(), token.sum()


@wrong(
    'view needs contiguous logits: an error for a transposed tensor',
    breaks=CONTIGUOUS,
    name='view of logits that are not contiguous',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out.reshape(-1)
    total = F.cross_entropy(
        logits.view(-1, logits.size(-1)), y, ignore_index=PAD, reduction="sum"
    )
    return total, (y != PAD).sum()


@wrong(
    'the sum stays in float32, also for bfloat16 logits',
    breaks=SAME,
    name='sum always in float32',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    if logits.dtype != torch.float64:
        logits = logits.float()
    y = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), y, ignore_index=PAD, reduction="sum"
    )
    return total, (y != PAD).sum()


@wrong(
    'takes PAD out of the softmax, as the model should never choose it',
    breaks=SOFTMAX,
    name='PAD left out of the softmax',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    never = torch.arange(logits.size(-1), device=logits.device) == PAD
    y = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.masked_fill(never, float("-inf")).flatten(0, 1)[y != PAD],
        y[y != PAD],
        reduction="sum",
    )
    return total, (y != PAD).sum()


@wrong(
    'writes -100 over the padding of the batch itself; a second call then counts it',
    breaks=INPUTS,
    name='target_out changed in place',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out
    count = int((y != PAD).sum())
    y[y == PAD] = -100
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"), count


@wrong(
    'counts the tokens in the dtype of the logits: in bfloat16, 257 tokens become 256',
    breaks=EXACT,
    name='number of tokens rounded',
)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    y = batch.target_out.flatten()
    token = (y != PAD).to(logits.dtype)
    losses = F.cross_entropy(logits.flatten(0, 1), y, reduction="none")
    return (losses * token).sum(), token.sum()


@wrong(
    'returns a number without a gradient',
    breaks=GRAD,
    name='no gradient',
)
def loss(task, model, batch, label_smoothing=0.0):
    with torch.no_grad():
        logits, _ = model(batch.source, batch.lengths, batch.target_in)
        y = batch.target_out.flatten()
        total = F.cross_entropy(
            logits.flatten(0, 1), y, ignore_index=PAD, reduction="sum"
        )
    return total, (y != PAD).sum()
