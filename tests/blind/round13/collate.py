import torch

from attention_course.tasks.core import BOS, EOS, PAD, UNK, pad
from attention_course.tasks.sequences import Batch

from blind import right, wrong


@right("tensors full of PAD, written row by row, without pad")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    lengths = torch.zeros(len(examples), dtype=torch.long)
    size = 1 + max(map(len, targets))
    source = torch.full((len(examples), max(map(len, sources))), PAD)
    target_in = torch.full((len(examples), size), PAD)
    target_out = target_in.clone()
    for b, (given, wanted) in enumerate(zip(sources, targets)):
        lengths[b] = len(given)
        source[b, : len(given)] = torch.tensor(given)
        target_in[b, : len(wanted) + 1] = torch.tensor([BOS, *wanted])
        target_out[b, : len(wanted) + 1] = torch.tensor([*wanted, EOS])
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("a row of lists for each example, turned round with zip; fields by name")
def collate(task, examples, device="cpu"):
    def rows(example):
        given = task.source_vocabulary.encode(example.source)
        wanted = task.target_vocabulary.encode(example.target)
        return given, [BOS] + wanted, wanted + [EOS]

    source, target_in, target_out = zip(*map(rows, examples))
    return Batch(
        target_out=pad(target_out).to(device),
        target_in=pad(target_in).to(device),
        source=pad(source).to(device),
        lengths=torch.LongTensor([*map(len, source)]),
    )


@right("pads the bare targets first, and puts BOS and EOS in afterwards with scatter")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    count = len(examples)
    bare = pad(targets)
    ends = torch.tensor([[len(target)] for target in targets])
    target_in = torch.cat([torch.full((count, 1), BOS), bare], dim=1)
    target_out = torch.cat([bare, torch.full((count, 1), PAD)], dim=1)
    target_out = target_out.scatter(1, ends, EOS)
    lengths = torch.tensor([len(example.source) for example in examples])
    return Batch(pad(sources).to(device), lengths, *(
        ids.to(device) for ids in (target_in, target_out)
    ))


@right("encodes token by token, makes the tensors on the device itself")
def collate(task, examples, device="cpu"):
    def ids(vocabulary, tokens):
        return [vocabulary.encode([token])[0] for token in tokens]

    def put(rows):
        size = max(len(row) for row in rows)
        full = [row + [PAD] * (size - len(row)) for row in rows]
        return torch.tensor(full, dtype=torch.long, device=torch.device(device))

    sources, ins, outs = [], [], []
    for example in examples:
        sources.append(ids(task.source_vocabulary, example.source))
        target = ids(task.target_vocabulary, example.target)
        ins.append([BOS, *target])
        outs.append([*target, EOS])
    lengths = torch.tensor([len(row) for row in sources], device="cpu")
    return Batch._make([put(sources), lengths, put(ins), put(outs)])


@wrong(
    "pads the targets and then adds EOS, which ends up behind the padding",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS after the padding",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = pad(
        [task.target_vocabulary.encode(example.target) for example in examples]
    )
    begin = torch.full((len(examples), 1), BOS)
    end = torch.full((len(examples), 1), EOS)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        torch.cat([begin, targets], 1).to(device),
        torch.cat([targets, end], 1).to(device),
    )


@wrong(
    "ends the sources with EOS too",
    "Add neither `BOS` nor `EOS` to a source.",
    "EOS in the source",
)
def collate(task, examples, device="cpu"):
    sources = [
        [*task.source_vocabulary.encode(example.source), EOS] for example in examples
    ]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "puts the lengths last in the batch",
    "Return `Batch(source, lengths, target_in, target_out)`, with the fields in this"
    " order.",
    "fields in the wrong order",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        pad(sources).to(device),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
        torch.tensor([len(source) for source in sources]),
    )


@wrong(
    "counts the ids of the padded sources that are not PAD, so a <pad> in a source is"
    " not counted",
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "lengths from source != PAD",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    source = pad(
        [task.source_vocabulary.encode(example.source) for example in examples]
    )
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "moves the lengths to the device as well",
    "Leave them on the CPU, and move the ids to `device`.",
    "lengths moved to the device",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    batch = Batch(
        pad(sources),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]),
        pad([[*target, EOS] for target in targets]),
    )
    return Batch(*(field.to(device) for field in batch))


@wrong(
    "cuts target_in and target_out from one padded tensor with BOS and EOS, so target_in"
    " of a shorter row holds EOS where PAD belongs",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS in target_in of the shorter rows",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    whole = pad(
        [
            [BOS, *task.target_vocabulary.encode(example.target), EOS]
            for example in examples
        ]
    ).to(device)
    lengths = torch.tensor([len(source) for source in sources])
    return Batch(pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])


@wrong(
    "sorts the caller's list of examples, the longest source first",
    "Do not change the inputs.",
    "examples sorted in place",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda example: len(example.source), reverse=True)
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "compares the device with the string 'cpu'; torch.device('cpu') is not equal to it,"
    " so the ids go to the GPU, or there is an error",
    "device: where the ids go, a string or a `torch.device`.",
    "torch.device compared with a string",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    lengths = torch.tensor([len(source) for source in sources])
    ids = [
        pad(sources),
        pad([[BOS, *target] for target in targets]),
        pad([[*target, EOS] for target in targets]),
    ]
    if device != "cpu":
        ids = [rows.cuda() for rows in ids]
    source, target_in, target_out = ids
    return Batch(source, lengths, target_in, target_out)


@wrong(
    "leaves the tokens that the vocabulary does not know out of the sources",
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "unknown tokens left out",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [
        [i for i in task.source_vocabulary.encode(example.source) if i != UNK]
        for example in examples
    ]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "cuts both copies from one tensor and overwrites every EOS in target_in by PAD, also"
    " an <eos> that is a token of the target",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "an <eos> inside a target is erased from target_in",
    subtle=True,
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    whole = pad(
        [
            [BOS, *task.target_vocabulary.encode(example.target), EOS]
            for example in examples
        ]
    )
    target_in = whole[:, :-1].masked_fill(whole[:, :-1] == EOS, PAD)
    lengths = torch.tensor([len(source) for source in sources])
    return Batch(
        pad(sources).to(device), lengths, target_in.to(device), whole[:, 1:].to(device)
    )
