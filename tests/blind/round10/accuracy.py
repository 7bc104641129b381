from contextlib import contextmanager

import torch

from blind import right, wrong


@contextmanager
def _measuring(model):
    mode = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        model.train(mode)


@right("a context manager for mode and gradients, the mode is restored even after an error")
def accuracy(model, batches):
    correct, seen = 0, 0
    with _measuring(model) as calm:
        for batch in batches:
            logits, _ = calm(batch.source, batch.lengths)
            correct += torch.eq(logits.argmax(dim=-1, keepdim=True), batch.labels).sum().item()
            seen += len(batch.labels)
    return correct / seen


@right("inference mode; all predictions are collected and compared at once")
@torch.inference_mode()
def accuracy(model, batches):
    before = model.training
    model.train(False)
    found, wanted = [], []
    for batch in batches:
        found.append(model(batch.source, batch.lengths)[0].max(dim=1).indices)
        wanted.append(batch.labels.flatten())
    model.train(before)
    return (torch.cat(found) == torch.cat(wanted)).double().mean().item()


@right("plain Python: one sentence of the batch after the other, on lists")
def accuracy(model, batches, show=False):
    was_training = model.training
    model.eval()
    results = []
    with torch.set_grad_enabled(False):
        for batch in batches:
            rows = model(batch.source, batch.lengths)[0].double().tolist()
            for row, (label,) in zip(rows, batch.labels.tolist()):
                results.append(row.index(max(row)) == label)
    if was_training:
        model.train()
    if show:
        print(results.count(True), "of", len(results))
    return results.count(True) / len(results)


@right("running mean over the sentences, weighted with the sizes of the batches")
def accuracy(model, batches):
    mode, share, seen = model.training, 0.0, 0
    model.eval()
    for batch in batches:
        with torch.no_grad():
            logits = model(batch.source, batch.lengths)[0]
        best = torch.topk(logits, 1, dim=1).indices  # (B, 1), like the labels
        size = best.shape[0]
        seen += size
        if seen:
            share += ((best == batch.labels).sum().item() - size * share) / seen
    model.train(mode)
    return share


@wrong(
    "averages the accuracies of the batches: wrong when the last batch is smaller",
    "Every sentence must count the same, although the batches may differ in size.",
    "mean of the batches' means",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            shares.append((logits.argmax(-1) == batch.labels[:, 0]).float().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "compares (B,) with (B, 1): every prediction is compared with every label of the batch",
    "What share of the sentences gets the right label?",
    "labels and predictions broadcast to (B, B)",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    right_ones, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits = logits.argmax(-1) == batch.labels
            right_ones += hits.sum().item()
            total += hits.numel()
    model.train(mode)
    return right_ones / total


@wrong(
    "always ends with model.train(): a model that was in eval mode is in train mode afterwards",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "model is left in train mode",
)
def accuracy(model, batches):
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    model.train()
    return hits / total


@wrong(
    "eval() only, gradients are still recorded in the model's calls",
    "Measure without dropout and without gradients.",
    "eval mode taken for no_grad",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = 0, 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
        total += batch.labels.size(0)
    model.train(mode)
    return hits / total


@wrong(
    "decides between labels 0 and 1 only: with three or more labels a sentence of label 2 is never right, with one label it raises",
    "It returns logits (B, labels) and a second value, which you do not need.",
    "works for two labels only",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            answers = (logits[:, 1] > logits[:, 0]).long()
            hits += (answers == batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    model.train(mode)
    return hits / total


@wrong(
    "counts in the dtype of the logits: with a bfloat16 model the sums stop at 256, and the share of 1000 sentences is wrong",
    "Every sentence must count the same, although the batches may differ in size.",
    "counts in bfloat16",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones = (logits.argmax(-1) == batch.labels[:, 0]).to(logits)
            hits = hits + right_ones.sum()
            total = total + torch.ones_like(right_ones).sum()
    model.train(mode)
    return (hits / total).item()


@wrong(
    "asks for the mode after eval(), so it is always False: a model in train mode stays in eval mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "mode is read after eval()",
)
def accuracy(model, batches):
    model.eval()
    mode = model.training
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    model.train(mode)
    return hits / total


@wrong(
    "restores the mode inside the loop: from the second batch on a model in train mode is measured with dropout",
    "Measure without dropout and without gradients.",
    "mode restored after the first batch already",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            model.train(mode)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    return hits / total


@wrong(
    "gives every module the mode of the whole model: a frozen body, which was in eval mode, is in train mode afterwards",
    "If a part of the model is frozen, the model's own `train` method takes care of it.",
    "own train method bypassed, frozen body thawed",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    for module in model.modules():
        module.training = mode
    return hits / total


@wrong(
    "switches the gradients off for the whole program and never on again: training cannot go on after the call",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "gradients stay switched off after the call",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    torch.set_grad_enabled(False)
    hits, total = 0, 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
        total += batch.labels.size(0)
    model.train(mode)
    return hits / total
