import torch
from torch import nn

from blind import right, wrong
from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch, Example


def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor([[*r] + [PAD] * (width - len(r)) for r in rows], dtype=torch.long)


def ids(task, examples):
    return (
        [task.source_vocabulary.encode(e.source) for e in examples],
        [task.target_vocabulary.encode(e.target) for e in examples],
    )


SHIFT = "So the target is needed twice, one position apart:"
SOURCE = "Sources get neither `BOS` nor `EOS`."
CPU = "The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`."
COUNTS = "A token that the vocabulary does not know counts, and so does one of the four special ones, even `<pad>`, if it occurs in a source or target."
EMPTY = "A target may be empty, a source is not."
SAME = "a list, which stays as it is; each has `source` and `target`, tuples of\n            tokens."
END = "Rows of ids that are shorter than the longest are filled up with `PAD`, at the end."


@right("row by row, without pad")
def collate(task, examples, device="cpu"):
    sources, targets = ids(task, examples)
    shape = len(examples), max(map(len, targets)) + 1
    source = torch.full((len(examples), max(map(len, sources))), PAD, dtype=torch.long)
    target_in, target_out = (torch.full(shape, PAD, dtype=torch.long) for _ in "io")
    for b, (s, t) in enumerate(zip(sources, targets)):
        source[b, : len(s)] = torch.tensor(s, dtype=torch.long)
        target_in[b, : len(t) + 1] = torch.tensor([BOS, *t])
        target_out[b, : len(t) + 1] = torch.tensor([*t, EOS])
    lengths = torch.tensor([len(s) for s in sources])
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("one padded tensor with both ends, cut twice, the end taken out by position")
def collate(task, examples, device="cpu"):
    sources, targets = ids(task, examples)
    both = pad([[BOS, *t, EOS] for t in targets])
    ends = torch.tensor([len(t) + 1 for t in targets])
    target_in = both.masked_fill(torch.arange(both.size(1)) == ends[:, None], PAD)[:, :-1]
    lengths = torch.tensor([*map(len, sources)], dtype=torch.long)
    return Batch(pad(sources).to(device), lengths, target_in.to(device), both[:, 1:].to(device))


@right("pad_sequence, fields by name")
def collate(task, examples, device="cpu"):
    def rectangle(rows):
        rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)

    encode = task.target_vocabulary.encode
    return Batch(
        target_out=rectangle([encode(e.target) + [EOS] for e in examples]),
        target_in=rectangle([[BOS] + encode(e.target) for e in examples]),
        lengths=torch.tensor([len(e.source) for e in examples]),
        source=rectangle([task.source_vocabulary.encode(e.source) for e in examples]),
    )


@right("rows gathered in one loop, zip(*...)")
def collate(task, examples, device="cpu"):
    rows = []
    for e in examples:
        t = list(task.target_vocabulary.encode(e.target))
        rows.append((task.source_vocabulary.encode(e.source), [BOS] + t, t + [EOS]))
    source, target_in, target_out = (pad(list(part)).to(device) for part in zip(*rows))
    return Batch(source, torch.as_tensor([len(r[0]) for r in rows]), target_in, target_out)


@wrong("no shift", breaks=SHIFT, name="the decoder is given what it should say")
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    out = pad([[*r, EOS] for r in t]).to(device)
    return Batch(pad(s).to(device), torch.tensor([len(r) for r in s]), out, out.clone())


@wrong("EOS behind the padding", breaks=END, name="padded before the shift")
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    rows = pad(t)
    edge = rows.new_ones(len(rows), 1)
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        torch.cat([BOS * edge, rows], 1).to(device), torch.cat([rows, EOS * edge], 1).to(device),
    )


@wrong("sources end in EOS", breaks=SOURCE, name="EOS in the source")
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    s = [[*r, EOS] for r in s]
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("lengths counted from the ids that are not PAD", breaks=COUNTS, name="<pad> in a source is not counted", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    source = pad(s)
    return Batch(
        source.to(device), (source != PAD).sum(1),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("lengths go to the device too", breaks=CPU, name="lengths on the wrong device", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s], device=device),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("target_in is target_out rolled by one", breaks=END, name="EOS stays in target_in of shorter rows", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    out = pad([[*r, EOS] for r in t]).to(device)
    target_in = out.roll(1, dims=1)
    target_in[:, 0] = BOS
    return Batch(pad(s).to(device), torch.tensor([len(r) for r in s]), target_in, out)


@wrong("examples with an empty target are left out", breaks=EMPTY, name="empty targets lost", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, [e for e in examples if e.target] or examples)
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("sorts the list of examples by length", breaks=SAME, name="input changed, longest first", subtle=True)
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda e: -len(e.source))
    s, t = ids(task, examples)
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("unknown tokens of the source are dropped", breaks=COUNTS, name="UNK dropped", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    s = [[i for i in r if i != UNK] for r in s]
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )


@wrong("an <eos> among the target's own tokens ends it", breaks=COUNTS, name="target cut at its own <eos>", subtle=True)
def collate(task, examples, device="cpu"):
    s, t = ids(task, examples)
    t = [r[: r.index(EOS)] if EOS in r else r for r in t]
    return Batch(
        pad(s).to(device), torch.tensor([len(r) for r in s]),
        pad([[BOS, *r] for r in t]).to(device), pad([[*r, EOS] for r in t]).to(device),
    )
