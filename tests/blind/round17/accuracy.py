from fractions import Fraction

import torch
from torch import nn
from blind import right, wrong

SHARE = "What share of the sentences gets the right label?"
LABELS = "It returns logits (B, labels) and a second value, which you do not need."
WITHOUT = "Measure without dropout and without gradients."
SAME = "Every sentence must count the same, although the batches may differ in size."
MODE = "After the call, the model must be in the same mode as before, because your function may be called in the middle of training."
FROZEN = "If a part of the model is frozen, the model's own `train` method takes care of it."
INPUTS = "Do not change the inputs."
EXACT = "Positions and counts must be exact in every dtype."
OTHERS = "The result of a call must not depend on earlier calls or on other objects of the same class."


# ---------------------------------------------------------------- right answers


@right("collects all answers first, and restores the mode in a finally clause")
def accuracy(model, batches):
    before = model.training
    model.eval()
    answers = []
    try:
        with torch.no_grad():
            for batch in batches:
                logits, _ = model(batch.source, batch.lengths)
                answers.append(logits.argmax(dim=1) == batch.labels.squeeze(1))
    finally:
        model.train(before)
    return torch.cat(answers).double().mean()


@right("remembers the mode of every single module and sets each one back")
@torch.no_grad()
def accuracy(model, batches):
    modes = [(module, module.training) for module in model.modules()]
    model.train(False)
    hits = number = 0
    for batch in batches:
        logits = model(batch.source, batch.lengths)[0]
        best = logits.topk(1, dim=-1).indices  # (B, 1)
        hits += torch.count_nonzero(best == batch.labels).item()
        number += best.numel()
    for module, mode in modes:
        module.training = mode
    return hits / number


@right("the mean of the batches' shares, weighted by their sizes, in fractions")
def accuracy(model, batches):
    was_training = model.training
    model.eval()
    share, seen = Fraction(0), 0
    with torch.set_grad_enabled(False):
        for batch in batches:
            logits, *_ = model(batch.source, batch.lengths)
            guesses, labels = logits.argmax(-1).tolist(), batch.labels.flatten().tolist()
            here = Fraction(sum(map(int.__eq__, guesses, labels)), len(labels))
            seen += len(labels)
            share += (here - share) * Fraction(len(labels), seen)
    if was_training:
        model.train()
    return float(share)


@right("counts the wrong labels: the sentences with a better label, or an equal one before")
def accuracy(model, batches):
    mode = model.training
    model.train(mode=False)
    wrong_ones, number = 0, 0
    with torch.no_grad():
        for source, lengths, labels in ((b.source, b.lengths, b.labels) for b in batches):
            logits, _ = model(source, lengths)
            logits = logits.double()
            order = logits.sort(dim=-1, descending=True, stable=True).indices
            wrong_ones = wrong_ones + (order[:, :1] - labels).abs().clamp(max=1).sum()
            number += labels.shape[0]
    model.train(mode)
    return 1 - wrong_ones.double() / number


# ---------------------------------------------------------------- wrong answers


@wrong("takes the mean of the shares of the batches",
       breaks=SAME, name="a small last batch counts as much as a full one")
def accuracy(model, batches):
    before = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits = logits.argmax(dim=-1, keepdim=True) == batch.labels
            shares.append(hits.float().mean().item())
    model.train(before)
    return sum(shares) / len(shares)


@wrong("compares the labels (B, 1) with the answers (B,)",
       breaks=SHARE, name="compares each answer with the labels of all sentences")
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = number = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            same = logits.argmax(dim=-1) == batch.labels
            hits += int(same.sum())
            number += same.numel()
    model.train(before)
    return hits / number


@wrong("turns off gradients, but not dropout",
       breaks=WITHOUT, name="measures in train mode")
def accuracy(model, batches):
    hits = number = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += int((logits.argmax(dim=-1) == batch.labels[:, 0]).sum())
            number += len(batch.labels)
    return hits / number


@wrong("looks at the mode after it has called eval()",
       breaks=MODE, name="leaves the model in eval mode")
def accuracy(model, batches):
    mode = model.eval().training
    hits = number = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += int((logits.argmax(dim=-1) == batch.labels[:, 0]).sum())
            number += len(batch.labels)
    model.train(mode)
    return hits / number


@wrong("sets training of all modules to the old mode of the model",
       breaks=FROZEN, name="puts a frozen part into train mode")
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = number = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += int((logits.argmax(dim=-1) == batch.labels[:, 0]).sum())
            number += len(batch.labels)
    for module in model.modules():
        module.training = before
    return hits / number


@wrong("answers 1 where the second logit is larger than the first",
       breaks=LABELS, name="takes every task to have two labels")
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits = number = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            yes = logits[:, -1:] > logits[:, :1]
            hits += int((yes.long() == batch.labels).sum())
            number += len(batch.labels)
    model.train(before)
    return hits / number


@wrong("adds up the hits as numbers of the dtype of the logits",
       breaks=EXACT, name="the count of hits stops at 256 in bfloat16")
def accuracy(model, batches):
    before = model.training
    model.eval()
    hits, number = 0, 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones = logits.argmax(dim=-1) == batch.labels.flatten()
            hits = hits + right_ones.to(logits.dtype).sum()
            number += len(batch.labels)
    model.train(before)
    return hits / number


@wrong("takes the share for each label, and the mean over the labels",
       breaks=SAME, name="a sentence with a rare label counts more")
def accuracy(model, batches):
    before = model.training
    model.eval()
    guesses, labels = [], []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guesses.append(logits.argmax(dim=-1))
            labels.append(batch.labels.flatten())
    model.train(before)
    guesses, labels = torch.cat(guesses), torch.cat(labels)
    shares = [(guesses[labels == k] == k).float().mean() for k in labels.unique()]
    return float(sum(shares) / len(shares))


@wrong("keeps hits and number in a default argument",
       breaks=OTHERS, name="goes on counting from the last call")
def accuracy(model, batches, counts={"hits": 0, "number": 0}):
    before = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            counts["hits"] += int((logits.argmax(dim=-1) == batch.labels[:, 0]).sum())
            counts["number"] += len(batch.labels)
    model.train(before)
    return counts["hits"] / counts["number"]


@wrong("switches requires_grad off and on again instead of using no_grad",
       breaks=INPUTS, name="frozen parameters require gradients afterwards")
def accuracy(model, batches):
    before = model.training
    model.eval()
    model.requires_grad_(False)
    hits = number = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += int((logits.argmax(dim=-1) == batch.labels[:, 0]).sum())
        number += len(batch.labels)
    model.requires_grad_(True)
    model.train(before)
    return hits / number
