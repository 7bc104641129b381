import torch
import torch.nn.functional as F

from blind import right, wrong
from attention_course.tasks.core import EOS, PAD

SUM = "Return the *sum* over all positions that hold a token, and how many those are."
PADDING = "`EOS` is a token: where to stop has to be learned. Padding is not."
LARGE = "Logits may be large, and come in any floating-point dtype; the sum has the same one."
BTV = "The model answers with logits (B, T, V): for each position, a number for every token that might stand there."
RIGHT = "The loss of a position is the negative logarithm of the probability that the right token gets,"


@right("cross_entropy over turned axes (B, V, T)")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@right("log_softmax and gather")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    said = logits.log_softmax(-1).gather(-1, batch.target_out[..., None]).squeeze(-1)
    there = batch.target_out != PAD
    return -said.where(there, torch.zeros_like(said)).sum(), int(there.sum())


@right("tokens chosen first, then a log_softmax by hand, shifted by the largest")
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out.ne(PAD)
    rows, ids = logits[there], batch.target_out[there]
    rows = rows - rows.amax(-1, keepdim=True).detach()
    right_ones = rows[torch.arange(len(ids), device=ids.device), ids]
    return (rows.exp().sum(-1).log() - right_ones).sum(), len(ids)


@right("sentence by sentence")
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    total, count = logits.new_zeros(()), 0
    for row, ids in zip(logits, batch.target_out):
        keep = ids != PAD
        total = total + F.cross_entropy(row[keep], ids[keep], reduction="sum")
        count += int(keep.sum())
    return total, count


@wrong("mean", breaks=SUM, name="mean in place of the sum")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
    return total, int((batch.target_out != PAD).sum())


@wrong("padding counts", breaks=PADDING, name="padding has a say")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum")
    return total, batch.target_out.numel()


@wrong("compared with target_in", breaks=RIGHT, name="the wrong target")
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_in.flatten(), ignore_index=PAD, reduction="sum")
    return total, int((batch.target_in != PAD).sum())


@wrong("logits cut at 30", breaks=LARGE, name="large logits cut off", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    return F.cross_entropy(logits[there].clamp(-30.0, 30.0), batch.target_out[there], reduction="sum"), int(there.sum())


@wrong("softmax first, then the logarithm", breaks=LARGE, name="log of a vanished probability", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    there = batch.target_out != PAD
    shares = logits[there].softmax(-1).gather(-1, batch.target_out[there][:, None])
    return -shares.log().sum(), int(there.sum())


@wrong("always single precision", breaks=LARGE, name="dtype not kept", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0].float()
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
    return total, int((batch.target_out != PAD).sum())


@wrong("writes -100 into the batch", breaks="The batch stays as it is.", name="input changed", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    count = int((batch.target_out != PAD).sum())
    batch.target_out[batch.target_out == PAD] = -100
    return F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), reduction="sum"), count


@wrong("reads up to the first EOS only", breaks=SUM, name="tokens behind an <eos> of the text are lost", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    end = (batch.target_out == EOS).long()
    there = (end.cumsum(1) - end == 0) & (batch.target_out != PAD)
    return F.cross_entropy(logits[there], batch.target_out[there], reduction="sum"), int(there.sum())


@wrong("squeeze: a batch of one loses its axis", breaks=BTV, name="axis of length one lost", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    logits, ids = logits.squeeze(0), batch.target_out.squeeze(0)
    total = F.cross_entropy(logits.mT, ids, ignore_index=PAD, reduction="sum")
    return total, int((ids != PAD).sum())


@wrong("the graph is cut by item()", breaks="A loss is what one trains by.", name="no gradient", subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    total = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
    return logits.new_tensor(total.item()), int((batch.target_out != PAD).sum())
