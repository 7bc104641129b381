import contextlib
import itertools

import torch

from blind import right, wrong


@right("two loops with an early return, inside try and finally")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    try:
        before = model(source, lengths, target)[0].clone()
        for t in range(1, target.shape[1]):
            for token in range(before.shape[2]):
                changed = target.clone()
                changed[:, t] = token
                after = model(source, lengths, changed)[0]
                if bool(((after - before)[:, :t].abs() > 0.001).any()):
                    return True
        return False
    finally:
        model.train(mode)


@contextlib.contextmanager
def _evaluating(model):
    mode = model.training
    model.eval()
    yield
    model.train(mode)


@right("keeps the largest change of all, tokens first, in float64")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    length = target.shape[1]
    place = torch.arange(length, device=target.device)
    largest = torch.zeros((), dtype=torch.float64, device=target.device)
    with _evaluating(model):
        before = model(source, lengths, target)[0].double().clone()
        for token, t in itertools.product(range(before.shape[-1]), range(length)):
            changed = torch.where(place == t, token, target)
            after = model(source, lengths, changed)[0].double()
            change = (after - before).abs().amax(dim=(0, 2))
            largest = torch.maximum(largest, (change * (place < t)).max())
    return largest.item() > 0.001


@right("one sentence at a time, as a generator")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    def changes():
        logits = model(source, lengths, target)[0].clone()
        for b, t, token in itertools.product(
            range(target.shape[0]), range(1, target.shape[1]), range(logits.shape[2])
        ):
            if target[b, t] == token:
                continue
            rows = target.unbind(0)
            row = torch.cat(
                [target[b, :t], target.new_full((1,), token), target[b, t + 1 :]]
            )
            changed = torch.stack([*rows[:b], row, *rows[b + 1 :]])
            new = model(source, lengths, changed)[0]
            yield (new[b, :t] - logits[b, :t]).abs().max().item()

    training = model.training
    model.eval()
    answer = any(change > 0.001 for change in changes())
    model.train(training)
    return answer


@right("changes another position and another token in each sentence of a call")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    size, length = target.shape
    mode, found = model.training, False
    model.eval()
    before = model(source, lengths, target)[0].clone()
    vocabulary = before.shape[-1]
    sentence = torch.arange(size, device=target.device)
    for i in range(vocabulary * (length - 1)):
        t = 1 + (sentence + i // vocabulary) % (length - 1)
        changed = target.clone()
        changed[sentence, t] = ((sentence + i) % vocabulary).to(target.dtype)
        after = model(source, lengths, changed)[0]
        earlier = torch.arange(length, device=target.device) < t[:, None]
        found |= bool(((after - before)[earlier].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "tries one other token per position, the next in the vocabulary",
    breaks="So try every position, and at each position every token from 0 to V - 1.",
    name="one token only",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        after, _ = model(source, lengths, changed)
        found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "takes the largest token of the target for the last one of the vocabulary",
    breaks="So try every position, and at each position every token from 0 to V - 1.",
    name="V from the target instead of the logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "never changes the last position",
    breaks="So try every position, and at each position every token from 0 to V - 1.",
    name="one position too few",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(target.shape[1] - 1):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "changes the target itself and puts the tokens back, but not if it returns early",
    breaks="target: token ids (B, T); do not change them.",
    name="the target stays changed where there is a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        kept = target[:, t].clone()
        for token in range(before.shape[-1]):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            if ((after - before)[:, :t].abs() > 0.001).any():
                model.train(mode)
                return True
        target[:, t] = kept
    model.train(mode)
    return False


@wrong(
    "takes every difference for a leak, also one by rounding",
    breaks="Rounding may change logits, too, but by less than 0.00001.",
    name="no tolerance for rounding",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= not torch.equal(after[:, :t], before[:, :t])
    model.train(mode)
    return found


@wrong(
    "returns as soon as it finds a leak, and leaves the model in eval mode then",
    breaks="So put the model into eval mode for the test, and afterwards back into its"
    " earlier mode.",
    name="the mode is not restored after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    model.train(mode)
    return False


@wrong(
    "forgets abs, and so sees only logits that grow",
    breaks="If a logit at a position before t then changes by more than 0.001, the model"
    " looks ahead.",
    name="logits that fall are overlooked",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= (after - before)[:, :t].max().item() > 0.001
    model.train(mode)
    return found


@wrong(
    "uses allclose, whose tolerance grows with the logits",
    breaks="If a logit at a position before t then changes by more than 0.001, the model"
    " looks ahead.",
    name="a relative tolerance",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= not torch.allclose(after[:, :t], before[:, :t], atol=0.001)
    model.train(mode)
    return found


@wrong(
    "compares probabilities, which stay the same if all logits of a position grow alike",
    breaks="If a logit at a position before t then changes by more than 0.001, the model"
    " looks ahead.",
    name="probabilities instead of logits",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before = model(source, lengths, target)[0].log_softmax(dim=-1)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0].log_softmax(dim=-1)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(mode)
    return found


@wrong(
    "looks only at the logits directly before the changed position",
    breaks="It may concern a single pair of positions, a single token of the vocabulary,"
    " or a single sentence of the batch.",
    name="neighbours only",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode, found = model.training, False
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.shape[1]):
        for token in range(before.shape[-1]):
            changed = target.clone()
            changed[:, t] = token
            after, _ = model(source, lengths, changed)
            found |= bool(((after - before)[:, t - 1].abs() > 0.001).any())
    model.train(mode)
    return found
