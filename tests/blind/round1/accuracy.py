import torch

from blind import right, wrong

MODE = "Whoever calls you may be in the middle of training: leave the model in the mode in which it came."
SAME = "Every sentence counts the same; the last batch may be a small one."
WITHOUT = "Without dropout, and without gradients."


@right("count and divide")
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels.squeeze(-1)).sum().item()
            total += len(batch.labels)
    model.train(mode)
    return hits / total


@right("all answers joined, inference mode, mode restored in finally")
def accuracy(model, batches):
    came = model.training
    try:
        model.train(False)
        with torch.inference_mode():
            right_ones = [
                model(b.source, b.lengths)[0].max(1, keepdim=True).indices.eq(b.labels)
                for b in batches
            ]
    finally:
        model.train(came)
    return torch.cat(right_ones).double().mean().item()


@right("sentence by sentence in Python, from a generator")
@torch.no_grad()
def accuracy(model, batches):
    def answers():
        for batch in batches:
            logits = model(batch.source, batch.lengths)[0].tolist()
            for row, label in zip(logits, batch.labels[:, 0].tolist()):
                yield row.index(max(row)) == label

    mode = model.training
    model.eval()
    seen = list(answers())
    model.train(mode)
    return sum(seen) / len(seen)


@right("the label's place in an order of all labels; running mean")
def accuracy(model, batches):
    was = model.training
    model.eval()
    share, seen = 0.0, 0
    for batch in batches:
        with torch.no_grad():
            logits = model(batch.source, batch.lengths)[0]
        best = torch.topk(logits, 1, dim=-1).indices
        n = batch.labels.numel()
        hits = int(torch.count_nonzero(best == batch.labels.view(n, 1)))
        seen += n
        share += (hits - n * share) / seen
    if was:
        model.train()
    return share


def hits_of(model, batch):
    logits, _ = model(batch.source, batch.lengths)
    return int((logits.argmax(-1) == batch.labels[:, 0]).sum())


@wrong(
    "(B,) compared with (B, 1): a table",
    breaks="Measure the share of sentences that get their label.",
    name="labels broadcast to a table",
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(-1) == batch.labels
        hits += same.sum().item()
        total += same.numel()
    model.train(mode)
    return hits / total


@wrong("mean of the batches' shares", breaks=SAME, name="mean of means")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares = [hits_of(model, batch) / len(batch.labels) for batch in batches]
    model.train(mode)
    return sum(shares) / len(shares)


@wrong("measured in whatever mode the model is", breaks=WITHOUT, name="dropout while measuring")
@torch.no_grad()
def accuracy(model, batches):
    hits = total = 0
    for batch in batches:
        hits += hits_of(model, batch)
        total += len(batch.labels)
    return hits / total


@wrong(
    "ends in training mode, also if the model came in eval mode",
    breaks=MODE,
    name="always back to training",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    hits = total = 0
    for batch in batches:
        hits += hits_of(model, batch)
        total += len(batch.labels)
    model.train()
    return hits / total


@wrong("gradients are recorded", breaks=WITHOUT, name="no_grad forgotten", subtle=True)
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        hits += hits_of(model, batch)
        total += len(batch.labels)
    model.train(mode)
    return hits / total


@wrong(
    "two labels only",
    breaks="A batch has the fields `source`, `lengths` and `labels` (B, 1), and the model is called as `model(source, lengths)` and returns logits (B, labels) and something that you do not need.",
    name="only the first two logits are compared",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        said = (logits[:, 1] > logits[:, 0]).long()
        hits += int((said == batch.labels[:, 0]).sum())
        total += len(batch.labels)
    model.train(mode)
    return hits / total


@wrong(
    "hits are summed as bytes: more than 255 in a batch begin again at 0",
    breaks=SAME,
    name="overflow in a large batch",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        same = logits.argmax(-1) == batch.labels.flatten()
        hits += same.sum(dtype=torch.uint8).item()
        total += same.numel()
    model.train(mode)
    return hits / total


@wrong(
    "the number of sentences is guessed from the first batch",
    breaks=SAME,
    name="all batches taken for equally large",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = count = size = 0
    for batch in batches:
        hits += hits_of(model, batch)
        count += 1
        size = size or len(batch.labels)
    model.train(mode)
    return hits / (count * size)


@wrong(
    "puts every part back into the model's mode by itself: a frozen body wakes up",
    breaks="model: called as model(source, lengths); it is left in the mode in which it came.",
    name="mode of the parts lost",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        hits += hits_of(model, batch)
        total += len(batch.labels)
    for module in model.modules():
        module.train(mode)
    return hits / total


@wrong(
    "comes back from a perfect score before the mode is restored",
    breaks=MODE,
    name="early return without restoring the mode",
    subtle=True,
)
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        hits += hits_of(model, batch)
        total += len(batch.labels)
    if hits == total:
        return 1.0
    model.train(mode)
    return hits / total
