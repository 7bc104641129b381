from contextlib import contextmanager
from fractions import Fraction

import torch
from torch import nn

from blind import right, wrong


@right("collects all answers first, compares once at the end, try / finally around it")
def accuracy(model, batches):
    mode = model.training
    model.eval()
    guessed, wanted = [], []
    try:
        with torch.no_grad():
            for batch in batches:
                logits, _ = model(batch.source, batch.lengths)
                guessed.append(logits.argmax(dim=1).cpu())
                wanted.append(batch.labels.flatten().cpu())
    finally:
        model.train(mode)
    return (torch.cat(guessed) == torch.cat(wanted)).double().mean().item()


@right("remembers the flag of every module, and counts in plain Python with a Fraction")
def accuracy(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.train(False)
    hits = misses = 0
    for batch in batches:
        with torch.no_grad():
            logits = model(batch.source, batch.lengths)[0]
        for row, (label,) in zip(logits.tolist(), batch.labels.tolist()):
            if row.index(max(row)) == label:
                hits += 1
            else:
                misses += 1
    for module, flag in flags:
        module.training = flag
    return float(Fraction(hits, hits + misses))


@right("a context manager for the mode inside, and a matrix of label against guess")
def accuracy(model, batches):
    @contextmanager
    def resting(module):
        before = module.training
        module.eval()
        yield module
        module.train(before)

    table = None
    with resting(model) as quiet, torch.no_grad():
        for batch in batches:
            logits, *_ = quiet(batch.source, batch.lengths)
            kinds = logits.size(-1)
            cells = batch.labels[:, 0] * kinds + logits.max(dim=-1).indices
            found = torch.bincount(cells, minlength=kinds * kinds).view(kinds, kinds)
            table = found if table is None else table + found
    return int(table.trace()) / int(table.sum())


@torch.no_grad()
def _right_in(model, batch):
    logits, _ = model(batch.source, batch.lengths)
    guess = torch.topk(logits, k=1, dim=1).indices  # (B, 1), as the labels
    return guess.eq(batch.labels).count_nonzero().item(), batch.source.shape[0]


@right("topk keeps the axis of the labels, and a helper counts a batch; zip(*) at the end")
def accuracy(model, batches):
    mode = bool(model.training)
    counts = [_right_in(model.eval(), batch) for batch in batches]
    model.train(mode)
    hits, sizes = zip(*counts)
    return sum(hits) / sum(sizes)


@wrong(
    "the mean of the shares of the batches: a sentence in a small last batch counts more",
    "Every sentence must count the same, although the batches may differ in size.",
    "mean over batches",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits = logits.argmax(-1) == batch.labels.squeeze(1)
            shares.append(hits.double().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "compares the guesses (B,) with the labels (B, 1), which gives (B, B)",
    "What share of the sentences gets the right label?",
    "(B,) against (B, 1)",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            equal = logits.argmax(-1) == batch.labels
            hits += equal.sum().item()
            total += equal.numel()
    model.train(mode)
    return hits / total


@wrong(
    "stays in the mode in which the model is: dropout is on in train mode",
    "Measure without dropout and without gradients.",
    "no eval mode",
)
def accuracy(model, batches):
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    return hits / total


@wrong(
    "always ends with model.train(): a model that was in eval mode is in train mode then",
    "After the call, the model must be in the same mode as before, because your function may"
    " be called in the middle of training.",
    "leaves train mode behind",
)
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train()
    return hits / total


@wrong(
    "sets only the flag of the model back: its parts, with the dropouts, stay in eval mode",
    "After the call, the model must be in the same mode as before, because your function may"
    " be called in the middle of training.",
    "model.training = mode without the parts",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.training = mode
    return hits / total


@wrong(
    "calls train(mode) on every module in turn: after the model's own train, the frozen"
    " body's train(True) is called, too, and wakes it",
    "If a part of the model is frozen, the model's own `train` method takes care of it.",
    "wakes a frozen body",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    for module in model.modules():
        module.train(mode)
    return hits / total


@wrong(
    "adds the hits up in the dtype of the logits: in bfloat16, 256 + 1 is 256, so of 600"
    " batches with one right sentence each, 256 are counted",
    "Positions and counts, however, must be exact in every dtype.",
    "bfloat16 count of the hits",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = None, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            if hits is None:
                hits = logits.new_zeros(())
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum()
            total += len(batch.labels)
    model.train(mode)
    return hits.item() / total


@wrong(
    "writes the softmax out with exp before argmax: large logits become inf / inf, and NaN"
    " is taken for the largest",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "exp of large logits",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            chances = logits.exp() / logits.exp().sum(-1, keepdim=True)
            hits += (chances.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train(mode)
    return hits / total


@wrong(
    "switches the gradients off at the parameters, and on again for all of them: the frozen"
    " body's parameters can be trained afterwards",
    "Do not change the inputs.",
    "requires_grad_(True) thaws a frozen body",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    model.requires_grad_(False)
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    model.requires_grad_(True)
    model.train(mode)
    return hits / total


@wrong(
    "compares the first two logits only: with three labels, the third is never guessed",
    "It returns logits (B, labels) and a second value, which you do not need.",
    "only for two labels",
    subtle=True,
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            yes = (logits[:, 1] > logits[:, 0]).long()
            hits += (yes == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train(mode)
    return hits / total
