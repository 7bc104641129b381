from fractions import Fraction

import torch
from blind import right, wrong

SHARE = "What share of the sentences gets the right label?"
FIELDS = "A batch has the fields `source`, `lengths` and `labels` (B, 1)."
LABELS = "It returns logits (B, labels) and a second value, which you do not need."
MEASURE = "Measure without dropout and without gradients."
SAME = "Every sentence must count the same, although the batches may differ in size."
MODE = "After the call, the model must be in the same mode as before, because your function may be called in the middle of training."
FROZEN = "If a part of the model is frozen, the model's own `train` method takes care of it."
EXACT = "Positions and counts must be exact in every dtype."


@right("counts in Python, restores the mode in finally")
@torch.no_grad()
def accuracy(model, batches):
    before, hits, total = model.training, 0, 0
    model.eval()
    try:
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            labels = batch.labels[:, 0].to(logits.device)
            hits += int((logits.argmax(dim=-1) == labels).sum())
            total += len(labels)
    finally:
        model.train(before)
    return hits / total


@right("collects all answers, one comparison at the end")
def accuracy(model, batches):
    mode = model.training
    model.train(False)
    answers = []
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            answers.append((guess == batch.labels).flatten())
    model.train(mode)
    return torch.cat(answers).double().mean().item()


def _best(row):
    return max(range(len(row)), key=row.__getitem__)


@right("plain Python lists and a fraction")
def accuracy(model, batches):
    was_training = model.training
    model.eval()
    results = []
    for batch in batches:
        with torch.set_grad_enabled(False):
            logits = model(batch.source, batch.lengths)[0]
        for row, (label,) in zip(logits.tolist(), batch.labels.tolist()):
            results.append(_best(row) == label)
    if was_training:
        model.train()
    return float(Fraction(sum(results), len(results)))


def _share(model, batch):
    logits, _ = model(batch.source, batch.lengths)
    guess = logits.max(dim=-1).indices
    right_ones = guess.eq(batch.labels.squeeze(-1))
    return right_ones.double().mean().item(), right_ones.numel()


@right("the share of each batch, weighted by its size")
def accuracy(model, batches):
    mode = model.training
    with torch.no_grad():
        pairs = [_share(model.eval(), batch) for batch in batches]
    model.train(mode)
    return sum(share * size for share, size in pairs) / sum(size for _, size in pairs)


@wrong("compares guesses (B,) with labels (B, 1), which gives (B, B)", breaks=SHARE, name="labels not squeezed")
@torch.no_grad()
def accuracy(model, batches):
    before, hits = model.training, []
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        equal = (logits.argmax(dim=-1) == batch.labels).double()
        hits += [equal.mean().item()] * len(equal)
    model.train(before)
    return sum(hits) / len(hits)


@wrong("the mean of the batches' shares", breaks=SAME, name="mean of means")
@torch.no_grad()
def accuracy(model, batches):
    before, shares = model.training, []
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        shares.append((logits.argmax(-1) == batch.labels[:, 0]).double().mean().item())
    model.train(before)
    return sum(shares) / len(shares)


@wrong("ends with train(), even if the model was in eval mode", breaks=MODE, name="always back to train mode")
@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    model.train()
    return hits / total


@wrong("stays in the mode that it finds, so dropout is on in training", breaks=MEASURE, name="no eval mode")
@torch.no_grad()
def accuracy(model, batches):
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    return hits / total


@wrong("takes eval mode for the end of gradients", breaks=MEASURE, name="no no_grad")
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    model.train(before)
    return hits / total


@wrong("compares the logits of labels 0 and 1 only", breaks=LABELS, name="two labels taken for granted")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        guess = (logits[:, 1] > logits[:, 0]).long()
        hits += int((guess == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    model.train(before)
    return hits / total


@wrong("restores the flag of the model itself, while the parts inside stay in eval mode", breaks=MODE, name="only the outermost flag restored")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    model.training = before
    return hits / total


@wrong("adds up the hits in the dtype of the logits: in bfloat16 they stop at 256 or are rounded", breaks=EXACT, name="counts in bfloat16")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits, total = 0, 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = hits + (logits.argmax(-1) == batch.labels[:, 0]).to(logits.dtype).sum()
        total += len(batch.labels)
    model.train(before)
    return float(hits) / total


@wrong("sets the flag of every module, which puts a frozen body into train mode", breaks=FROZEN, name="goes past the model's train method")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    for module in model.modules():
        module.training = False
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(-1) == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    for module in model.modules():
        module.training = before
    return hits / total


@wrong("counts a sentence only if the label's probability is above one half: too few with three labels", breaks=SHARE, name="threshold instead of the largest logit")
@torch.no_grad()
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        probability = logits.double().softmax(dim=-1).gather(1, batch.labels)
        hits += int((probability > 0.5).sum())
        total += len(batch.labels)
    model.train(before)
    return hits / total
