import torch

from blind import right, wrong

EVERY = "So try every position, and at each position every token from 0 to V - 1."
NARROW = "It may concern a single pair of positions, a single token of the vocabulary, or a single sentence of the batch."
MOVES = "If a logit at a position before t then changes by more than 0.001, the model looks ahead."
EVAL = "So put the model into eval mode for the test, and afterwards back into its earlier mode."
TARGET = "target: token ids (B, T); do not change them."
KEEP = "model: called as above; keep its mode (train or eval)."


# ---------------------------------------------------------------- right answers


@right("from the last position to the first, keeps the largest change")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    was_training = model.training
    model.train(False)
    try:
        before = model(source, lengths, target)[0].clone()
        largest = 0.0
        for t in reversed(range(1, target.size(1))):
            for token in range(before.size(-1)):
                changed = torch.cat(
                    [
                        target[:, :t],
                        torch.full_like(target[:, :1], token),
                        target[:, t + 1 :],
                    ],
                    dim=1,
                )
                after = model(source, lengths, changed)[0]
                gap = (after[:, :t] - before[:, :t]).abs().max().item()
                largest = max(largest, gap)
    finally:
        model.train(was_training)
    return largest > 0.0005


@right("each sentence gets another token in each call: (row + turn) modulo V")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    mode = model.training
    model.eval()
    first = model(source, lengths, target)[0].double()
    V = first.shape[-1]
    rows = torch.arange(len(target), device=target.device)
    verdict = False
    for turn in range(V):
        for t in range(target.size(1)):
            changed = target.clone()
            changed[:, t] = (rows + turn).remainder(V).to(target.dtype)
            second = model(source, lengths, changed)[0].double()
            if ((second - first)[:, :t].abs() > 1e-3).any():
                verdict = True
    model.train(mode)
    return verdict


@right("a mask chooses the changed position; earlier logits chosen by comparison")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training

    def read(tokens):
        return model.eval()(source, lengths, tokens)[0]

    reference = read(target)
    place = torch.arange(target.size(1), device=target.device)
    found = any(
        bool(
            (
                ~torch.isclose(
                    read(torch.where(place == t, token, target)),
                    reference,
                    rtol=0,
                    atol=1e-4,
                )
                & (place < t)[None, :, None]
            ).any()
        )
        for t in range(target.size(1))
        for token in range(reference.size(-1))
    )
    model.train(training)
    return found


@right("changes one sentence at a time, and skips tokens that are there already")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = bool(model.training)
    model.eval()
    try:
        before, _ = model(source, lengths, target)
        B, T, V = before.shape
        for b in range(B):
            for t in range(1, T):
                for token in set(range(V)) - {int(target[b, t])}:
                    changed = target.detach().clone()
                    changed[b, t] = token
                    after, _ = model(source, lengths, changed)
                    if (after[b, :t] - before[b, :t]).abs().gt(0.001).any():
                        return True
        return False
    finally:
        model.train(training)


# ---------------------------------------------------------------- wrong answers


@wrong("stays in the mode of the model", breaks=EVAL, name="dropout looks like a leak")
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    return leak


@wrong(
    "replaces each token by the next one of the vocabulary only",
    breaks=EVERY,
    name="one replacement per position",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % before.size(-1)
        after = model(source, lengths, changed)[0]
        leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "looks only at the position just before the changed one",
    breaks=NARROW,
    name="neighbours only",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= bool(((after - before)[:, t - 1].abs() > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "stops before the last position",
    breaks="So try every position",
    name="the last token is never changed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1) - 1):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "compares the change with its sign",
    breaks=MOVES,
    name="a logit that only falls is missed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= bool(((after - before)[:, :t] > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "allclose with atol=1e-3 and the usual relative tolerance",
    breaks="changes by more than 0.001, the model looks ahead.",
    name="large logits may change more",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= not torch.allclose(after[:, :t], before[:, :t], atol=1e-3)
    model.train(training)
    return leak


@wrong(
    "compares log-probabilities",
    breaks="So change a token, and see whether any logit at an earlier position changes.",
    name="a shift of all logits of a position is missed",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0].log_softmax(-1)
    leak = False
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0].log_softmax(-1)
            leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "takes the largest token of the target for the end of the vocabulary",
    breaks="at each position every token from 0 to V - 1.",
    name="tokens that the batch lacks are not tried",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        for token in range(int(target.max()) + 1):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            leak |= bool(((after - before)[:, :t].abs() > 1e-3).any())
    model.train(training)
    return leak


@wrong(
    "changes the target itself, and puts the old tokens back unless it finds a leak",
    breaks=TARGET,
    name="target stays changed after a leak",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    leak = False
    for t in range(1, target.size(1)):
        old = target[:, t].clone()
        for token in range(before.size(-1)):
            target[:, t] = token
            after = model(source, lengths, target)[0]
            if ((after - before)[:, :t].abs() > 1e-3).any():
                leak = True
                break
        if leak:
            break
        target[:, t] = old
    model.train(training)
    return leak


@wrong(
    "returns as soon as it finds a leak, before it restores the mode",
    breaks=KEEP,
    name="a leaking model stays in eval mode",
)
@torch.no_grad()
def looks_ahead(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)[0]
    for t in range(1, target.size(1)):
        for token in range(before.size(-1)):
            changed = target.clone()
            changed[:, t] = token
            after = model(source, lengths, changed)[0]
            if ((after - before)[:, :t].abs() > 1e-3).any():
                return True
    model.train(training)
    return False
