import torch
import torch.nn.functional as F
from blind import right, wrong

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example  # noqa: F401


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


def _ids(task, examples):
    sources = [list(task.source_vocabulary.encode(e.source)) for e in examples]
    targets = [list(task.target_vocabulary.encode(e.target)) for e in examples]
    return sources, targets


# Right
@right("own rectangles, filled id by id; target_in and target_out are views of one")
def r1(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    lengths = torch.tensor([len(e.source) for e in examples], dtype=torch.long)
    source = torch.full((len(examples), int(lengths.max())), PAD)
    both = torch.full((2, len(examples), 1 + max(map(len, targets))), PAD)
    both[0, :, 0] = BOS
    for b, (ids, said) in enumerate(zip(sources, targets, strict=True)):
        for s, i in enumerate(ids):
            source[b, s] = i
        for t, i in enumerate(said):
            both[0, b, t + 1] = both[1, b, t] = i
        both[1, b, len(said)] = EOS
    target_in, target_out = both.to(device)
    return Batch(source.to(device), lengths, target_in, target_out)


@right("EOS scattered behind the ids, BOS by cat, fields by name")
def r2(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    ids = pad(targets).to(device)
    ends = torch.tensor([[len(row)] for row in targets], device=device)
    return Batch(
        target_out=F.pad(ids, (0, 1), value=PAD).scatter(1, ends, EOS),
        target_in=torch.cat([torch.full_like(ends, BOS), ids], dim=1),
        lengths=torch.as_tensor([*map(len, sources)]),
        source=pad(sources).to(device),
    )


@right("a loop over the columns of zip, with map and Batch._make")
def r3(task, examples, device="cpu"):
    columns = ([], [], [], [])
    for example in examples:
        ids = task.source_vocabulary.encode(example.source)
        said = task.target_vocabulary.encode(example.target)
        row = (ids, len(ids), [BOS, *said], [*said, EOS])
        for column, entry in zip(columns, row, strict=True):
            column.append(entry)
    return Batch._make(
        torch.tensor(column) if i == 1 else pad(column).to(device)
        for i, column in enumerate(columns)
    )


@right("special tokens entered as strings and encoded by the vocabulary")
def r4(task, examples, device="cpu"):
    encode = task.target_vocabulary.encode
    bos, eos = SPECIALS[BOS], SPECIALS[EOS]
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    before = pad([encode((bos, *e.target)) for e in examples])
    after = pad([encode((*e.target, eos)) for e in examples])
    lengths = torch.tensor([sum(1 for _ in e.source) for e in examples])
    source, before, after = (x.to(device=device) for x in (source, before, after))
    return Batch(source, lengths, before, after)


# Wrong
@wrong(
    "pads first and then puts EOS behind everything",
    breaks="Pad before the shift, and `EOS` lands behind the padding.",
    name="EOS behind the padding",
    subtle=True,
)
def w1(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    ids = pad(targets)
    column = torch.ones(len(examples), 1, dtype=torch.long)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        torch.cat([BOS * column, ids], dim=1).to(device),
        torch.cat([ids, EOS * column], dim=1).to(device),
    )


@wrong(
    "the lengths go to the device, too",
    breaks="they stay on the CPU, while the ids go to `device`",
    name="lengths on the device",
    subtle=True,
)
def w2(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources], device=device),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "the lengths are counts of what is not PAD",
    breaks="and so does one of the four special ones, even `<pad>`, if it occurs in a"
    " source or target",
    name="lengths counted by the id",
    subtle=True,
)
def w3(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    source = pad(sources)
    return Batch(
        source.to(device),
        (source != PAD).sum(dim=1),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "unknown tokens are not counted in the lengths",
    breaks="A token that the vocabulary does not know counts",
    name="unknown tokens are not counted",
    subtle=True,
)
def w4(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([sum(i != UNK for i in row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "special tokens in the texts are taken out before encoding",
    breaks="and so does one of the four special ones, even `<pad>`, if it occurs in a"
    " source or target",
    name="special tokens taken out",
    subtle=True,
)
def w5(task, examples, device="cpu"):
    sources = [
        task.source_vocabulary.encode([t for t in e.source if t not in SPECIALS])
        for e in examples
    ]
    targets = [
        task.target_vocabulary.encode([t for t in e.target if t not in SPECIALS])
        for e in examples
    ]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "sorts the list of examples by length, for packing",
    breaks="examples: a list, which stays as it is",
    name="examples sorted in place",
    subtle=True,
)
def w6(task, examples, device="cpu"):
    examples.sort(key=lambda example: len(example.source), reverse=True)
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "leaves out examples with an empty target",
    breaks="A target may be empty, a source is not.",
    name="empty targets left out",
    subtle=True,
)
def w7(task, examples, device="cpu"):
    sources, targets = _ids(task, [e for e in examples if e.source and e.target])
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "every length is that of the padded source",
    breaks="The lengths count the tokens of each source",
    name="lengths of the padded rows",
    subtle=True,
)
def w8(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    source = pad(sources)
    return Batch(
        source.to(device),
        torch.tensor([len(row) for row in source]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


_known = {}


@wrong(
    "remembers the ids of each text, whichever vocabulary they came from",
    breaks="its first argument is the task, which holds both vocabularies",
    name="ids remembered across vocabularies",
    subtle=True,
)
def w9(task, examples, device="cpu"):
    def encode(vocabulary, tokens):
        if tokens not in _known:
            _known[tokens] = vocabulary.encode(tokens)
        return _known[tokens]

    sources = [encode(task.source_vocabulary, e.source) for e in examples]
    targets = [encode(task.target_vocabulary, e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]).to(device),
    )


@wrong(
    "target_out stays on the CPU",
    breaks="they stay on the CPU, while the ids go to `device`",
    name="one tensor forgotten on the CPU",
    subtle=True,
)
def w10(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *row] for row in targets]).to(device),
        pad([[*row, EOS] for row in targets]),
    )
