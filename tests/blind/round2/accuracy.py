from contextlib import contextmanager

import torch

from blind import right, wrong


@right("counts, then divides")
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(-1, keepdim=True) == batch.labels).sum().item()
            count += batch.labels.size(0)
    model.train(mode)
    return hits / max(count, 1)


@right("a context manager looks after the mode")
def accuracy(model, batches):
    @contextmanager
    def measuring():
        came = model.training
        try:
            yield model.train(False)
        finally:
            model.train(came)

    said, wanted = [], []
    with measuring(), torch.no_grad():
        for batch in batches:
            said += model(batch.source, batch.lengths)[0].max(dim=1).indices.tolist()
            wanted += batch.labels.flatten().tolist()
    return sum(map(int.__eq__, said, wanted)) / (len(said) or 1)


@right("one list of hits, gradients switched by hand")
def accuracy(model, batches):
    mode, grad = model.training, torch.is_grad_enabled()
    model.eval()
    torch.set_grad_enabled(False)
    right = []
    try:
        for batch in batches:
            logits = model(batch.source, batch.lengths)[0]
            for row, label in zip(logits, batch.labels):
                right.append(int(row.argmax()) == int(label))
    finally:
        torch.set_grad_enabled(grad)
        model.train(mode)
    return right.count(True) / len(right) if right else 0.0


@right("weighted mean of the batches' shares, in double")
@torch.no_grad()
def accuracy(model, batches):
    mode = model.training
    model.eval()
    shares, sizes = [], []
    for batch in batches:
        best = model(batch.source, batch.lengths)[0].argmax(dim=1)
        shares.append((best == batch.labels[:, 0]).double().mean().item())
        sizes.append(len(batch.labels))
    model.train(mode)
    return sum(a * n for a, n in zip(shares, sizes)) / max(sum(sizes), 1)


SAME = "Every sentence counts the same; the last batch may be a small one."
MODE = "Whoever calls you may be in the middle of training: leave the model in the mode in which it came."


@wrong("(B,) against (B, 1)", breaks="What share of sentences gets the right label?", name="a table (B, B) is compared", subtle=False)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            equal = model(batch.source, batch.lengths)[0].argmax(-1) == batch.labels
            hits += equal.sum().item()
            count += equal.numel()
    model.train(mode)
    return hits / count


@wrong("always back into training", breaks=MODE, name="the model comes back in training mode", subtle=False)
def accuracy(model, batches):
    hits = count = 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += (best == batch.labels.squeeze(1)).sum().item()
            count += len(best)
    model.train()
    return hits / count


@wrong("measured with dropout", breaks="Without dropout, and without gradients.", name="eval() forgotten", subtle=False)
def accuracy(model, batches):
    hits = count = 0
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += (best == batch.labels.squeeze(1)).sum().item()
            count += len(best)
    return hits / count


@wrong("mean of the batches' means", breaks=SAME, name="a small batch counts as much as a large one", subtle=True)
def accuracy(model, batches):
    mode, shares = model.training, []
    model.eval()
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            shares.append((best == batch.labels.squeeze(1)).float().mean().item())
    model.train(mode)
    return sum(shares) / len(shares)


@wrong("sets every module on its own", breaks="A part of it may be frozen; then the model's own `train` knows that.", name="a frozen part comes back in training mode", subtle=True)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            hits += (best == batch.labels.squeeze(1)).sum().item()
            count += len(best)
    for module in model.modules():
        module.training = mode
    return hits / count


@wrong("computed with gradients", breaks="Without dropout, and without gradients.", name="no_grad forgotten", subtle=True)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    for batch in batches:
        best = model(batch.source, batch.lengths)[0].argmax(-1)
        hits += (best == batch.labels.squeeze(1)).sum().item()
        count += len(best)
    model.train(mode)
    return hits / count


@wrong("squeezes all axes", breaks="A batch has the fields `source`, `lengths` and `labels` (B, 1),", name="a batch of one sentence fails", subtle=True)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            for one, other in zip(best.tolist(), batch.labels.squeeze().tolist()):
                hits += one == other
                count += 1
    model.train(mode)
    return hits / count


@wrong("knows two labels", breaks="and the model is called as `model(source, lengths)` and returns logits (B, labels) and something that you do not need.", name="only for two labels", subtle=True)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            best = (logits[:, 1] > logits[:, 0]).long()
            hits += (best == batch.labels.squeeze(1)).sum().item()
            count += len(best)
    model.train(mode)
    return hits / count


@wrong("gradients stay off after the call", breaks="Whoever calls you may be in the middle of training:", name="gradients switched off for good", subtle=True)
def accuracy(model, batches):
    mode, hits, count = model.training, 0, 0
    model.eval()
    torch.set_grad_enabled(False)
    for batch in batches:
        best = model(batch.source, batch.lengths)[0].argmax(-1)
        hits += (best == batch.labels.squeeze(1)).sum().item()
        count += len(best)
    model.train(mode)
    return hits / count


@wrong("hits counted in a byte", breaks=SAME, name="more than 255 hits begin again at 0", subtle=True)
def accuracy(model, batches):
    mode, count = model.training, 0
    hits = torch.zeros((), dtype=torch.uint8)
    model.eval()
    with torch.no_grad():
        for batch in batches:
            best = model(batch.source, batch.lengths)[0].argmax(-1)
            for hit in best == batch.labels.squeeze(1):
                hits += hit.to(hits)
            count += len(best)
    model.train(mode)
    return hits.item() / count
