from contextlib import contextmanager
from fractions import Fraction

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("counts in Python numbers under no_grad")
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(dim=1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train(was)
    return hits / total


@contextmanager
def measuring(model):
    mode = model.training
    model.train(False)
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(mode)


@right("a context manager; all the guesses side by side, and one mean in float64")
def accuracy(model, batches):
    with measuring(model):
        same = torch.cat(
            [
                model(b.source, b.lengths)[0].max(dim=-1, keepdim=True).indices.eq(b.labels)
                for b in batches
            ]
        )
        return same.double().mean().item()


@right("exact fractions: a running mean that is corrected by each batch; Python lists")
@torch.no_grad()
def accuracy(model, batches):
    mode, share, seen = model.training, Fraction(0), 0
    model.eval()
    for batch in batches:
        rows = model(batch.source, batch.lengths)[0].tolist()
        right_ones = 0
        for row, (label,) in zip(rows, batch.labels.tolist()):
            right_ones += row.index(max(row)) == label
        seen += len(rows)
        share += (Fraction(right_ones, len(rows)) - share) * Fraction(len(rows), seen)
    model.train(mode)
    return float(share)


class Tally:
    """A confusion matrix per batch; the diagonal holds the right ones."""

    def __init__(self):
        self.diagonal, self.all = 0, 0

    def add(self, logits, labels):
        size = max(logits.size(1), int(labels.max()) + 1)
        cells = labels.flatten() * size + torch.argmax(logits.float(), dim=-1)
        table = torch.bincount(cells, minlength=size * size).reshape(size, size)
        self.diagonal = self.diagonal + table.diagonal().sum()
        self.all = self.all + table.sum()


@right("a confusion matrix with bincount; gives a tensor with one number")
def accuracy(model, batches):
    tally, modes = Tally(), model.training
    model.eval()
    for batch in batches:
        with torch.set_grad_enabled(False):
            tally.add(model(batch.source, batch.lengths)[0], batch.labels)
    if modes:
        model.train()
    return tally.diagonal / tally.all


# ---------------------------------------------------------------- wrong


@wrong(
    "compares (B,) with (B, 1), which gives (B, B)",
    breaks="What share of the sentences gets the right label?",
    name="comparison broadcasts to (B, B)",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits = cells = 0
    with torch.no_grad():
        for batch in batches:
            same = model(batch.source, batch.lengths)[0].argmax(dim=1) == batch.labels
            hits += same.sum().item()
            cells += same.numel()
    model.train(was)
    return hits / cells


@wrong(
    "takes the mean of the batches' shares",
    breaks="Every sentence must count the same, although the batches may differ in size.",
    name="mean of the batches' means",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            shares.append((guess == batch.labels).float().mean().item())
    model.train(was)
    return sum(shares) / len(shares)


@wrong(
    "measures in the mode in which the model is",
    breaks="Measure without dropout and without gradients.",
    name="dropout while measuring",
)
def accuracy(model, batches):
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            hits += (guess == batch.labels).sum().item()
            total += len(guess)
    return hits / total


@wrong(
    "eval mode, but no torch.no_grad()",
    breaks="Measure without dropout and without gradients.",
    name="gradients are recorded",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
        hits += (guess == batch.labels).sum().item()
        total += len(guess)
    model.train(was)
    return hits / total


@wrong(
    "always ends with model.train()",
    breaks="After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    name="always train mode afterwards",
)
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            hits += (guess == batch.labels).sum().item()
            total += len(guess)
    model.train()
    return hits / total


@wrong(
    "restores the mode inside of the loop: from the second batch on, dropout is on",
    breaks="Measure without dropout and without gradients.",
    name="mode restored after the first batch",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            hits += (guess == batch.labels).sum().item()
            total += len(guess)
            model.train(was)
    return hits / total


@wrong(
    "turns requires_grad of all parameters off and then on again: a frozen body is no longer frozen",
    breaks="Do not change the inputs.",
    name="unfreezes the model",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    model.requires_grad_(False)
    hits = total = 0
    for batch in batches:
        with torch.no_grad():
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
        hits += (guess == batch.labels).sum().item()
        total += len(guess)
    model.requires_grad_(True)
    model.train(was)
    return hits / total


@wrong(
    "sets the flag of all modules by hand, past the model's own train: a frozen body gets into train mode",
    breaks="If a part of the model is frozen, the model's own `train` method takes care of it.",
    name="frozen body put into train mode",
)
def accuracy(model, batches):
    was = model.training
    for module in model.modules():
        module.training = False
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(dim=1, keepdim=True)
            hits += (guess == batch.labels).sum().item()
            total += len(guess)
    for module in model.modules():
        module.training = was
    return hits / total


@wrong(
    "compares only the first two logits, as if there were always two labels",
    breaks="It returns logits (B, labels) and a second value, which you do not need.",
    name="two labels only",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = (logits[:, -1:] > logits[:, :1]).long()
            hits += (guess == batch.labels).sum().item()
            total += len(guess)
    model.train(was)
    return hits / total


@wrong(
    "adds up the right ones in the dtype of the logits: in bfloat16, single sentences no longer count after 256",
    breaks="Positions and counts must be exact in every dtype.",
    name="counts in the dtype of the logits",
)
def accuracy(model, batches):
    was = model.training
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=1, keepdim=True) == batch.labels
            hits = hits + same.to(logits.dtype).sum()
            total += len(same)
    model.train(was)
    return hits.float() / total
