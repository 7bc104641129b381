from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import torch
from torch import nn

from blind import right, wrong


@right("collects all predictions and labels, and compares once at the end")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    predictions, labels = [], []
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        predictions.append(logits.max(dim=-1).indices)
        labels.append(batch.labels[:, 0])
    model.train(mode)
    return (torch.cat(predictions) == torch.cat(labels)).double().mean().item()


@contextmanager
def _measuring(model):
    """Eval mode without gradients; afterwards every part is as it was."""
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, mode in before:
            part.training = mode


@right("own context manager that remembers the mode of every part and puts it back")
def accuracy(model, batches):
    hits = total = 0
    with _measuring(model):
        for batch in batches:
            guesses = model(batch.source, batch.lengths)[0].argmax(1).tolist()
            for guess, (label,) in zip(guesses, batch.labels.tolist()):
                hits += guess == label
                total += 1
    return hits / total


@right("keeps (B, 1) on both sides, and counts with fractions")
def accuracy(model, batches):
    def count(batch):
        logits, *_ = model(batch.source, batch.lengths)
        same = logits.argmax(dim=1, keepdim=True).eq(batch.labels)
        return same.sum().item(), same.numel()

    was_training = model.training
    grad = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        model.train(False)
        counts = list(map(count, batches))
    finally:
        torch.set_grad_enabled(grad)
        model.train(was_training)
    hits, sizes = map(sum, zip(*counts))
    return float(Fraction(hits, sizes))


@right("numpy, with a weighted average of the batches' shares")
def accuracy(model, batches):
    training = model.training
    model.eval()
    shares, sizes = [], []
    for batch in batches:
        with torch.no_grad():
            logits = model(batch.source, batch.lengths)[0]
        guessed = logits.argmax(-1).cpu().numpy()
        truth = batch.labels.flatten().cpu().numpy()
        shares.append(np.mean(guessed == truth))
        sizes.append(len(truth))
    if training:
        model.train()
    return float(np.average(shares, weights=sizes))


@wrong(
    "compares (B,) with (B, 1): (B, B) comparisons",
    "What share of the sentences gets the right label?",
    "(B,) compared with (B, 1)",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels
            right += same.sum().item()
            total += same.numel()
    model.train(mode)
    return right / total


@wrong(
    "the mean of the batches' shares",
    "Every sentence must count the same, although the batches may differ in size.",
    "mean over batches instead of sentences",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            shares.append(same.float().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "always ends in train mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "a model in eval mode ends in train mode",
)
def accuracy(model, batches):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            right += same.sum().item()
            total += len(same)
    model.train()
    return right / total


@wrong(
    "forgets eval mode: dropout is on if the model is in train mode",
    "Measure without dropout and without gradients.",
    "measures with dropout",
)
def accuracy(model, batches):
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            right += same.sum().item()
            total += len(same)
    return right / total


@wrong(
    "torch.no_grad() as a statement does nothing: the model computes with gradients",
    "Measure without dropout and without gradients.",
    "gradients are on",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    torch.no_grad()
    right = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
        right += same.sum().item()
        total += len(same)
    model.train(mode)
    return right / total


@wrong(
    "remembers the mode anew in every batch: from the second batch on, it remembers eval mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "the mode is lost if there are several batches",
)
def accuracy(model, batches):
    right = total = 0
    for batch in batches:
        mode = model.training
        model.eval()
        with torch.no_grad():
            logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
        right += same.sum().item()
        total += len(same)
    model.train(mode)
    return right / total


@wrong(
    "takes the size of the first batch for the size of all batches",
    "Every sentence must count the same, although the batches may differ in size.",
    "all batches taken to be of one size",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = []
    size = None
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            size = size or len(logits)
            same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            hits.append(same.sum().item())
    model.train(mode)
    return min(1.0, sum(hits) / (size * len(hits)))


@wrong(
    "sets the mode of every part to that of the model, so that a frozen body ends in train mode",
    "If a part of the model is frozen, the model's own `train` method takes care of it.",
    "a frozen part ends in train mode",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            right += same.sum().item()
            total += len(same)
    for part in model.modules():
        part.training = mode
    return right / total


@wrong(
    "counts the hits in the dtype of the logits: in bfloat16, the count stays at 256 or is rounded",
    "Positions and counts, however, must be exact in every dtype.",
    "counts in the dtype of the logits",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    right, total = 0, 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
        right = right + same.to(logits).sum()
        total += len(same)
    model.train(mode)
    return float(right) / total


@wrong(
    "takes the model as in train mode only if all its parts are: a model with a frozen body ends in eval mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "the mode of a model with a frozen part is lost",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = all(part.training for part in model.modules())
    model.eval()
    right = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
        right += same.sum().item()
        total += len(same)
    model.train(mode)
    return right / total
