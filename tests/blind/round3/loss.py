import torch
import torch.nn.functional as F
from blind import right, wrong

from attention_course.tasks.core import EOS, PAD


# Right
@right("takes the positions of tokens only, log_softmax, and picks by index")
def r1(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    b, t = (batch.target_out != PAD).nonzero(as_tuple=True)
    log_probs = logits[b, t].log_softmax(dim=-1)
    picked = log_probs[torch.arange(len(b), device=b.device), batch.target_out[b, t]]
    return picked.sum().neg(), len(b)


@right("cross entropy with the axis V second, no ignore_index; where puts zeros")
def r2(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    right_ids = batch.target_out
    each = F.cross_entropy(logits.transpose(1, 2), right_ids, reduction="none")
    there = right_ids.ne(PAD)
    return torch.where(there, each, torch.zeros_like(each)).sum(), int(there.sum())


@right("double precision, logsumexp by hand, gather, and back to the dtype")
def r3(task, model, batch, label_smoothing=0.0):
    logits, *_ = model(batch.source, batch.lengths, batch.target_in)
    x = logits.double()
    top = x.detach().amax(dim=-1, keepdim=True)
    all_of_them = (x - top).exp().sum(dim=-1).log() + top.squeeze(-1)
    chosen = x.gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    tokens = torch.logical_not(batch.target_out == PAD)
    total = (all_of_them - chosen).masked_fill(~tokens, 0).sum()
    return total.to(logits.dtype), tokens.sum().item()


@right("a loop over sentences, nll_loss on log_softmax of each")
def r4(task, model, batch, label_smoothing=0.0):
    logits = model(batch.source, batch.lengths, batch.target_in)[0]
    losses, count = [], 0
    for rows, ids in zip(logits.unbind(0), batch.target_out.unbind(0), strict=True):
        losses.append(
            F.nll_loss(rows.log_softmax(1), ids, ignore_index=PAD, reduction="sum")
        )
        count += sum(i != PAD for i in ids.tolist())
    return torch.stack(losses).sum(), count


# Wrong


@wrong(
    "padding is in the sum, although not in the count",
    breaks="`EOS` is a token: where to stop has to be learned. Padding is not.",
    name="padding counts in the sum",
    subtle=True,
)
def w1(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(logits.flatten(0, 1), ids, reduction="sum")
    return total, int((ids != PAD).sum())


@wrong(
    "counts all places of the rectangle",
    breaks="Return the *sum* over all positions that hold a token, and how many those"
    " are.",
    name="padding counts in the number",
    subtle=True,
)
def w2(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, ids.numel()


@wrong(
    "softmax, clamped at 1e-9, and its logarithm",
    breaks="Logits may be large",
    name="logarithm of a clamped softmax",
    subtle=True,
)
def w3(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    log_probs = logits.softmax(-1).clamp(min=1e-9).log()
    each = -log_probs.gather(-1, batch.target_out[..., None]).squeeze(-1)
    tokens = batch.target_out != PAD
    return each[tokens].sum(), int(tokens.sum())


@wrong(
    "makes float32 of the logits and leaves it at that",
    breaks="come in any floating-point dtype; the sum has the same one",
    name="float32 whatever comes in",
    subtle=True,
)
def w4(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.float().flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, int((ids != PAD).sum())


@wrong(
    "writes -100 over the padding of the batch",
    breaks="The batch stays as it is.",
    name="padding overwritten in the batch",
    subtle=True,
)
def w5(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    labels = batch.target_out
    tokens = labels != PAD
    labels[~tokens] = -100
    total = F.cross_entropy(logits.transpose(1, 2), labels, reduction="sum")
    return total, int(tokens.sum())


@wrong(
    "the number of tokens from the lengths, which are those of the sources",
    breaks="Return the *sum* over all positions that hold a token, and how many those"
    " are.",
    name="number of source tokens",
    subtle=True,
)
def w6(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, int(batch.lengths.sum())


@wrong(
    "EOS is left out with the padding",
    breaks="`EOS` is a token: where to stop has to be learned.",
    name="EOS does not count",
)
def w7(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = (batch.target_out != PAD) & (batch.target_out != EOS)
    total = F.cross_entropy(logits[tokens], batch.target_out[tokens], reduction="sum")
    return total, int(tokens.sum())


@wrong(
    "a new tensor from the number: nothing can be learned from it",
    breaks="A loss is what one trains by.",
    name="no gradient",
    subtle=True,
)
def w8(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return logits.new_tensor(total.item()), int((ids != PAD).sum())


@wrong(
    "puts the model into eval mode and leaves it there",
    breaks="what it was handed is unchanged",
    name="model left in eval mode",
    subtle=True,
)
def w9(task, model, batch, label_smoothing=0.0):
    if isinstance(model, torch.nn.Module):
        model.eval()
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    ids = batch.target_out.flatten()
    total = F.cross_entropy(
        logits.flatten(0, 1), ids, ignore_index=PAD, reduction="sum"
    )
    return total, int((ids != PAD).sum())


@wrong(
    "positions of unknown tokens are left out: nobody should say <unk>",
    breaks="Return the *sum* over all positions that hold a token",
    name="UNK does not count",
    subtle=True,
)
def w10(task, model, batch, label_smoothing=0.0):
    logits, _ = model(batch.source, batch.lengths, batch.target_in)
    tokens = (batch.target_out != PAD) & (batch.target_out != 3)
    total = F.cross_entropy(logits[tokens], batch.target_out[tokens], reduction="sum")
    return total, int(tokens.sum())
