import contextlib
import itertools

import torch

from blind import right, wrong

BEFORE = "If a logit at a position before t then changes by more than 0.001, the model looks ahead."
NARROW = "It may concern a single pair of positions, a single token of the vocabulary, or a single sentence of the batch."
EVERY = "So try every position, and at each position every token from 0 to V - 1."
ROUNDING = "Rounding may change logits, too, but by less than 0.00001."
MODE = "So put the model into eval mode for the test, and afterwards back into its earlier mode."
KEEP = "model: called as above; keep its mode (train or eval)."
TARGET = "target: token ids (B, T); do not change them."
RETURN = "True if the model looks ahead, and False if it does not."


@contextlib.contextmanager
def eval_mode(model):
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


@right("from the last position to the first, with an early return inside a context manager")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    with eval_mode(model):
        before = model(source, lengths, target)[0].double()
        for t in range(target.size(1) - 1, 0, -1):
            for token in range(before.size(-1)):
                changed = torch.cat(
                    [target[:, :t], torch.full_like(target[:, :1], token), target[:, t + 1 :]], dim=1
                )
                after = model(source, lengths, changed)[0].double()
                if (after[:, :t] - before[:, :t]).abs().max() > 5e-4:
                    return True
        return False


@right("instead of token v, each sentence gets its own token plus v (modulo V), for v from 1 to V - 1")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, []
    model.eval()
    before = model(source, lengths, target)[0]
    v = before.shape[-1]
    for t, step in itertools.product(range(1, target.shape[1]), range(1, v)):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + step) % v
        after = model(source, lengths, changed)[0]
        found.append(bool(((after - before)[:, :t].abs() > 1e-4).any()))
    model.train(mode)
    return any(found)


@right("largest and smallest value of every early logit over all tokens (the target's own token is one of them)")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    vocabulary = range(model(source, lengths, target)[0].size(-1))
    widest = 0.0
    for t in range(1, target.size(1)):
        high = low = None
        for token in vocabulary:
            here = torch.arange(target.size(1), device=target.device) == t
            logits = model(source, lengths, torch.where(here, token, target))[0][:, :t].double()
            high = logits if high is None else torch.maximum(high, logits)
            low = logits if low is None else torch.minimum(low, logits)
        widest = max(widest, float((high - low).max()))
    if was_training:
        model.train()
    return widest > 1e-4


@right("one small function per position and token, and any() over a generator; only sentences whose token changes "
       "are compared")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def leak(t, token):
        changed = target.index_fill(1, torch.tensor([t], device=target.device), token)
        move = model(source, lengths, changed)[0] - before
        return bool(move[target[:, t] != token, :t].abs().gt(1e-4).any())

    with eval_mode(model):
        before = model(source, lengths, target)[0]
        pairs = itertools.product(range(before.size(-1)), range(1, target.size(1)))
        return any(leak(t, token) for token, t in pairs)


def search(model, source, lengths, target, positions=None, tokens=None, differs=None):
    """The usual search, with some parts to replace. The mode is right."""
    differs = differs or (lambda after, before, t: bool(((after - before)[:, :t].abs() > 1e-3).any()))
    with eval_mode(model):
        before = model(source, lengths, target)[0]
        tokens = tokens(before.size(-1)) if tokens else range(before.size(-1))
        for t in positions or range(1, target.size(1)):
            for token in tokens:
                changed = target.clone()
                changed[:, t] = token
                if differs(model(source, lengths, changed)[0], before, t):
                    return True
    return False


@wrong("tries a single other token at each position", breaks=EVERY, name="one token per position")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    with eval_mode(model):
        before = model(source, lengths, target)[0]
        for t in range(1, target.size(1)):
            changed = target.clone()
            changed[:, t] = (changed[:, t] + 1) % before.size(-1)
            after = model(source, lengths, changed)[0]
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    return False


@wrong("looks at the first sentence only", breaks=NARROW, name="first sentence only")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: bool(((after - before)[0, :t].abs() > 1e-3).any()))


@wrong("takes any difference for a leak: rounding is enough", breaks=ROUNDING, name="exact comparison of logits")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: not torch.equal(after[:, :t], before[:, :t]))


@wrong("returns as soon as it has found a leak, without putting the model back into train mode", breaks=MODE,
       name="mode not restored after a leak")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    model.train(mode)
    return False


@wrong("changes the target in place and repairs it after each position, but not before it returns True",
       breaks=TARGET, name="target changed in place")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    with eval_mode(model):
        before = model(source, lengths, target)[0]
        for t in range(1, target.size(1)):
            own = target[:, t].clone()
            for token in range(before.size(-1)):
                target[:, t] = token
                after = model(source, lengths, target)[0]
                if ((after - before)[:, :t].abs() > 1e-3).any():
                    return True
            target[:, t] = own
    return False


@wrong("tries only the tokens up to the largest one in the target", breaks=EVERY, name="vocabulary read off the target")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target, tokens=lambda v: range(int(target.max()) + 1))


@wrong("compares the positions before t - 1: does not see a leak from a position to the one right before it",
       breaks=BEFORE, name="position right before t left out")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: bool(((after - before)[:, : t - 1].abs() > 1e-3).any()))


@wrong("allclose with atol=0.001 and the usual relative tolerance: with logits of 1000, a change of 0.005 passes",
       breaks=BEFORE, name="relative tolerance")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: not torch.allclose(after[:, :t], before[:, :t], atol=1e-3))


@wrong("asks for a logit that has grown: a leak that only lowers logits is not found", breaks=BEFORE,
       name="no absolute value")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: bool(((after - before)[:, :t] > 1e-3).any()))


@wrong("compares the mean change with 0.001: a change of a single logit is averaged away", breaks=BEFORE,
       name="mean change instead of the largest")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    return search(model, source, lengths, target,
                  differs=lambda after, before, t: bool((after - before)[:, :t].abs().mean() > 1e-3))
