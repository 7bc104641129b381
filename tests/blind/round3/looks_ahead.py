import itertools

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("every pair of position and token by itertools.product, try and finally, one any()")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    try:
        before = model(source, lengths, target)[0]

        def changes(pair):
            t, token = pair
            other = torch.cat(
                [target[:, :t], torch.full_like(target[:, :1], token), target[:, t + 1 :]],
                dim=1,
            )
            after = model(source, lengths, other)[0]
            return ((after - before)[:, :t].abs() > 1e-3).any().item()

        pairs = itertools.product(range(1, target.size(1)), range(before.size(-1)))
        return any(map(changes, pairs))
    finally:
        model.train(was)


@right("remembers the mode of every part of the model, and a threshold between the two numbers")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    before, _ = model(source, lengths, target)
    B, T, V = before.shape
    place = torch.arange(T, device=target.device)
    found = torch.zeros((), dtype=torch.bool, device=before.device)
    for token in reversed(range(V)):
        for t in range(T - 1, 0, -1):
            after, _ = model(source, lengths, torch.where(place == t, token, target))
            found |= (after[:, :t] - before[:, :t]).abs().max() > 1e-4
    for part, mode in modes:
        part.training = mode
    return bool(found)


@right("each sentence gets another token in the same call, until all have had all")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.train(False)
    before = model(source, lengths, target)[0]
    B, T, V = before.shape
    rows = torch.arange(B, device=target.device)
    answer = False
    for t in range(1, T):
        for shift in range(V):
            other = target.clone()
            other[:, t] = ((rows + shift) % V).to(target.dtype)
            after = model(source, lengths, other)[0]
            if ((after - before).abs()[:, :t] > 0.001).any():
                answer = True
    model.train(was_training)
    return answer


@right("the target copied V times behind itself, so that one call tries all tokens at a position")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    B, T, V = before.shape
    worst = 0.0
    for t in range(1, T):
        many = target.repeat(V, 1)
        many[:, t] = torch.arange(V, device=target.device).repeat_interleave(B)
        repeated = source.repeat(V, *[1] * (source.dim() - 1))
        after = model(repeated, lengths.repeat(V), many)[0].unflatten(0, (V, B))
        worst = max(worst, float((after - before)[:, :, :t].abs().max()))
    if training:
        model.train()
    return worst > 0.001


# ---------------------------------------------------------------- wrong


@wrong(
    "tries one other token at each position",
    breaks="So try every position, and at each position every token from 0 to V - 1.",
    name="one token instead of all",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        other = target.clone()
        other[:, t] = (other[:, t] + 1) % before.size(-1)
        after, _ = model(source, lengths, other)
        found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(was)
    return found


@wrong(
    "takes the largest token of the target for the end of the vocabulary",
    breaks="every token from 0 to V - 1",
    name="vocabulary taken from the target",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found = found or bool(((after - before)[:, :t].abs() > 0.001).any())
    model.train(was)
    return found


@wrong(
    "changes the last position only",
    breaks="So try every position",
    name="only the last position is tried",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    if target.size(1) > 1:
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, -1] = token
            after, _ = model(source, lengths, other)
            found = found or bool(((after - before)[:, :-1].abs() > 0.001).any())
    model.train(was)
    return found


@wrong(
    "looks at the position right before the changed one only",
    breaks="a logit at a position before t changes by more than 0.001",
    name="only the neighbour is looked at",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, t - 1].abs() > 0.001).any())
    model.train(was)
    return found


@wrong(
    "forgets abs: logits that fall are not seen",
    breaks="a logit at a position before t changes by more than 0.001",
    name="only rises count",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[:, :t] > 0.001).any())
    model.train(was)
    return found


@wrong(
    "returns at once when it has found something, and leaves the model in evaluation mode then",
    breaks="leave it in the mode in which it came",
    name="return before the mode is set back",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            if ((after - before)[:, :t].abs() > 0.001).any():
                return True
    model.train(was)
    return False


@wrong(
    "allclose with atol=0.001, whose rtol forgives more where logits are large",
    breaks="a logit at a position before t changes by more than 0.001",
    name="a tolerance that grows with the logits",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= not torch.allclose(after[:, :t], before[:, :t], atol=0.001)
    model.train(was)
    return found


@wrong(
    "calls every difference a leak, rounding as well",
    breaks="Rounding changes logits, too, but by less than 0.00001.",
    name="rounding taken for a leak",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[:, t] = token
            after, _ = model(source, lengths, other)
            found |= not torch.equal(after[:, :t], before[:, :t])
    model.train(was)
    return found


@wrong(
    "writes the tokens into the caller's target; what it kept to set back is a view, and changes along",
    breaks="target: (B, T) token ids; it stays as it is.",
    name="the target is changed in place",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(target.size(1) - 1, 0, -1):
        kept = target[:, t]  # a view, not a copy
        for token in range(before.size(-1)):
            target[:, t] = token
            after, _ = model(source, lengths, target)
            found |= bool(((after - before)[:, :t].abs() > 0.001).any())
        target[:, t] = kept
    model.train(was)
    return found


@wrong(
    "changes and compares the first sentence alone",
    breaks="or it happens in one sentence of the batch alone",
    name="only the first sentence is looked at",
    subtle=True,
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was = model.training
    model.eval()
    before, _ = model(source, lengths, target)
    found = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            other = target.clone()
            other[0, t] = token
            after, _ = model(source, lengths, other)
            found |= bool(((after - before)[0, :t].abs() > 0.001).any())
    model.train(was)
    return found
