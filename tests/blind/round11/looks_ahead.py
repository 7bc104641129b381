import contextlib
import itertools

import torch

from attention_course.tasks.core import BOS, EOS, PAD

from blind import right, wrong


@right("all positions at once, in one large batch per token")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    count, length = target.shape
    before, _ = model(source, lengths, target)
    place = torch.arange(length, device=target.device)
    changed = place[1:, None] == place  # one row per changed position
    earlier = place[1:, None] > place
    found = False
    if length > 1:
        sources = torch.cat([source] * (length - 1))
        many = torch.cat([lengths] * (length - 1))
        for token in range(before.shape[-1]):
            variants = target.masked_fill(changed[:, None], token).flatten(0, 1)
            after, _ = model(sources, many, variants)
            change = (after.unflatten(0, (length - 1, count)) - before).abs().amax(-1)
            found = found or bool((change > 0.001).logical_and(earlier[:, None]).any())
    model.train(training)
    return found


@right("any over itertools.product, from the last position to the first, with try and finally")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def logits(tokens):
        return model(source, lengths, tokens)[0]

    def differs(place, token):
        other = target.clone()
        other[:, place] = token
        change = logits(other)[:, :place].sub(before[:, :place])
        return change.abs().gt(1e-3).any().item()

    was_training = model.training
    try:
        model.eval()
        before = logits(target)
        tries = itertools.product(
            reversed(range(1, target.shape[1])), range(before.shape[-1])
        )
        return any(differs(place, token) for place, token in tries)
    finally:
        model.train(was_training)


@contextlib.contextmanager
def _evaluating(model):
    training = model.training
    yield model.eval()
    model.train(training)


@right("keeps the largest change of all rounds; torch.where; a context manager for the mode")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    largest = 0.0
    place = torch.arange(target.shape[1], device=target.device)
    with _evaluating(model):
        before = model(source, lengths, target)[0]
        for token in range(before.size(2)):
            for t in range(1, target.size(1)):
                after = model(source, lengths, torch.where(place == t, token, target))[0]
                change = torch.dist(after[:, :t], before[:, :t], p=float("inf"))
                largest = max(largest, change.item())
    return largest > 0.001


@right("puts the changed target together from three parts, and compares with allclose without its relative part")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, verdict = model.training, False
    model.train(False)
    before = model(source, lengths, target)[0]
    for t in range(1, target.shape[1]):
        for token in range(before.shape[2]):
            parts = (target[:, :t], torch.full_like(target[:, :1], token), target[:, t + 1 :])
            after = model(source, lengths, torch.cat(parts, dim=1))[0]
            if not torch.allclose(after[:, :t], before[:, :t], rtol=0.0, atol=0.001):
                verdict = True
                break
        if verdict:
            break
    model.train(mode)
    return verdict


@wrong(
    "also compares the logits at the changed position itself, which may change",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "position t is compared, too",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, : t + 1].abs() > 0.001).any())
    model.train(training)
    return found


@wrong(
    "takes every difference for a leak, rounding included",
    "Rounding may change logits, too, but by less than 0.00001.",
    "rounding taken for a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= not torch.equal(after[:, :t], before[:, :t])
    model.train(training)
    return found


@wrong(
    "returns as soon as it has found a leak, and then leaves the model in eval mode",
    "So put the model into eval mode for the test, and afterwards back into its earlier mode.",
    "mode not restored after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    model.train(training)
    return False


@wrong(
    "sees only logits that rise",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "no absolute value",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool((after - before)[:, :t].max() > 0.001)
    model.train(training)
    return found


@wrong(
    "compares only the position right before the changed one, the one that has to predict it",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "only position t - 1 compared",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, t - 1].abs() > 0.001).any())
    model.train(training)
    return found


@wrong(
    "does not try the special tokens",
    "So try every position, and at each position every token from 0 to V - 1.",
    "special tokens not tried",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    words = [v for v in range(before.shape[-1]) if v not in (PAD, BOS, EOS)]
    found = False
    for t in range(1, target.shape[1]):
        for token in words:
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(training)
    return found


@wrong(
    "stacks the verdicts of all rounds, and fails for a target of one token, which has no rounds",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "fails for T = 1",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    changes = []
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            changes.append((after - before)[:, :t].abs().max())
    model.train(training)
    return bool(torch.stack(changes).max() > 0.001)


@wrong(
    "changes the target itself and puts the old tokens back, but they are only a view of the changed ones",
    "target: token ids (B, T); do not change them.",
    "target changed in place",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    found = False
    for t in range(1, target.shape[1]):
        before, _ = model(source, lengths, target)
        old = target[:, t]
        for token in range(before.shape[-1]):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
        target[:, t] = old
    model.train(training)
    return found


@wrong(
    "compares with allclose and its relative tolerance, so at large logits it misses changes above 0.001",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "tolerance grows with the logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= not torch.allclose(after[:, :t], before[:, :t], atol=0.001)
    model.train(training)
    return found


@wrong(
    "cuts the target off at each position instead of changing tokens: misses a leak that only a token outside this target opens",
    "So try every position, and at each position every token from 0 to V - 1.",
    "truncates instead of trying the tokens",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    full, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.shape[1]):
        prefix, _ = model(source, lengths, target[:, :t])
        found |= bool(((full[:, :t] - prefix).abs() > 0.001).any())
    model.train(training)
    return found
