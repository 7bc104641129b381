import torch

from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
EARLIER = (
    "If a logit at a position before t then changes by more than 0.001, the model looks"
    " ahead."
)
EVERY = (
    "So try every position, and at each position every token from 0 to V - 1."
)
ROUNDING = "Rounding may change logits, too, but by less than 0.00001."
MODE = (
    "So put the model into eval mode for the test, and afterwards back into its earlier"
    " mode."
)
TARGET = "target: token ids (B, T); do not change them."


@right("collects the largest change of all rounds; positions from last to first")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    try:
        before = model(source, lengths, target)[0].double().clone()
        largest = torch.zeros((), dtype=torch.float64, device=before.device)
        for t in reversed(range(1, target.size(1))):
            for token in range(before.size(-1)):
                column = torch.full_like(target[:, :1], token)
                changed = torch.cat([target[:, :t], column, target[:, t + 1 :]], dim=1)
                after = model(source, lengths, changed)[0].double()
                change = (after[:, :t] - before[:, :t]).abs().amax()
                largest = torch.maximum(largest, change)
        return largest.item() > 0.001
    finally:
        model.train(earlier)


@right("turns every token around the vocabulary by 1, 2, ..., V - 1")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.train(False)
    before = model(source, lengths, target)[0].clone()
    vocabulary = before.size(2)
    place = torch.arange(target.size(1), device=target.device)
    found = False
    for t in place[1:].tolist():
        for turn in range(1, vocabulary):
            other = (target + turn * (place == t)) % vocabulary
            after = model(source, lengths, other)[0]
            moved = (after.double() - before.double()).abs() > 1e-3
            found = found or bool(moved[:, :t].any())
    model.train(mode)
    return found


@right("sentences change at different positions in the same call")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    batch, length = target.shape
    mode = model.training
    model.eval()
    before = model(source, lengths, target)[0].double() + 0.0
    rows = torch.arange(batch, device=target.device)
    place = torch.arange(length, device=target.device)
    found = False
    for shift in range(length):
        where = (rows + shift) % length
        for token in range(before.shape[-1]):
            other = target.clone()
            other[rows, where] = token
            after = model(source, lengths, other)[0].double()
            change = (after - before).abs().amax(dim=-1)
            if torch.any(change[place < where[:, None]] > 0.001):
                found = True
                break
        if found:
            break
    model.train(mode)
    return found


@right("a generator of changes under any(); compares sentence by sentence")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def logits_of(tokens):
        return model(source, lengths, tokens)[0].tolist()

    def changes():
        before = logits_of(target.clone())
        size = len(before[0][0])
        for token in range(size):
            for t in range(1, target.size(1)):
                other = target.clone()
                other[:, t] = token
                for old, new in zip(before, logits_of(other)):
                    for s in range(t):
                        yield max(abs(a - b) for a, b in zip(old[s], new[s]))

    was_training = bool(model.training)
    model.eval()
    answer = any(change > 0.001 for change in changes())
    if was_training:
        model.train()
    return answer



@wrong(
    "replaces each token only by its successor in the vocabulary",
    EVERY,
    "tries only one token",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        other = target.clone()
        other[:, t] = (other[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, other)
        found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(earlier)
    return found


@wrong(
    "calls every change a leak, even one by rounding",
    ROUNDING,
    "rounding taken for a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= not torch.equal(after[:, :t], before[:, :t])
    model.train(earlier)
    return found


@wrong(
    "compares only the most probable tokens, so small changes go unseen",
    EARLIER,
    "compares predictions instead of logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool((after.argmax(-1) != before.argmax(-1))[:, :t].any())
    model.train(earlier)
    return found


@wrong(
    "always puts the model into train mode at the end, even if it was in eval mode",
    MODE,
    "always ends in train mode",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train()
    return found


@wrong(
    "leaves out token 0, because it is padding",
    EVERY,
    "leaves out the padding token",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(1, before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(earlier)
    return found


@wrong(
    "forgets the absolute value, so a leak that only lowers logits goes unseen",
    EARLIER,
    "no absolute value of the change",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, :t] > 0.001).any())
    model.train(earlier)
    return found


@wrong(
    "uses `allclose`, whose relative tolerance hides changes of large logits",
    EARLIER,
    "relative tolerance hides the leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= not torch.allclose(after[:, :t], before[:, :t], atol=0.001)
    model.train(earlier)
    return found


@wrong(
    "returns as soon as it finds a leak, and leaves the model in eval mode then",
    MODE,
    "mode not restored after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    model.train(earlier)
    return found


@wrong(
    "looks only at the position just before the changed one, so a leak over a longer"
    " distance goes unseen",
    EARLIER,
    "compares only one earlier position",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, t - 1].abs() > 0.001).any())
    model.train(earlier)
    return found


@wrong(
    "changes the target itself and restores it after each position, but not if it finds"
    " a leak",
    TARGET,
    "target not restored after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    earlier = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        column = target[:, t].clone()
        for token in range(before.size(-1)):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            if ((after - before)[:, :t].abs() > 0.001).any():
                model.train(earlier)
                return True
        target[:, t] = column
    model.train(earlier)
    return found
