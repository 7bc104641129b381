import itertools

import torch

from blind import right, wrong


# Right answers


@right("changes one sentence at a time, from the last position to the first")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    try:
        before, _ = model(source, lengths, target)
        for t in range(target.size(1) - 1, 0, -1):
            for b, token in itertools.product(range(len(target)), range(before.size(2))):
                changed = target.clone()
                changed[b, t] = token
                after, _ = model(source, lengths, changed)
                if (after[b, :t] - before[b, :t]).abs().max().item() > 1e-3:
                    return True
        return False
    finally:
        model.train(was_training)


@right("compares the largest and the smallest value that each logit ever takes")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    first = model(source, lengths, target)[0].double()
    position = torch.arange(target.size(1), device=target.device)
    widest = 0.0
    for t in range(1, target.size(1)):
        low, high = first[:, :t], first[:, :t]
        for token in range(first.size(-1)):
            changed = torch.where(position == t, token, target)
            logits = model(source, lengths, changed)[0][:, :t].double()
            low, high = torch.minimum(low, logits), torch.maximum(high, logits)
        widest = max(widest, float((high - low).max()))
    model.train(mode)
    return widest > 1e-3


@right("a helper generates the changed targets, by torch.cat, and any() asks them all")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def look(tokens):
        return model(source, lengths, tokens)[0]

    def changes(before):
        for t in range(1, target.shape[1]):
            for token in range(before.shape[-1]):
                column = torch.full_like(target[:, :1], token)
                yield t, look(torch.cat([target[:, :t], column, target[:, t + 1 :]], 1))

    was = model.training
    model.eval()
    before = look(target)
    verdict = any(
        not torch.allclose(after[:, :t], before[:, :t], rtol=0.0, atol=1e-3)
        for t, after in changes(before)
    )
    if was:
        model.train()
    return verdict


@right("collects the verdicts of all rounds in a tensor, token by token")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.train(False)
    before, _ = model(source, lengths, target.clone())
    size, vocabulary = target.size(1), before.size(2)
    found = torch.zeros(vocabulary, size, dtype=torch.bool, device=before.device)
    for token in range(vocabulary):
        for t in range(size):
            changed = target.index_fill(1, torch.tensor([t], device=target.device), token)
            after, _ = model(source, lengths, changed)
            moved = (after - before).square() > 1e-7
            found[token, t] = moved[:, :t].any()
    model.train(mode)
    return bool(found.any())


# Wrong answers


@wrong(
    "compares the logits at position t, too, which may depend on the token at t",
    "If a logit at a position before t then changes by more than 0.001, the model "
    "looks ahead.",
    "also compares the changed position itself",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or bool(((after - before)[:, : t + 1].abs() > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "tries one other token per position, and so misses leaks of a single token",
    "So try every position, and at each position every token from 0 to V - 1.",
    "only one token is tried",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        changed[:, t] = (target[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, changed)
        found = found or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "forgets to clone, and so overwrites the target; the changes of earlier rounds also "
    "stay in it",
    "target: token ids (B, T); do not change them.",
    "the target is overwritten",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "leaves the model in its mode: in train mode, dropout looks like a leak",
    "So put the model into eval mode for the test, and afterwards back into its earlier "
    "mode.",
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
    "compares the differences without abs, and so misses a leak that makes logits "
    "smaller and none larger",
    "If a logit at a position before t then changes by more than 0.001, the model "
    "looks ahead.",
    "abs is missing",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or bool(((after - before)[:, :t] > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "compares with torch.allclose and its usual rtol of 1e-5, which is added to atol: a "
    "logit of 1000 may change by 0.011",
    "If a logit at a position before t then changes by more than 0.001, the model "
    "looks ahead.",
    "a relative tolerance hides changes of large logits",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if not torch.allclose(after[:, :t], before[:, :t], atol=1e-3):
                found = True
    model.train(was_training)
    return found


@wrong(
    "takes the largest id in the target for the last one of the vocabulary: tokens that "
    "the target does not reach are never tried",
    "So try every position, and at each position every token from 0 to V - 1.",
    "V is guessed from the target",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "returns as soon as it has found a leak, and leaves a model that was in train mode "
    "in eval mode",
    "model: called as above; keep its mode (train or eval).",
    "the mode is not restored where a leak is found",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    model.train(was_training)
    return False


@wrong(
    "compares the position just before t only, and misses a leak from t to an earlier "
    "one",
    "A leak may be very narrow. It may concern a single pair of positions, a single "
    "token of the vocabulary, or a single sentence of the batch.",
    "only neighbouring positions are compared",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or bool(((after - before)[:, t - 1].abs() > 1e-3).any())
    model.train(was_training)
    return found


@wrong(
    "takes any difference for a leak, even one that is only rounding",
    "Rounding may change logits, too, but by less than 0.00001.",
    "rounding counts as a leak",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found = found or not torch.equal(after[:, :t], before[:, :t])
    model.train(was_training)
    return found
