import itertools

import torch

from blind import right, wrong


@right("product of positions and tokens, mode restored in finally")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    try:
        model.eval()
        before, _ = model(source, lengths, target)
        places = range(1, target.size(1))
        for t, token in itertools.product(places, range(before.size(-1))):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if (after - before)[:, :t].abs().max() > 0.001:
                return True
        return False
    finally:
        model.train(mode)


@right("torch.where with the positions; the largest change of all is compared once")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = bool(model.training)
    model.train(False)
    before = model(source, lengths, target.clone())[0].clone()
    here = torch.arange(target.size(1), device=target.device)
    largest = 0.0
    for t in reversed(range(target.size(1))):
        for token in reversed(range(before.size(2))):
            tried = torch.where(here == t, torch.full_like(target, token), target)
            change = (model(source, lengths, tried)[0] - before)[:, :t]
            if change.numel():
                largest = max(largest, change.abs().max().item())
    model.train(was_training)
    return largest > 0.001


@right("any over a generator expression, changed targets glued together")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    logits = model(source, lengths, target)[0].double()

    def leak(t, token):
        new = torch.full_like(target[:, :1], token)
        glued = torch.cat([target[:, :t], new, target[:, t + 1 :]], dim=1)
        other = model(source, lengths, glued)[0].double()
        return bool(((other[:, :t] - logits[:, :t]).abs() > 1e-3).any())

    sizes = range(1, target.shape[1]), range(logits.shape[-1])
    found = any(leak(t, token) for t in sizes[0] for token in sizes[1])
    model.train(mode)
    return found


@right("scatter writes the token; comparison by subtraction without tolerance functions")
@torch.no_grad()
def looks_ahead(model, source, lengths, target, limit=0.001):
    mode, verdict = model.training, torch.zeros((), dtype=torch.bool)
    model.eval()
    before, _ = model(source, lengths, target)
    t = target.size(1) - 1
    while t >= 1:
        column = torch.full_like(target[:, :1], t)
        for token in range(before.size(-1)):
            changed = target.scatter(1, column, token)
            after, _ = model(source, lengths, changed)
            worst = torch.linalg.vector_norm(after[:, :t] - before[:, :t], ord=torch.inf)
            verdict = verdict | (worst > limit).cpu()
        t -= 1
    model.train(mode)
    return verdict.item()


@wrong(
    "tries one token per position (the next id): a leak that only one other token causes is missed",
    "So try every position, and at each position every token from 0 to V - 1.",
    "only one token tried",
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
        found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "compares the logits of position t itself as well, which may change: every model looks ahead",
    "The model looks ahead if you can put some token of the vocabulary in the place of the target's token at some position t, and a logit at a position before t changes by more than 0.001.",
    "position t counted as before t",
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
            found |= bool(((after - before)[:, : t + 1].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "puts the model into training mode at the end, whatever it was in before",
    "So put the model in evaluation mode for the test, and afterwards back into the mode in which you got it.",
    "always leaves training mode",
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
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train()
    return found


@wrong(
    "returns from inside the loop when it finds a leak, before the mode is restored: a leaking model in training mode stays in evaluation mode",
    "model: called as above; its mode (training or evaluation) stays.",
    "early return skips restoring the mode",
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
    "any difference counts, so a model whose rounding differs from call to call is said to look ahead",
    "Rounding changes logits, too, but by less than 0.00001.",
    "rounding taken for a leak",
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
            found |= not torch.equal(after[:, :t], before[:, :t])
    model.train(mode)
    return found


@wrong(
    "allclose with its relative tolerance of 1e-5: for logits of several hundred a change of 0.002 is not seen",
    "The model looks ahead if you can put some token of the vocabulary in the place of the target's token at some position t, and a logit at a position before t changes by more than 0.001.",
    "relative tolerance hides small leaks",
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
            found |= not torch.allclose(after[:, :t], before[:, :t], atol=0.001)
    model.train(mode)
    return found


@wrong(
    "the vocabulary is taken to end with the largest token of the target: leaks that only larger tokens cause are missed",
    "So try every position, and at each position every token from 0 to V - 1.",
    "not all tokens tried",
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
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "tries the tokens on the given target and puts back the old one, but only after the last token of each position of the first sentence: the other sentences keep token V - 1 and the target is changed",
    "target: (B, T) token ids; it stays as it is.",
    "target changed in place, not fully restored",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target.clone())
    found = False
    for t in range(1, target.size(1)):
        old = int(target[0, t])
        for token in range(before.size(-1)):
            changed = target.clone()
            target[:, t] = token
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
        target[:, t] = old
    model.train(mode)
    return found


@wrong(
    "looks only at the position right before the changed token: a position that sees further ahead, but not its neighbour, is missed",
    "A leak may be very narrow: one position sees one later position, or only one token of the vocabulary can be seen, or the leak affects only one sentence of the batch.",
    "only the neighbouring position compared",
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
            found |= bool(((after - before)[:, t - 1].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "saves time by giving each sentence another token in the same call, and tries ceil(V / B) calls: right for leaks that concern all sentences, but a leak in one sentence is seen only if this sentence happens to get the token",
    "A leak may be very narrow: one position sees one later position, or only one token of the vocabulary can be seen, or the leak affects only one sentence of the batch.",
    "not every token in every sentence",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    B, V = target.size(0), before.size(-1)
    found = False
    for t in range(1, target.size(1)):
        for first in range(0, V, B):
            changed = target.clone()
            changed[:, t] = (first + torch.arange(B, device=target.device)) % V
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found
