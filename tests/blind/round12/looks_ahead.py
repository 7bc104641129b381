import itertools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD

from blind import right, wrong

CHANGE = "If a logit at a position before t then changes by more than 0.001, the model looks ahead."
EVERY = "So try every position, and at each position every token from 0 to V - 1."
NARROW = "It may concern a single pair of positions, a single token of the vocabulary, or a single sentence of the batch."
ROUNDING = "Rounding may change logits, too, but by less than 0.00001."
DROPOUT = "In train mode, dropout changes the logits from call to call."
MODE = "So put the model into eval mode for the test, and afterwards back into its earlier mode."
TARGET = "target: token ids (B, T); do not change them."
KEEP = "model: called as above; keep its mode (train or eval)."


# wrong, plain


@wrong(
    "tests the model in the mode in which it is, so that dropout looks like a leak",
    DROPOUT,
    "no eval mode",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    return False


@wrong(
    "compares position t as well, whose own token may change its logits",
    CHANGE,
    "position t itself counted as earlier",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, : t + 1].abs() > 1e-3).any():
                leak = True
    model.train(training)
    return leak


@wrong(
    "writes the tokens into the caller's target, and leaves the last one there",
    TARGET,
    "target changed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in reversed(range(1, target.size(1))):  # later tokens do not matter
        for token in range(before.size(-1)):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            leak = leak or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(training)
    return leak


# wrong, subtle


@wrong(
    "compares the logits with the position just before t only",
    NARROW,
    "only neighbours compared",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, t - 1].abs() > 1e-3).any():
                leak = True
    model.train(training)
    return leak


@wrong(
    "returns at the first leak, before the model is put back into train mode",
    KEEP,
    "mode not restored where there is a leak",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    model.train(training)
    return False


@wrong(
    "leaves the model in train mode, also if it was in eval mode",
    MODE,
    "always back into train mode",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train()
    return leak


@wrong(
    "replaces each token by one other token only, the next one of the vocabulary",
    EVERY,
    "one replacement per position",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, changed)
        if ((after - before)[:, :t].abs() > 1e-3).any():
            leak = True
    model.train(training)
    return leak


@wrong(
    "looks for logits that become larger, not for those that become smaller",
    CHANGE,
    "abs forgotten",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    largest = 0.0
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            largest = max(largest, (after - before)[:, :t].max().item())
    model.train(training)
    return largest > 1e-3


@wrong(
    "allclose, whose relative tolerance forgives larger changes of large logits",
    CHANGE,
    "relative tolerance",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.allclose(after[:, :t], before[:, :t], rtol=1e-3, atol=1e-3):
                leak = True
    model.train(training)
    return leak


@wrong(
    "does not try PAD, BOS and EOS, since they are no words",
    EVERY,
    "special tokens left out",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            if token in (PAD, BOS, EOS):
                continue
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 1e-3).any():
                leak = True
    model.train(training)
    return leak


# right


@right("try and finally for the mode, positions from the last one down, in float64")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    try:
        model.eval()
        before = model(source, lengths, target)[0].double()
        for t in range(target.shape[1] - 1, 0, -1):
            for token in reversed(range(before.shape[2])):
                changed = torch.cat(
                    (target[:, :t], torch.full_like(target[:, :1], token), target[:, t + 1 :]),
                    dim=1,
                )
                after = model(source, lengths, changed)[0].double()
                if torch.any(torch.abs(after[:, :t] - before[:, :t]) > 0.001):
                    return True
        return False
    finally:
        model.train(earlier)


@right("looks for the largest change of all, and judges at the end")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.train(False)
    before, _ = model(source, lengths, target)
    pairs = itertools.product(range(before.size(2)), range(1, target.size(1)))
    largest = [0.0]
    for token, t in pairs:
        place = torch.arange(target.size(1), device=target.device) == t
        after, _ = model(source, lengths, target.masked_fill(place, token))
        largest.append((after - before).abs()[:, :t].max().item())
    model.train(mode)
    return max(largest) > 1e-4


@right("one copy, whose column is put back, and two calls for each comparison")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was, copy = model.training, target.clone()
    model.eval()
    sizes = model(source, lengths, copy)[0].size(-1)
    found = False
    for t in range(1, copy.size(1)):
        column = copy[:, t].clone()
        for token in range(sizes):
            one = model(source, lengths, copy)[0][:, :t]
            copy[:, t] = token
            other = model(source, lengths, copy)[0][:, :t]
            copy[:, t] = column
            found = found or not torch.allclose(one, other, rtol=0.0, atol=0.0005)
    if was:
        model.train()
    return found


@right("a generator of verdicts in any(), a helper for the mode")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    class Quiet:
        def __enter__(self):
            self.mode = model.training
            model.eval()

        def __exit__(self, *_):
            model.train(self.mode)

    def verdicts():
        before = model(source, lengths, target)[0]
        vocabulary = before.shape[-1]
        for t in range(1, target.shape[1]):
            for token in range(vocabulary):
                index = torch.full_like(target[:, :1], t)
                changed = target.scatter(1, index, token)
                after = model(source, lengths, changed)[0]
                yield (after[:, :t] - before[:, :t]).abs().amax().item() > 1e-3

    with Quiet():
        return any(verdicts())
