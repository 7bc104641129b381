import contextlib

import torch

from blind import right, wrong


@right("tokens outside, positions inside, try/finally around an early return")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    try:
        before = model(source, lengths, target)[0]
        for token in range(before.shape[-1]):
            for t in reversed(range(1, target.shape[1])):
                places = torch.arange(target.shape[1], device=target.device) == t
                after = model(source, lengths, target.masked_fill(places, token))[0]
                moved = torch.abs(after[:, :t] - before[:, :t]) > 1e-3
                if moved.any().item():
                    return True
        return False
    finally:
        model.train(mode)


@right("each sentence of the batch gets another token in the same call; in V calls every sentence has seen every token")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.train(False)
    before, _ = model(source, lengths, target)
    V, found = before.size(-1), False
    own = torch.arange(target.size(0), device=target.device)
    for t in range(1, target.size(1)):
        for shift in range(V):
            other = target.clone()
            other[:, t] = (own + shift) % V
            after, _ = model(source, lengths, other)
            change = (after - before)[:, :t].abs().amax()
            found = found or bool(change > 0.001)
    model.train(was_training)
    return found


@right("a generator of all changed targets, any(), and a context manager for the mode")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    @contextlib.contextmanager
    def evaluating():
        mode = model.training
        model.eval()
        yield
        model.train(mode)

    def changed(vocabulary):
        for t in range(1, target.size(1)):
            for token in range(vocabulary):
                column = torch.full_like(target[:, :1], token)
                yield t, torch.cat([target[:, :t], column, target[:, t + 1 :]], dim=1)

    with evaluating():
        before = model(source, lengths, target)[0]
        verdict = any(
            not torch.allclose(
                model(source, lengths, new)[0][:, :t], before[:, :t], rtol=0, atol=1e-3
            )
            for t, new in changed(before.size(-1))
        )
    return verdict


@right("collects the largest change of every position pair in a tensor and looks at it only at the end")
@torch.no_grad()
def looks_ahead(model, source, lengths, target, limit=0.001):
    T, mode = target.size(1), model.training
    model.eval()
    before = model(source, lengths, target)[0]
    largest = torch.zeros(T, T, device=before.device)  # changed token, logit
    for t in range(T):
        for token in torch.arange(before.size(-1), device=target.device):
            new = target.index_fill(1, torch.tensor([t], device=target.device), int(token))
            change = (model(source, lengths, new)[0] - before).abs().amax(dim=(0, 2))
            largest[t] = torch.maximum(largest[t], change.to(largest.dtype))
    if mode:
        model.train()
    return bool((largest.tril(-1) > limit).any())


@wrong(
    "looks at the logits up to and including position t; the token at t may influence those, so every model is said to look ahead",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "position t itself is compared, too",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, : t + 1].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "leaves the model in its mode; in train mode dropout changes the logits and the answer is True for a model that does not look ahead",
    "So put the model into eval mode for the test, and afterwards back into its earlier mode.",
    "no eval mode during the test",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                return True
    return False


@wrong(
    "asks for exactly equal logits, so a change by rounding counts as a leak",
    "Rounding may change logits, too, but by less than 0.00001.",
    "no tolerance for rounding",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found = found or not torch.equal(after[:, :t], before[:, :t])
    model.train(mode)
    return found


@wrong(
    "changes the target itself and puts the old tokens back after each position, but returns at once when it finds a leak: the caller's target then keeps the wrong token",
    "target: token ids (B, T); do not change them.",
    "target stays changed after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        old = target[:, t].clone()
        for token in range(before.size(-1)):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                model.train(mode)
                return True
        target[:, t] = old
    model.train(mode)
    return False


@wrong(
    "restores the mode only at the end of the loops; when it returns True early, a model that was in train mode stays in eval mode",
    "So put the model into eval mode for the test, and afterwards back into its earlier mode.",
    "mode not restored on early return",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            if bool(((after - before)[:, :t].abs() > 0.001).any()):
                return True
    model.train(mode)
    return False


@wrong(
    "tries one replacement for each position, the next token of the vocabulary; misses a leak that concerns a single token",
    "So try every position, and at each position every token from 0 to V - 1.",
    "one replacement token per position",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        other = target.clone()
        other[:, t] = (other[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, other)
        found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "takes the largest token of the target for V - 1, so tokens above it are never tried",
    "So try every position, and at each position every token from 0 to V - 1.",
    "vocabulary size guessed from the target",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "skips a token if some sentence already has it at this position, to save calls in which nothing changes; for the other sentences of the batch this token is never tried",
    "It may concern a single pair of positions, a single token of the vocabulary, or a single sentence of the batch.",
    "skips tokens that another sentence has",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        there = set(target[:, t].tolist())
        for token in range(before.size(-1)):
            if token in there:
                continue  # nothing would change
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "takes the largest difference without abs; a leak that only makes logits smaller is not found",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "decreases of a logit are missed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    worst = 0.0
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            worst = max(worst, float((after - before)[:, :t].max()))
    model.train(mode)
    return worst > 0.001


@wrong(
    "compares log-probabilities instead of logits; a leak that adds the same amount to all logits of a position is not found",
    "If a logit at a position before t then changes by more than 0.001, the model looks ahead.",
    "compares probabilities, not logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before = model(source, lengths, target)[0].log_softmax(dim=-1)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after = model(source, lengths, other)[0].log_softmax(dim=-1)
            found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found
