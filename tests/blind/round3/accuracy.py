import copy

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("Measures a deep copy in eval mode: the model itself is never touched")
def on_a_copy(model, batches):
    twin = copy.deepcopy(model).eval()
    hits = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = twin(batch.source, batch.lengths)
            hits += (logits.argmax(-1) == batch.labels[:, 0]).tolist()
    return sum(hits) / len(hits)


@right("Sentence by sentence, with max over a Python list")
def one_by_one(model, batches):
    was = model.training
    model.eval()
    right_ones = total = 0
    with torch.inference_mode():
        for batch in batches:
            for i in range(len(batch.labels)):
                scores = model(batch.source[i : i + 1], batch.lengths[i : i + 1])[0][0].tolist()
                right_ones += scores.index(max(scores)) == int(batch.labels[i, 0])
                total += 1
    model.train(was)
    return right_ones / total


@right("A table of counts, label by guess; the share is its diagonal")
def confusion(model, batches):
    training = model.training
    model.train(False)
    table = None
    try:
        for batch in batches:
            with torch.no_grad():
                logits = model(batch.source, batch.lengths)[0]
            L = logits.size(1)
            guess = logits.max(dim=1, keepdim=True).indices
            cells = (batch.labels * L + guess).flatten().cpu()
            counts = torch.bincount(cells, minlength=L * L).view(L, L)
            table = counts if table is None else table + counts
    finally:
        model.train(training)
    return (table.trace() / table.sum()).item()


@right("Notes the mode of every module and puts each back by itself")
@torch.no_grad()
def every_flag(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    wrong_ones, total = 0, 0
    for batch in batches:
        out = model(batch.source, batch.lengths)
        wrong_ones += torch.ne(torch.argmax(out[0], 1).unsqueeze(1), batch.labels).sum().item()
        total += batch.labels.numel()
    for module, flag in flags:
        module.training = flag
    return 1 - wrong_ones / total


# ---------------------------------------------------------------- wrong


@wrong(
    "the mean of the shares of the batches",
    breaks="Every sentence counts the same; the last batch may be a small one.",
    name="mean of means",
    subtle=True,
)
def mean_of_means(model, batches):
    was = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits = logits.argmax(1) == batch.labels.squeeze(1)
            shares.append(hits.double().mean().item())
    model.train(was)
    return sum(shares) / len(shares)


@wrong(
    "the number of sentences is the number of batches times the size of the first",
    breaks="the last batch may be a small one",
    name="all batches as large as the first",
    subtle=True,
)
def size_of_the_first(model, batches):
    was = model.training
    model.eval()
    hits, size, n = 0, None, 0
    with torch.no_grad():
        for batch in batches:
            if size is None:
                size = len(batch.source)
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(1, keepdim=True) == batch.labels).sum().item()
            n += 1
    model.train(was)
    return hits / (size * n)


@wrong(
    "compares (B,) with (B, 1), and takes the mean of the table (B, B)",
    breaks="What share of sentences gets the right label?",
    name="a table (B, B)",
)
def table_b_b(model, batches):
    was = model.training
    model.eval()
    hits = total = 0.0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(1) == batch.labels).double().mean().item() * len(logits)
            total += len(logits)
    model.train(was)
    return hits / total


@wrong(
    "ends with model.train() in any case",
    breaks="leave the model in the mode in which it came",
    name="always back to training",
    subtle=True,
)
def always_train(model, batches):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(1) == batch.labels[:, 0]).sum().item()
            total += len(batch.labels)
    model.train()
    return hits / total


@wrong(
    "puts the mode back module by module with train: a frozen part is trained again",
    breaks="A part of it may be frozen; then the model's own `train` knows that.",
    name="wakes the frozen part",
    subtle=True,
)
def wakes_frozen(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(1) == batch.labels.flatten()).sum().item()
            total += len(batch.labels)
    for module in model.modules():
        module.train(was)
    return hits / total


@wrong(
    "puts back the flag of the model alone: its parts stay in eval mode",
    breaks="Whoever calls you may be in the middle of training: leave the model in the mode in which it came.",
    name="only the outermost flag is put back",
    subtle=True,
)
def outer_flag(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            hits += (logits.argmax(1) == batch.labels.view(-1)).sum().item()
            total += batch.labels.size(0)
    model.training = was
    return hits / total


@wrong(
    "switches gradients off for the whole program, and leaves them off",
    breaks="Whoever calls you may be in the middle of training",
    name="gradients stay off",
    subtle=True,
)
def gradients_stay_off(model, batches):
    was = model.training
    model.eval()
    torch.set_grad_enabled(False)
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.argmax(1) == batch.labels.squeeze(1)).sum().item()
        total += len(batch.labels)
    model.train(was)
    return hits / total


@wrong(
    "takes eval mode for enough: every call builds the graph",
    breaks="Without dropout, and without gradients.",
    name="eval taken for no_grad",
    subtle=True,
)
def with_graph(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    for batch in batches:
        logits, _ = model(batch.source, batch.lengths)
        hits += (logits.detach().argmax(1) == batch.labels.squeeze(1)).sum().item()
        total += len(batch.labels)
    model.train(was)
    return hits / total


@wrong(
    "knows two labels only: the second if its logit is above that of the first",
    breaks="returns logits (B, labels)",
    name="two labels only",
    subtle=True,
)
def two_labels(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            guess = (logits[:, 1:2] > logits[:, :1]).long()
            hits += (guess == batch.labels).sum().item()
            total += len(batch.labels)
    model.train(was)
    return hits / total


@wrong(
    "squeezes the labels in place: the caller's batches are changed, and a second call fails",
    breaks="what it was handed is unchanged",
    name="changes the labels of the batch",
    subtle=True,
)
def squeezes_labels(model, batches):
    was = model.training
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for batch in batches:
            logits, _ = model(batch.source, batch.lengths)
            labels = batch.labels.squeeze_(1)
            hits += (logits.argmax(dim=1) == labels).sum().item()
            total += labels.size(0)
    model.train(was)
    return hits / total
