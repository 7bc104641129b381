import torch

from blind import right, wrong

EVERY = "So try every position, and at each position every token from 0 to V - 1."
LEAK = "If a logit at a position before t then changes by more than 0.001, the model looks ahead."
NARROW = "It may concern a single pair of positions, a single token of the vocabulary, or a single sentence of the batch."


@right("early return inside try and finally")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    try:
        before = model(source, lengths, target)[0]
        for t in range(1, target.size(1)):
            for token in range(before.size(-1)):
                changed = target.clone()
                changed[:, t] = token
                after = model(source, lengths, changed)[0]
                if ((after - before)[:, :t].abs() > 1e-3).any():
                    return True
        return False
    finally:
        model.train(mode)


@right("adds 1 to V - 1 to each token, modulo V: all tokens but its own")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.train(False)
    before, _ = model(source, lengths, target)
    place = torch.arange(target.size(1), device=target.device)
    leak = False
    for t in reversed(range(1, target.size(1))):
        for step in range(1, before.size(2)):
            changed = (target + step * (place == t)) % before.size(2)
            after, _ = model(source, lengths, torch.where(place == t, changed, target))
            leak = leak or float((after[:, :t] - before[:, :t]).abs().max()) > 1e-3
    model.train(mode)
    return leak


@right("tokens outside, positions inside; largest change in float64; another threshold")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.eval()
    before = model(source, lengths, target)[0].double().clone()
    largest = 0.0
    for token in range(before.shape[-1]):
        for t in range(1, target.shape[1]):
            left, right_ = target[:, :t], target[:, t + 1 :]
            middle = torch.full_like(target[:, :1], token)
            row = torch.cat([left, middle, right_], dim=1)
            after = model(source, lengths, row)[0].double()
            change = (after.narrow(1, 0, t) - before.narrow(1, 0, t)).abs().amax()
            largest = max(largest, change.item())
    if was_training:
        model.train()
    return largest > 1e-4


@right("index_fill, isclose, and a generator with any")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def logits(tokens):
        return model(source, lengths, tokens)[0].double()

    def leaks(t, token):
        place = torch.tensor([t], device=target.device)
        after = logits(target.index_fill(1, place, token))
        same = torch.isclose(after[:, :t], before[:, :t], rtol=0.0, atol=5e-4)
        return not bool(same.all())

    mode = model.training
    model.eval()
    before = logits(target)
    verdict = any(
        leaks(t, token)
        for t in range(1, target.size(1))
        for token in range(before.size(-1))
    )
    model.train(mode)
    return verdict


@wrong(
    "takes the largest id of the target for the last one of the vocabulary",
    breaks=EVERY,
    name="vocabulary size taken from the target",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(mode)
    return leak


@wrong(
    "looks at the logits right before the changed position only",
    breaks=NARROW,
    name="only neighbouring positions compared",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or bool(((after - before)[:, t - 1].abs() > 1e-3).any())
    model.train(mode)
    return leak


@wrong(
    "returns True before it restores the mode",
    breaks="So put the model into eval mode for the test, and afterwards back into its earlier mode.",
    name="stays in eval mode after a leak",
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
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    model.train(mode)
    return False


@wrong(
    "copies the target once, so that earlier positions stay changed",
    breaks="Replace the target's token at a position t by some token of the vocabulary.",
    name="changes pile up",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    changed = target.clone()
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(mode)
    return leak


@wrong(
    "saves a view of the old tokens, which changes together with them",
    breaks="target: token ids (B, T); do not change them.",
    name="target not restored",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    for t in range(1, target.size(1)):
        before, _ = model(source, lengths, target)
        old = target[:, t]
        for token in range(before.size(-1)):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            leak = leak or bool(((after - before)[:, :t].abs() > 1e-3).any())
        target[:, t] = old
    model.train(mode)
    return leak


@wrong(
    "compares the mean of all changes with 0.001",
    breaks=NARROW,
    name="narrow leak averaged away",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or float((after - before)[:, :t].abs().mean()) > 1e-3
    model.train(mode)
    return leak


@wrong(
    "does not see logits that become smaller",
    breaks=LEAK,
    name="sign of the change not removed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or float((after - before)[:, :t].max()) > 1e-3
    model.train(mode)
    return leak


@wrong(
    "compares the most probable tokens",
    breaks=LEAK,
    name="predictions compared instead of logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before = model(source, lengths, target)[0].argmax(-1)
    V = model(source, lengths, target)[0].size(-1)
    for t in range(1, target.size(1)):
        for token in range(V):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0].argmax(-1)
            leak = leak or not torch.equal(after[:, :t], before[:, :t])
    model.train(mode)
    return leak


@wrong(
    "takes rounding for a leak",
    breaks="Rounding may change logits, too, but by less than 0.00001.",
    name="exact comparison",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or not torch.equal(after[:, :t], before[:, :t])
    model.train(mode)
    return leak


@wrong(
    "never changes the last token",
    breaks=EVERY,
    name="last position forgotten",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, leak = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1) - 1):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            leak = leak or bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(mode)
    return leak
