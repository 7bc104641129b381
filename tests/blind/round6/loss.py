import torch
import torch.nn.functional as F
from attention_course.tasks.core import EOS, PAD
from blind import bugs


def make(bug):
    def loss(task, model, batch, label_smoothing=0.0):
        source, lengths, given, wanted = batch
        if bug == "without gradient":
            with torch.no_grad():
                logits, _ = model(source, lengths, given)
        elif bug == "the right answer goes in":
            logits, _ = model(source, lengths, wanted)
        else:
            logits, _ = model(source, lengths, given)
        token = wanted != PAD
        if bug == "padding of the input":
            token = given != PAD
        if bug == "EOS left out":
            token = token & (wanted != EOS)
        if bug == "everything after EOS left out":
            after = (wanted == EOS).cumsum(1) - (wanted == EOS).long() > 0
            token = token & ~after
        logp = logits.log_softmax(-1)
        if bug == "softmax, then log":
            logp = logits.softmax(-1).log()
        if bug == "a small number in the log":
            logp = (logits.softmax(-1) + 1e-8).log()
        if bug == "always float32":
            logp = logits.float().log_softmax(-1)
        if bug == "softmax over positions":
            logp = logits.log_softmax(1)
        each = -logp.gather(-1, wanted[..., None])[..., 0]
        if bug == "multiplied by the mask":
            each = -(logits.exp() / logits.exp().sum(-1, keepdim=True)).log()
            each = each.gather(-1, wanted[..., None])[..., 0]
        total = each.masked_fill(~token, 0).sum()
        number = int(token.sum())
        if bug == "the mean":
            total = total / number
        if bug == "mean of the sentences":
            total = (each.masked_fill(~token, 0).sum(1) / token.sum(1)).sum()
        if bug == "in bits":
            total = total / torch.log(torch.tensor(2.0))
        if bug == "padding counted":
            number = wanted.numel()
        if bug == "an axis too many":
            total = total[None]
        if bug == "sentences counted":
            number = len(wanted)
        if bug == "a plain number":
            total = float(total)
        if bug == "smoothed all the same":
            total = F.cross_entropy(
                logits.mT, wanted, ignore_index=PAD, reduction="sum", label_smoothing=0.1
            )
        return total, number

    return loss


SUM = "Return the *sum* over all positions that hold a token, and how many those are."
PADS = "a position at which `target_out` is `PAD` is padding"
bugs(
    make,
    {
        "without gradient": "the sum of the losses, which is trained",
        "the right answer goes in": "Call the model as `model(source, lengths, target_in)`.",
        "padding of the input": PADS,
        "EOS left out": "`EOS` is a token",
        "everything after EOS left out": PADS,
        "softmax, then log": "Logits may be large",
        "a small number in the log": "-log P",
        "always float32": "the sum has the same dtype",
        "softmax over positions": "softmax(logits_t)",
        "multiplied by the mask": "Logits may be large",
        "the mean": SUM,
        "mean of the sentences": SUM,
        "in bits": "in nats",
        "padding counted": SUM,
        "an axis too many": "a tensor without axes",
        "sentences counted": SUM,
        "a plain number": "a tensor without axes",
        "smoothed all the same": "-log P(y_t)",
    },
)
