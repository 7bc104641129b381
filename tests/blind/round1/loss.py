from blind import right, wrong
import torch
import torch.nn.functional as F

from attention_course.tasks.core import BOS, EOS, PAD, UNK


@right('log_softmax and gather, padded places taken out first')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    there = right_ids != PAD
    logp = torch.log_softmax(logits[there], dim=-1)
    return -logp.gather(-1, right_ids[there][:, None]).sum(), int(there.sum())


@right('logsumexp less the right logit, chosen by where')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    there = right_ids.ne(PAD)
    picked = logits.take_along_dim(right_ids.unsqueeze(-1), -1).squeeze(-1)
    each = logits.logsumexp(-1) - picked
    return torch.where(there, each, torch.zeros_like(each)).sum(), there.sum().item()


@right('cross entropy with the vocabulary as second axis, per position')
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    each = F.cross_entropy(logits.transpose(1, 2), right_ids, reduction="none", ignore_index=PAD)
    return each.sum(), right_ids.numel() - int((right_ids == PAD).sum())


@right('a loop over the sentences')
def loss(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    total, count = logits.new_zeros(()), 0
    for row, ids in zip(logits, batch.target_out):
        keep = ids.nonzero()[:, 0] if PAD == 0 else (ids != PAD).nonzero()[:, 0]
        total = total + F.nll_loss(row[keep].log_softmax(-1), ids[keep], reduction="sum")
        count += len(keep)
    return total, count


@wrong('mean in place of sum', breaks='Return the *sum* over all positions that hold a token, and how many those are.', name='mean', subtle=False)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), ignore_index=PAD, reduction='mean'), int((right_ids != PAD).sum())


@wrong('padding counts, in sum and number', breaks='`EOS` is a token: where to stop has to be learned. Padding is not.', name='padding counted', subtle=False)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), reduction='sum'), right_ids.numel()


@wrong('EOS is left out like padding', breaks='`EOS` is a token: where to stop has to be learned. Padding is not.', name='EOS not counted', subtle=False)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    there = (right_ids != PAD) & (right_ids != EOS)
    return F.cross_entropy(logits[there], right_ids[there], reduction="sum"), int(there.sum())


@wrong('right sum, but the number counts all places', breaks='Return the *sum* over all positions that hold a token, and how many those are.', name='places counted in place of tokens', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), ignore_index=PAD, reduction='sum'), right_ids.numel()


@wrong('probabilities held above 1e-8: very wrong answers cost too little, and teach nothing', breaks='The loss of a position is the negative logarithm of the probability that the right token gets,', name='probability clamped', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    there = right_ids != PAD
    p = logits[there].softmax(-1).gather(-1, right_ids[there][:, None])
    return -p.clamp(min=1e-8).log().sum(), int(there.sum())




@wrong('a plain number, cut off from the model', breaks='A loss is what one trains by.', name='gradient cut', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), ignore_index=PAD, reduction='sum').detach(), int((right_ids != PAD).sum())


@wrong('UNK is left out like padding', breaks='Return the *sum* over all positions that hold a token, and how many those are.', name='UNK not counted', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    there = (right_ids != PAD) & (right_ids != UNK)
    return F.cross_entropy(logits[there], right_ids[there], reduction="sum"), int(there.sum())


@wrong('the sum has an axis of length one', breaks='The sum of the losses of all tokens in nats, a tensor without axes, and the number of tokens.', name='tensor with an axis', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), ignore_index=PAD, reduction='none').sum(0, keepdim=True), int((right_ids != PAD).sum())


@wrong('a batch of nothing but padding is said to hold a token', breaks='Return the *sum* over all positions that hold a token, and how many those are.', name='number raised to one', subtle=True)
def loss(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    right_ids = batch.target_out
    return F.cross_entropy(logits.flatten(0, 1), right_ids.flatten(), ignore_index=PAD, reduction='sum'), max(1, int((right_ids != PAD).sum()))
