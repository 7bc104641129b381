import copy

import torch
from torch import nn
from blind import right, wrong


@right("a generator of hits, one number per sentence, in inference mode")
def accuracy(model, batches):
    def hits():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            best = logits.max(dim=-1, keepdim=True).indices
            yield from (best == batch.labels).flatten().tolist()

    mode = model.training
    model.eval()
    try:
        with torch.inference_mode():
            answers = list(hits())
    finally:
        model.train(mode)
    return sum(answers) / len(answers)


@right("measures on a deep copy, so that the model itself is not touched")
def accuracy(model, batches):
    twin = copy.deepcopy(model).eval()
    correct = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = twin(batch.source, batch.lengths)[0].argsort(dim=1, descending=True)
            correct += guess[:, 0].eq(batch.labels[:, 0]).sum().item()
            total += batch.labels.size(0)
    return correct / total


class _Measuring:
    """Eval mode and no gradients inside of `with`, as before afterwards."""

    def __init__(self, model):
        self.model, self.mode, self.grad = model, model.training, None

    def __enter__(self):
        self.grad = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        return self.model.eval()

    def __exit__(self, *error):
        torch.set_grad_enabled(self.grad)
        self.model.train(self.mode)


@right("a context manager of its own; concatenates all guesses and all labels")
def accuracy(model, batches):
    guesses, labels = [], []
    with _Measuring(model) as measured:
        for batch in batches:
            guesses.append(measured(batch.source, batch.lengths)[0].argmax(1))
            labels.append(batch.labels.squeeze(1))
    return (torch.cat(guesses) == torch.cat(labels)).double().mean().item()


@right("sentence by sentence, and the columns of the batches' counts added up")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.train(False)
    pairs = []
    for batch in batches:
        logits = model(batch.source, batch.lengths)[0]
        rank = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        labels = batch.labels.to(logits.device)
        for b, label in enumerate(labels[:, 0].tolist()):
            rank[b] = int(logits[b].argmax().item() == label)
        pairs.append((int(rank.sum()), len(rank)))
    model.train(mode)

    hits, count = (sum(column) for column in zip(*pairs))
    return hits / count


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "compares (B,) with (B, 1): the result is a table (B, B), and its mean is not the"
    " share; right only for batches of one sentence",
    "What share of sentences gets the right label?",
    "compares (B,) with (B, 1)",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits.append((logits.argmax(dim=-1) == batch.labels).float().flatten())
    model.train(mode)
    return torch.cat(hits).mean().item()


@wrong(
    "mean of the batches' shares: a last batch of one sentence counts as much as a full"
    " one",
    "Every sentence counts the same; the last batch may be smaller than the others.",
    "mean of the batches' means",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones = logits.argmax(dim=-1) == batch.labels.squeeze(-1)
            shares.append(right_ones.float().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "ends with model.train() whatever the mode was: a model that came in eval mode is"
    " left in training mode",
    "Your function may be called in the middle of training: leave the model in the mode"
    " in which you got it.",
    "always back to training mode",
)
def accuracy(model, batches):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            correct += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train()
    return correct / total


# --- corners -----------------------------------------------------------------------


@wrong(
    "restores by setting the flag of every module: a frozen body is put into training"
    " mode, because the model's own train is not asked",
    "A part of it may be frozen; the model's own `train` takes care of that.",
    "sets all modules' flags, frozen body too",
)
def accuracy(model, batches):
    mode = model.training
    for module in model.modules():
        module.training = False
    correct = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            correct += (logits.argmax(-1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    for module in model.modules():
        module.training = mode
    return correct / total


@wrong(
    "compares the logits of labels 1 and 0 only: with three or more labels every"
    " sentence of label 2 counts as wrong",
    "A batch has the fields `source`, `lengths` and `labels` (B, 1), and the model is"
    " called as `model(source, lengths)` and returns logits (B, labels) and something"
    " that you do not need.",
    "works for two labels only",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = (logits[:, 1] > logits[:, 0]).long()
            correct += (guess == batch.labels[:, 0]).sum().item()
            total += len(guess)
    model.train(mode)
    return correct / total


@wrong(
    "takes the size of the first batch for all of them: with a smaller last batch the"
    " share is too small",
    "Every sentence counts the same; the last batch may be smaller than the others.",
    "every batch counted as full",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    correct, size, number = 0, None, 0
    with torch.no_grad():
        for batch in batches:
            size = size or batch.labels.size(0)
            logits, _ = model(batch.source, batch.lengths)
            correct += (logits.argmax(-1) == batch.labels.squeeze(1)).sum().item()
            number += 1
    model.train(mode)
    return correct / (size * number)


@wrong(
    "takes the batches off the list while it measures: the caller's list is empty"
    " afterwards, and a second call fails",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "empties the given list of batches",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        while batches:
            batch = batches.pop()
            logits, _ = model(batch.source, batch.lengths)
            correct += (logits.argmax(-1) == batch.labels.squeeze(1)).sum().item()
            total += batch.labels.numel()
    model.train(mode)
    return correct / total


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "asks all modules for the mode: with a frozen body (in eval mode) in a model in"
    " training mode the model is left in eval mode",
    "Your function may be called in the middle of training: leave the model in the mode"
    " in which you got it.",
    "mode read from all modules, frozen ones too",
)
def accuracy(model, batches):
    mode = all(module.training for module in model.modules())
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            correct += (logits.argmax(-1) == batch.labels.squeeze(1)).sum().item()
            total += len(logits)
    model.train(mode)
    return correct / total


@wrong(
    "one minus the mean distance of guess and label: right for labels 0 and 1, but a"
    " guess of 2 for a 0 counts double when there are three labels",
    "What share of sentences gets the right label?",
    "distance of labels in place of equality",
)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    away = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = logits.argmax(dim=1, keepdim=True)
            away += (guess - batch.labels).abs().sum().item()
            total += len(guess)
    model.train(mode)
    return 1 - away / total


_MEASURED = {}


@wrong(
    "remembers the result for a model and a list of batches: measured again after some"
    " training steps it returns the old share",
    "What share of sentences gets the right label?",
    "returns a remembered result after training",
)
def accuracy(model, batches):
    key = (id(model), id(batches))
    if key not in _MEASURED:
        mode = model.training
        model.eval()
        correct = total = 0
        with torch.no_grad():
            for batch in batches:
                logits, _ = model(batch.source, batch.lengths)
                correct += (logits.argmax(-1) == batch.labels.squeeze(1)).sum().item()
                total += len(logits)
        model.train(mode)
        _MEASURED[key] = correct / total
    return _MEASURED[key]
