import torch
from torch import nn

from blind import right, wrong

SHARE = "What share of the sentences gets the right label?"
LABELS = "A batch has the fields `source`, `lengths` and `labels` (B, 1)."
LOGITS = "It returns logits (B, labels) and a second value, which you do not need."
MEASURE = "Measure without dropout and without gradients."
COUNT = "Every sentence must count the same, although the batches may differ in size."
MODE = "After the call, the model must be in the same mode as before, because your function may be called in the middle of training."
FROZEN = "If a part of the model is frozen, the model's own `train` method takes care of it."
EXACT = "Positions and counts, however, must be exact in every dtype."


# wrong, plain


@wrong(
    "takes the mean of the batches' shares",
    COUNT,
    "mean over the batches",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        right_ones = logits.argmax(dim=-1) == batch.labels[:, 0]
        shares.append(right_ones.double().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "compares (B,) with (B, 1), which gives (B, B)",
    LABELS,
    "compared every sentence with every label",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        matches = logits.argmax(dim=-1) == batch.labels
        good += matches.sum().item()
        count += matches.numel()
    model.train(mode)
    return good / count


@wrong(
    "measures in the mode in which the model is",
    MEASURE,
    "no eval mode",
)
@torch.no_grad()
def accuracy(model, batches):
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    return good / count


# wrong, subtle


@wrong(
    "sets model.training back, which leaves all its parts in eval mode",
    MODE,
    "only the model's own flag restored",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    model.training = mode
    return good / count


@wrong(
    "sets the mode of every part by hand, past the model's train, and wakes a frozen one",
    FROZEN,
    "frozen part put into train mode",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    for module in model.modules():
        module.training = mode
    return good / count


@wrong(
    "always puts the model into train mode at the end",
    MODE,
    "always back into train mode",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    model.train()
    return good / count


@wrong(
    "adds up in the dtype of the logits: in bfloat16, a count stops at 256",
    EXACT,
    "inexact count in bfloat16",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good, count = 0.0, 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        matches = logits.argmax(dim=-1) == batch.labels[:, 0]
        good = good + matches.to(logits.dtype).sum()
        count += len(matches)
    model.train(mode)
    return good.item() / count


@wrong(
    "knows two labels only, and asks whether the second one has the larger logit",
    LOGITS,
    "two labels taken for granted",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        yes = (logits[:, 1] > logits[:, 0]).long()
        good += (yes == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    model.train(mode)
    return good / count


@wrong(
    "computes gradients' graphs while it measures",
    MEASURE,
    "no no_grad",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good = count = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        count += len(batch.labels)
    model.train(mode)
    return good / count


@wrong(
    "counts as many sentences for every batch as the first one has",
    COUNT,
    "smaller last batch counted as a full one",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    good, steps, size = 0, 0, None
    for batch in batches:
        if size is None:
            size = batch.labels.size(0)
        logits, _ = model(batch.source, batch.lengths)
        good += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        steps += 1
    model.train(mode)
    return good / (steps * size)


# right


@right("collects all verdicts first, and takes one mean in float64")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    model.train(False)
    verdicts = torch.cat(
        [
            model(b.source, b.lengths)[0].argmax(dim=1, keepdim=True).eq(b.labels)
            for b in batches
        ]
    )
    model.train(before)
    return verdicts.flatten().to(torch.float64).mean().item()


@right("sentence by sentence in Python, inference mode, try and finally")
def accuracy(model, batches):
    before, verdicts = model.training, []
    try:
        model.eval()
        with torch.inference_mode():
            for batch in batches:
                logits = model(batch.source, batch.lengths)[0]
                for row, label in zip(logits, batch.labels.view(-1).tolist()):
                    verdicts.append(int(row.argmax()) == label)
    finally:
        model.train(before)
    return verdicts.count(True) / len(verdicts)


@right("counts the wrong ones, and returns a tensor in float64")
def accuracy(model, batches):
    was_training = model.training
    model.eval()
    wrong_ones, count = 0, 0
    for batch in batches:
        with torch.no_grad():
            logits, *_ = model(batch.source, batch.lengths)
        said = logits.detach().argmax(dim=-1)
        wrong_ones += torch.count_nonzero(said - batch.labels.squeeze(1)).cpu()
        count += batch.labels.numel()
    if was_training:
        model.train()
    return 1 - wrong_ones.double() / count


@right("weighs each batch's share by its size, in one-hot rows")
@torch.no_grad()
def accuracy(model, batches):
    mode, shares, sizes = model.training, [], []
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        labels = torch.arange(logits.size(1), device=logits.device)
        said = logits.argmax(dim=1)[:, None] == labels  # (B, labels)
        hits = (said & (labels == batch.labels)).any(dim=1)
        sizes.append(hits.numel())
        shares.append(hits.sum().item() / hits.numel())
    model.train(mode)
    return sum(s * n for s, n in zip(shares, sizes)) / sum(sizes)
