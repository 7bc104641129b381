import torch

from attention_course.tasks.core import BOS, EOS, PAD, UNK, pad
from attention_course.tasks.sequences import Batch

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "gives the decoder and the loss the same rows, with BOS and EOS",
    "The two are offset by one position:",
    "no shift",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target = pad([[BOS, *row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, target, target)


@wrong(
    "the lengths stand last in the batch",
    "Return `Batch(source, lengths, target_in, target_out)`, with the fields in this"
    " order.",
    "fields in the wrong order",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), target_in, target_out, lengths)


@wrong(
    "pads first, so EOS stands after the padding",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS after the padding",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    padded = pad(targets)
    column = torch.ones(len(examples), 1, dtype=torch.long)
    target_in = torch.cat([column * BOS, padded], dim=1).to(device)
    target_out = torch.cat([padded, column * EOS], dim=1).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "appends EOS to the sources as well",
    "Add neither `BOS` nor `EOS` to a source.",
    "EOS on the source",
)
def collate(task, examples, device="cpu"):
    sources = [
        [*task.source_vocabulary.encode(example.source), EOS] for example in examples
    ]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "counts the ids that are not PAD: a source with the token <pad> is too short",
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "lengths from the ids",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(example.source) for example in examples])
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets]).to(device)
    return Batch(source.to(device), (source != PAD).sum(1), target_in, target_out)


@wrong(
    "moves the lengths to the device too",
    "Leave them on the CPU, and move the ids to `device`.",
    "lengths moved to the device",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets])
    target_out = pad([[*row, EOS] for row in targets])
    lengths = torch.tensor([len(row) for row in sources])
    parts = (pad(sources), lengths, target_in, target_out)
    return Batch(*(part.to(device) for part in parts))


@wrong(
    "pads BOS ... EOS once and cuts off a column: shorter rows keep EOS in target_in",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS in target_in of shorter rows",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    full = pad([[BOS, *row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, full[:, :-1], full[:, 1:])


@wrong(
    "leaves out the examples that have no target",
    "A target may be empty, but a source never is.",
    "examples with an empty target dropped",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    examples = [example for example in examples if example.target] or examples
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "does not count tokens that became UNK, though it keeps them in the row",
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "unknown tokens not counted",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets]).to(device)
    lengths = torch.tensor([sum(i != UNK for i in row) for row in sources])
    return Batch(pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "forgets to move target_out",
    "Leave them on the CPU, and move the ids to `device`.",
    "target_out left on the CPU",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    source = pad(sources).to(device)
    target_in = pad([[BOS, *row] for row in targets]).to(device)
    target_out = pad([[*row, EOS] for row in targets])
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(source, lengths, target_in, target_out)


# ---------------------------------------------------------------- right answers


@right("makes target_in from target_out by rolling it, and clears what lies behind")
def collate(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    target_out = pad([row + [EOS] for row in targets])
    target_in = target_out.roll(1, dims=1)
    target_in[:, 0] = BOS
    for b, row in enumerate(targets):
        target_in[b, len(row) + 1 :] = PAD
    lengths = torch.tensor([len(e.source) for e in examples])
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("no pad: fills tensors that stand on the device already")
def collate(task, examples, device="cpu"):
    size = max(len(e.source) for e in examples)
    steps = max(len(e.target) for e in examples) + 1
    source = torch.full((len(examples), size), PAD, dtype=torch.long, device=device)
    target_in = torch.full((len(examples), steps), PAD, dtype=torch.long, device=device)
    target_out = target_in.clone()
    lengths = torch.empty(len(examples), dtype=torch.long)
    target_in[:, 0] = BOS
    for b, e in enumerate(examples):
        n, t = len(e.source), len(e.target)
        lengths[b] = n
        read = task.source_vocabulary.encode(e.source)
        said = task.target_vocabulary.encode(e.target)
        source[b, :n] = torch.tensor(read, dtype=torch.long, device=device)
        if t:
            target_in[b, 1 : t + 1] = torch.tensor(said, device=device)
            target_out[b, :t] = torch.tensor(said, device=device)
        target_out[b, t] = EOS
    return Batch(source, lengths, target_in, target_out)


def _ids_of_pairs(task, examples):
    for e in examples:
        source = tuple(task.source_vocabulary.encode(e.source))
        target = tuple(task.target_vocabulary.encode(e.target))
        yield source, len(source), (BOS,) + target, target + (EOS,)


@right("a generator of four columns, and zip")
def collate(task, examples, device="cpu"):
    source, lengths, given, wanted = zip(*_ids_of_pairs(task, examples))
    return Batch(
        target_out=pad(wanted).to(device),
        target_in=pad(given).to(device),
        lengths=torch.tensor(lengths),
        source=pad(source).to(device),
    )


@right("encodes token by token, and all rows of the targets go through one pad")
def collate(task, examples, device="cpu"):
    rows, lengths, given, wanted = [], [], [], []
    for e in examples:
        rows.append([task.source_vocabulary.encode([t])[0] for t in e.source])
        lengths.append(len(rows[-1]))
        ids = [task.target_vocabulary.encode([t])[0] for t in e.target]
        given.append([BOS] + ids)
        wanted.append(ids + [EOS])
    target_in, target_out = pad(given + wanted).to(device).chunk(2)
    return Batch(pad(rows).to(device), torch.tensor(lengths), target_in, target_out)
