import contextlib
import itertools

import torch
from blind import right, wrong


@right("a context manager restores the mode, and any() over all pairs stops at the first leak")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    @contextlib.contextmanager
    def evaluating():
        mode = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(mode)

    def leaks(pair):
        t, token = pair
        there = torch.arange(T, device=target.device) == t
        changed = torch.where(there, token, target)
        moved = model(source, lengths, changed)[0][:, :t] - before[:, :t]
        return bool((moved.abs() > 1e-4).any())

    T = target.size(1)
    with evaluating():
        before, _ = model(source, lengths, target)
        return any(map(leaks, itertools.product(range(1, T), range(before.size(-1)))))


@right("remembers the largest change at earlier positions and judges once, at the end")
@torch.no_grad()
def looks_ahead(model, source, lengths, target, threshold=0.001):
    mode = model.training
    model.train(False)
    logits = model(source, lengths, target)[0]
    worst = 0.0
    for t in range(1, target.shape[1]):
        for token in range(logits.shape[2]):
            other = target.clone()
            other[:, t].fill_(token)
            change = model(source, lengths, other)[0][:, :t] - logits[:, :t]
            worst = max(worst, change.abs().max().item())
    model.train(mode)
    return worst > threshold


@right("from the last position to the first, with the changed target glued together from pieces")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    found = False
    first, _ = model(source, lengths, target)
    B, T, V = first.shape
    position = T - 1
    while position > 0 and not found:
        left, right_part = target[:, :position], target[:, position + 1 :]
        for token in range(V):
            middle = torch.full_like(target[:, :1], token)
            pieces = torch.cat((left, middle, right_part), dim=1)
            second, _ = model(source, lengths, pieces)
            low, high = (second - first)[:, :position].aminmax()
            if high > 0.0005 or low < -0.0005:
                found = True
        position -= 1
    if was_training:
        model.train()
    return found


@right("collects a verdict per position and token, and compares with numbers on the CPU")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    try:
        original = model(source, lengths, target)[0].double().cpu()
        _, T, V = original.shape
        verdicts = []
        for token in range(V):
            for t in range(T):
                index = torch.tensor([t], device=target.device)
                changed = target.index_fill(1, index, token)
                now = model(source, lengths, changed)[0].double().cpu()
                differs = ((now - original).abs() > 1e-3).any(dim=2).any(dim=0)
                verdicts.append(True in differs[:t].tolist())
    finally:
        model.train(was)
    return any(verdicts)


@wrong(
    "compares position t itself as well, whose logits may of course change: True for"
    " nearly every model, leak or not",
    "If a logit at a position before t then changes by more than 0.001, the model looks"
    " ahead.",
    "Compares the changed position as well",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, : t + 1].abs() > 0.001).any():
                found = True
    model.train(mode)
    return found


@wrong(
    "stays in the mode that the model is in: in train mode, dropout changes the logits, and"
    " a model without a leak is called leaky",
    "So put the model into eval mode for the test, and afterwards back into its earlier"
    " mode.",
    "Model not put into eval mode",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    return False


@wrong(
    "puts only one other token at each position, the next id: misses a leak that only"
    " certain tokens show",
    "So try every position, and at each position every token from 0 to V - 1.",
    "Only one token tried per position",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, changed)
        found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "switches to train mode at the end, whatever the mode was: a model in eval mode comes"
    " back in train mode",
    "model: called as above; keep its mode (train or eval).",
    "Always ends in train mode",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= ((after - before)[:, :t].abs() > 0.001).any().item()
    model.train()
    return found


@wrong(
    "takes the maximum of a list that is empty for targets of length 1, which raises"
    " ValueError instead of returning False",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "Fails for targets of one token",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    changes = []
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            changes.append((after - before)[:, :t].abs().max().item())
    model.train(mode)
    return max(changes) > 0.001


@wrong(
    "takes the largest id of the target for the size of the vocabulary: tokens above it are"
    " never tried, so a leak that only they show is missed",
    "So try every position, and at each position every token from 0 to V - 1.",
    "Vocabulary guessed from the target",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 0.001).any():
                found = True
    model.train(mode)
    return found


@wrong(
    "asks for exactly equal logits: a model without a leak whose logits move by a rounding"
    " error is called leaky",
    "Rounding may change logits, too, but by less than 0.00001.",
    "Rounding counts as a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.equal(after[:, :t], before[:, :t]):
                found = True
    model.train(mode)
    return found


@wrong(
    "returns from inside the loop when it finds a leak, before the mode is put back: a"
    " leaky model that was in train mode stays in eval mode",
    "So put the model into eval mode for the test, and afterwards back into its earlier"
    " mode.",
    "Mode not restored when a leak is found",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    model.train(mode)
    return False


@wrong(
    "allclose allows a relative error as well, 0.00001 of the logit: a change of 0.005 in a"
    " logit of 1000 is not seen",
    "If a logit at a position before t then changes by more than 0.001, the model looks"
    " ahead.",
    "Threshold grows with the logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.allclose(after[:, :t], before[:, :t], atol=0.001):
                found = True
    model.train(mode)
    return found


@wrong(
    "no absolute value: a leak that only ever makes logits smaller than those of the given"
    " target is missed",
    "If a logit at a position before t then changes by more than 0.001, the model looks"
    " ahead.",
    "Only rising logits count",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if (after - before)[:, :t].max() > 0.001:
                found = True
    model.train(mode)
    return found
