import torch
import torch.nn.functional as F
from attention_course.tasks.core import BOS, EOS, PAD
from blind import right, wrong

PADDING = "A position at which `target_out` is `PAD` is padding and does not count, wherever in its row it stands."
DTYPE = "They may have any floating-point dtype, and the sum must have the same dtype."
SUM = "Return the *sum* of the losses over all positions that hold a token, and the number of these positions."


@right("log_softmax in float64, gather, masked_select")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out.ne(PAD)
    picked = logits.double().log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    return picked.masked_select(keep).sum().neg().to(logits.dtype), int(keep.sum())


@right("logsumexp minus the logit of the right token")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    where = batch.target_out != PAD
    chosen, right_ids = logits[where], batch.target_out[where]  # (N, V), (N,)
    wide = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
    total = (wide.logsumexp(-1) - torch.take_along_dim(wide, right_ids[:, None], 1)[:, 0]).sum()
    return total.to(logits.dtype), where.count_nonzero()


@right("nll_loss with the classes on axis 1 and ignore_index")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_p = F.log_softmax(logits.transpose(1, 2).double(), dim=1)
    total = F.nll_loss(log_p, batch.target_out, ignore_index=PAD, reduction="sum")
    return total.to(logits.dtype), batch.target_out.numel() - (batch.target_out == PAD).sum()


@right("position by position, in a loop over the sentences")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    terms, count = [], 0
    for row, ids in zip(logits, batch.target_out.tolist()):
        for scores, i in zip(row, ids):
            if i == PAD:
                continue
            scores = scores.double()
            scores = scores - scores.max().detach()
            terms.append(scores.exp().sum().log() - scores[i])
            count += 1
    total = torch.stack(terms).sum() if terms else 0.0 * logits.double().flatten()[:1].sum()
    return total.to(logits.dtype), count


@wrong("shifts again: compares the logits of position t with the target of t + 1",
       breaks="The loss of a position is the negative logarithm of the probability that the model gives to the correct token:",
       name="shifted twice")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits, target = logits[:, :-1], batch.target_out[:, 1:]
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum")
    return total, (target != PAD).sum()


@wrong("the sum includes the positions of padding (the count does not)", breaks=PADDING, name="padding counted in the sum")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum")
    return total, (batch.target_out != PAD).sum()


@wrong("EOS is left out of sum and count", breaks="`EOS` counts as a token, because the model must learn where to stop.",
       name="EOS not counted")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD) & (batch.target_out != EOS)
    losses = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return losses.masked_fill(~keep, 0).sum(), keep.sum()


@wrong("log(softmax + 1e-9): a loss is at most 20.7, and very wrong tokens get no gradient",
       breaks="The logits are finite, but they may be large, and they need not be contiguous.",
       name="epsilon inside the logarithm")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_out != PAD
    p = logits.softmax(-1).gather(-1, batch.target_out[..., None])[..., 0]
    losses = -(p + 1e-9).log()
    return losses.masked_fill(~keep, 0).sum(), keep.sum()


@wrong("sum in float32, whatever the dtype of the logits", breaks=DTYPE, name="float32 result")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.float().flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()


@wrong("a row ends at its first PAD: tokens behind it do not count", breaks=PADDING, name="padding only at the end")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD).long().cumprod(1).bool()
    losses = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return losses.masked_fill(~keep, 0).sum(), keep.sum()


@wrong("looks for padding in target_in, which differs where a target holds PAD among its tokens", breaks=PADDING,
       name="mask from target_in")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = batch.target_in != PAD
    losses = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return losses.masked_fill(~keep, 0).sum(), keep.sum()


@wrong("writes -100 into the batch's target_out", breaks="Do not change the inputs.", name="target_out changed in place")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    target = batch.target_out
    target[target == PAD] = -100
    total = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
    return total, (target != -100).sum()


@wrong("counts in the dtype of the logits: bfloat16 cannot count beyond 256",
       breaks="Positions and counts must be exact in every dtype.", name="tokens counted in bfloat16")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    keep = (batch.target_out != PAD).to(logits.dtype)
    losses = F.cross_entropy(logits.transpose(1, 2), batch.target_out, reduction="none")
    return (losses * keep).sum(), keep.sum()


@wrong("switches the model to eval mode: no dropout in training any more",
       breaks="Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
       name="model.eval() inside the loss")
def loss(task, model, batch, label_smoothing=0.0):
    if hasattr(model, "eval"):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(
        logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total, (batch.target_out != PAD).sum()
