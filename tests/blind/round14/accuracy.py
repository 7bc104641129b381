from fractions import Fraction

import torch

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("collects all guesses and labels in lists, compares them at the very end")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    guesses, labels = [], []
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        guesses += logits.argmax(dim=1).tolist()
        labels += batch.labels.flatten().tolist()
    model.train(mode)
    return sum(g == y for g, y in zip(guesses, labels)) / len(labels)


@right("a running mean of exact fractions, one batch after another; finally restores the mode")
def accuracy(model, batches):  # noqa: F811
    mode, share, seen = model.training, Fraction(0), 0
    model.train(False)
    try:
        with torch.no_grad():
            for batch in batches:
                logits = model(batch.source, batch.lengths)[0]
                hits = logits.max(dim=-1, keepdim=True).indices == batch.labels
                number = hits.numel()
                if number:
                    seen += number
                    share += (int(hits.sum()) - share * number) / seen
    finally:
        model.train(mode)
    return float(share)


@right("remembers the mode of every module and sets it again, module by module")
def accuracy(model, batches):  # noqa: F811
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    right_count = total = 0
    for batch in batches:
        with torch.set_grad_enabled(False):
            logits, *_ = model(batch.source, batch.lengths)
        wrong_count = torch.count_nonzero(logits.argmax(-1) - batch.labels[:, 0])
        total += len(batch.labels)
        right_count += len(batch.labels) - wrong_count.item()
    for module, training in modes:
        module.training = training
    return right_count / total


@right("gathers hits as booleans of a single long tensor, and takes a float64 mean")
def accuracy(model, batches):  # noqa: F811
    was_training = bool(model.training)
    model.eval()

    def hits():
        for batch in batches:
            logits, _unused = model(batch.source, batch.lengths)
            yield torch.eq(logits.argmax(dim=-1), batch.labels.squeeze(1)).cpu()

    with torch.no_grad():
        share = torch.cat(list(hits())).to(torch.float64).mean().item()
    if was_training:
        model.train()
    return share


# ---------------------------------------------------------------- wrong


@wrong(
    "averages the shares of the batches",
    "Every sentence must count the same, although the batches may differ in size.",
    "mean of the batches' shares",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode = model.training
    model.eval()
    shares = []
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
        shares.append(float(hits.double().mean()))
    model.train(mode)
    return sum(shares) / len(shares)


@wrong(
    "compares (B,) with (B, 1), which gives all pairs",
    "What share of the sentences gets the right label?",
    "compares all pairs of sentences",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels
        right_count += int(hits.sum())
        total += hits.numel()
    model.train(mode)
    return right_count / total


@wrong(
    "always ends in train mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "model always ends in train mode",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    right_count = total = 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
        right_count += int(hits.sum())
        total += len(hits)
    model.train()
    return right_count / total


@wrong(
    "restores the mode by calling train(mode) on every module, which also wakes a frozen body",
    "If a part of the model is frozen, the model's own `train` method takes care of it.",
    "wakes a frozen body",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
        right_count += int(hits.sum())
        total += len(hits)
    for module in model.modules():
        module.train(mode)
    return right_count / total


@wrong(
    "takes the mode from `all(m.training ...)`: with a frozen body this is False, so the model stays in eval mode",
    "After the call, the model must be in the same mode as before, because your function may be called in the middle of training.",
    "stays in eval mode if partly frozen",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode = all(module.training for module in model.modules())
    right_count = total = 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
        right_count += int(hits.sum())
        total += len(hits)
    model.train(mode)
    return right_count / total


@wrong(
    "adds up hits and sentences in the dtype of the logits: in bfloat16 both counts stop at 256",
    "Positions and counts must be exact in every dtype.",
    "counts hits in bfloat16",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = (logits.argmax(dim=-1) == batch.labels.squeeze(1)).to(logits.dtype)
        right_count = right_count + hits.sum()
        total = total + torch.ones_like(hits).sum()
    model.train(mode)
    return float(right_count / total)


@wrong(
    "calls a sentence right if its label has a probability of more than one half, which a best label of three or more need not have",
    "What share of the sentences gets the right label?",
    "asks for a probability above one half",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        chances = logits.double().softmax(dim=-1).gather(1, batch.labels)
        right_count += int((chances > 0.5).sum())
        total += len(batch.labels)
    model.train(mode)
    return right_count / total


@wrong(
    "switches gradients off for the whole program and never on again",
    "Gradients must be right, too.",
    "gradients stay switched off",
)
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    torch.set_grad_enabled(False)
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
        right_count += int(hits.sum())
        total += len(hits)
    model.train(mode)
    return right_count / total


@wrong(
    "measures with gradients: every call of the model builds a graph",
    "Measure without dropout and without gradients.",
    "no no_grad around the model",
)
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        with torch.no_grad():
            hits = logits.argmax(dim=-1) == batch.labels.squeeze(1)
            right_count += int(hits.sum())
            total += len(hits)
    model.train(mode)
    return right_count / total


@wrong(
    "asks whether the second logit is larger than the first, which is an answer only for two labels",
    "It returns logits (B, labels) and a second value, which you do not need.",
    "works only for two labels",
)
@torch.no_grad()
def accuracy(model, batches):  # noqa: F811
    mode, right_count, total = model.training, 0, 0
    model.eval()
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        guess = (logits[:, -1] > logits[:, 0]).long()
        right_count += int((guess == batch.labels[:, 0]).sum())
        total += len(guess)
    model.train(mode)
    return right_count / total
