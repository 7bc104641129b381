from contextlib import contextmanager
from fractions import Fraction

import torch
from blind import right, wrong

MEASURE = "Measure without dropout and without gradients."
SAME = "Every sentence must count the same, although the batches may differ in size."
MODE = "After the call, the model must be in the same mode as before, because your function may be called in the middle of training."
FROZEN = "If a part of the model is frozen, the model's own `train` method takes care of it."
LABELS = "A batch has the fields `source`, `lengths` and `labels` (B, 1)."
LOGITS = "It returns logits (B, labels) and a second value, which you do not need."
COUNTS = "Positions and counts must be exact in every dtype."
INPUTS = "Do not change the inputs."
SHARE = "The share, between 0 and 1: a number, or a tensor that holds one."
OVERFLOW = "An exponential, however, may overflow."
RIGHT = "What share of the sentences gets the right label?"


@right("compares (B, 1) with (B, 1), and restores the mode in any case")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.train(False)
    try:
        hits = total = 0
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(dim=-1, keepdim=True)
            hits += int(best.eq(batch.labels).sum())
            total += best.numel()
    finally:
        model.train(mode)
    return hits / total


@right("one list of hits for all sentences, and its mean")
def accuracy(model, batches):
    mode, right_ones = model.training, []
    with torch.inference_mode():
        model.eval()
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            right_ones += (logits.topk(1).indices[:, 0] == batch.labels[:, 0]).tolist()
    model.train(mode)
    return sum(right_ones) / len(right_ones)


@contextmanager
def measuring(model):
    mode = model.training
    try:
        with torch.no_grad():
            yield model.eval()
    finally:
        model.train(mode)


@right("a running mean in exact fractions, weighted by the size of the batch")
def accuracy(model, batches):
    mean, seen = Fraction(0), 0
    with measuring(model):
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].max(dim=1).indices
            hits = sum(int(g) == int(t) for g, t in zip(guess, batch.labels))
            seen += len(guess)
            mean += (Fraction(hits, len(guess)) - mean) * Fraction(len(guess), seen)
    return float(mean)


@right("subtracts the label from the guess and counts the zeros, in float64 tensors")
def accuracy(model, batches):
    with measuring(model):
        wrongs = [
            model(batch.source, batch.lengths)[0].argmax(1).sub(batch.labels.squeeze(1)).ne(0) for batch in batches
        ]
    return 1 - torch.cat(wrongs).double().mean()


@wrong("compares guesses (B,) with labels (B, 1): B times B comparisons", breaks=LABELS, name="(B,) compared with (B, 1)")
def accuracy(model, batches):
    hits = total = 0
    with measuring(model):
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += int((guess == batch.labels).sum())
            total += batch.labels.numel() ** 2
    return hits / total


@wrong("the mean of the shares of the batches; wrong if the batches differ in size", breaks=SAME, name="mean of the batches' shares")
def accuracy(model, batches):
    shares = []
    with measuring(model):
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            shares.append(float((guess == batch.labels[:, 0]).double().mean()))
    return sum(shares) / len(shares)


@wrong("always calls model.train() at the end, even if the model was in eval mode", breaks=MODE, name="ends in train mode")
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
    model.train()
    return hits / total


@wrong("restores the mode after each batch, so only the first batch is measured in eval mode", breaks=MEASURE, name="eval mode for the first batch only")
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
            model.train(mode)
    return hits / total


@wrong("sets `training` of every module by hand at the end: a frozen body is in train mode afterwards", breaks=FROZEN, name="thaws a frozen body")
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
    for module in model.modules():
        module.training = mode
    return hits / total


@wrong("adds the hits up in the dtype of the logits: in bfloat16, the count stops at 256", breaks=COUNTS, name="counts in the dtype of the logits")
def accuracy(model, batches):
    hits, total = 0, 0
    with measuring(model):
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits = hits + (logits.argmax(-1) == batch.labels[:, 0]).to(logits.dtype).sum()
            total += len(logits)
    return float(hits) / total


@wrong("squeezes the labels in place: the batch has labels (B,) afterwards", breaks=INPUTS, name="changes the labels of the batch")
def accuracy(model, batches):
    hits = total = 0
    with measuring(model):
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            labels = batch.labels.squeeze_(1) if batch.labels.dim() == 2 else batch.labels
            hits += int((guess == labels).sum())
            total += len(guess)
    return hits / total


@wrong("asks whether the second logit is larger than the first, as in section 7: wrong with three or more labels", breaks=LOGITS, name="only two labels")
def accuracy(model, batches):
    hits = total = 0
    with measuring(model):
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = (logits[:, -1] > logits[:, 0]).long()
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
    return hits / total


@wrong("makes probabilities with exp before argmax: large logits are all infinite, and the first of them wins", breaks=OVERFLOW, name="exponentials of large logits")
def accuracy(model, batches):
    hits = total = 0
    with measuring(model):
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = logits.exp().argmax(dim=-1)
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
    return hits / total


@wrong("switches only the model's own flag, so dropout modules inside the model stay active", breaks=MEASURE, name="eval mode of the outermost module only")
def accuracy(model, batches):
    mode, model.training = model.training, False
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += int((guess == batch.labels[:, 0]).sum())
            total += len(guess)
    model.training = mode
    return hits / total
