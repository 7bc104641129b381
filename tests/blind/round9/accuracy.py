import math
import statistics

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong


@right("Python lists of predictions and labels, mode restored in finally")
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = []
    try:
        with torch.no_grad():
            for batch in batches:
                logits, _ = model(batch.source, batch.lengths)
                guesses = logits.argmax(dim=1).tolist()
                hits += [g == y for g, (y,) in zip(guesses, batch.labels.tolist())]
    finally:
        model.train(mode)
    return sum(hits) / len(hits)


@right("topk keeps the axis, so that both sides are (B, 1); inference mode")
@torch.inference_mode()
def accuracy(model, batches, k=1):
    before = model.training
    model.train(False)
    right_ones, sentences = 0, 0
    for batch in batches:
        guess = model(batch.source, batch.lengths)[0].topk(k, dim=-1).indices
        right_ones += guess.eq(batch.labels).any(dim=1).sum().item()
        sentences += batch.labels.shape[0]
    model.train(before)
    return right_ones / sentences


@right("all logits and labels concatenated before they are compared")
def accuracy(model, batches):
    was = model.training
    model.eval()
    with torch.no_grad():
        pairs = [(model(b.source, b.lengths)[0], b.labels) for b in batches]
    model.train(was)
    guesses = torch.cat([logits.max(dim=-1).indices for logits, _ in pairs])
    labels = torch.cat([labels.flatten() for _, labels in pairs])
    return (guesses == labels).double().mean().item()


@right("weighted mean of the batches' shares, gradient mode set and set back")
def accuracy(model, batches):
    mode, gradients = model.training, torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    model.eval()
    shares, sizes = [], []
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        best = logits.argmax(-1, keepdim=True)
        sizes.append(len(best))
        shares.append(int((best == batch.labels).sum()) / len(best))
    torch.set_grad_enabled(gradients)
    model.train(mode)
    return math.fsum(s * n for s, n in zip(shares, sizes)) / sum(sizes)


@wrong(
    "compares (B,) with (B, 1): the share is that of all B * B pairs of a guess and a label",
    "The labels are (B, 1), and `argmax` gives (B,). If you compare them as they are, the result is (B, B).",
    "labels (B, 1) compared with guesses (B,)",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        match = logits.argmax(dim=-1) == batch.labels
        hits += match.sum().item()
        total += match.numel()
    model.train(mode)
    return hits / total


@wrong(
    "averages the batches' shares: a sentence of a small batch counts more",
    "Every sentence must count the same, although the batches may differ in size.",
    "mean of the batches' means",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        match = logits.argmax(dim=-1, keepdim=True) == batch.labels
        shares.append(match.float().mean().item())
    model.train(mode)
    return statistics.mean(shares)


@wrong(
    "measures in the mode that the model happens to have, with dropout in train mode",
    "Measure without dropout and without gradients.",
    "eval mode forgotten",
)
@torch.no_grad()
def accuracy(model, batches):
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    return hits / total


@wrong(
    "always leaves the model in train mode, also if it was in eval mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "always back to train mode",
)
@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    model.train()
    return hits / total


@wrong(
    "compares the first two logits only: wrong as soon as there are three labels, or one",
    "It returns logits (B, labels) and a second value, which you do not need.",
    "only two labels considered",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        yes = logits[:, 1] > logits[:, 0]
        hits += (yes.long() == batch.labels.squeeze(1)).sum().item()
        total += len(yes)
    model.train(mode)
    return hits / total


@wrong(
    "computes with gradients: the graph is built and kept until the batch is done",
    "Measure without dropout and without gradients.",
    "gradients not switched off",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.detach().argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    model.train(mode)
    return hits / total


@wrong(
    "takes the first batch's size for all: wrong if the last batch is smaller",
    "Every sentence must count the same, although the batches may differ in size.",
    "assumes batches of one size",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    batches = list(batches)
    hits = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
    model.train(mode)
    return hits / (len(batches) * len(batches[0].labels))


@wrong(
    "restores the flag of the model only; its parts, such as dropout, stay in eval mode, and a frozen body is not asked",
    "If a part of the model is frozen, the model's own `train` method takes care of it.",
    "mode restored on the outer module only",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    model.training = mode
    return hits / total


@wrong(
    "switches requires_grad off and on for all parameters: a frozen body requires gradients afterwards",
    "Do not change the inputs.",
    "thaws frozen parameters",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    model.requires_grad_(False)
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(dim=-1) == batch.labels[:, 0]).sum().item()
        total += len(batch.labels)
    model.requires_grad_(True)
    model.train(mode)
    return hits / total


@wrong(
    "counts in the dtype of the logits: in bfloat16 the sums of hits and sentences stop growing at 256",
    "Every sentence must count the same, although the batches may differ in size.",
    "counts lose precision in half-precision dtypes",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0.0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        match = logits.argmax(dim=-1) == batch.labels[:, 0]
        hits = hits + match.to(logits.dtype).sum()
        total = total + torch.ones_like(logits[:, 0]).sum()
    model.train(mode)
    return (hits / total).item()
