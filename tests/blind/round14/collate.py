"""Answers to `collate`."""
import torch

from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch
from blind import right, wrong


def pad(rows):
    """The pad of section 3."""
    size = max(len(row) for row in rows)
    full = [[*row, *[PAD] * (size - len(row))] for row in rows]
    return torch.tensor(full, dtype=torch.long).reshape(len(rows), size)


@right('makes one row BOS, ids, EOS of each target, cuts both copies out of it and erases EOS from the input by the lengths')
def collate_right1(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples])
    target_in, target_out = whole[:, :-1].clone(), whole[:, 1:].clone()
    for row, example in zip(target_in, examples):
        row[1 + len(example.target) :] = PAD
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(
        pad(sources).to(device), lengths, target_in.to(device), target_out.to(device)
    )


@right('fills full tensors that lie on the device already')
def collate_right2(task, examples, device="cpu"):
    lengths = torch.tensor([len(example.source) for example in examples])
    size = 1 + max(len(example.target) for example in examples)
    options = dict(dtype=torch.long, device=device)
    source = torch.full((len(examples), int(lengths.max())), PAD, **options)
    target_in = torch.full((len(examples), size), PAD, **options)
    target_out = torch.full_like(target_in, PAD)
    for b, example in enumerate(examples):
        ids = task.target_vocabulary.encode(example.target)
        source[b, : lengths[b]] = torch.tensor(
            task.source_vocabulary.encode(example.source), **options
        )
        target_in[b, : len(ids) + 1] = torch.tensor([BOS] + ids, **options)
        target_out[b, : len(ids) + 1] = torch.tensor(ids + [EOS], **options)
    return Batch(source, lengths, target_in, target_out)


@right('computes the input from the output: rolls it by one column and erases the EOS behind each target')
def collate_right3(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    ids = [[*task.target_vocabulary.encode(e.target)] for e in examples]
    target_out = pad([row + [EOS] for row in ids])
    target_in = target_out.roll(1, dims=1)
    sizes = torch.tensor([[len(row)] for row in ids])
    target_in[torch.arange(target_in.size(1)) > sizes] = PAD
    target_in[:, 0] = BOS
    lengths = torch.tensor(list(map(len, (e.source for e in examples))), dtype=torch.long)
    return Batch(
        source=source.to(device),
        lengths=lengths,
        target_in=target_in.to(device),
        target_out=target_out.to(device),
    )


@right('encodes the special tokens together with the words, and zips the fields')
def collate_right4(task, examples, device="cpu"):
    bos, eos = (task.target_vocabulary.tokens[i] for i in (BOS, EOS))
    rows = [
        (
            task.source_vocabulary.encode(tuple(source)),
            task.target_vocabulary.encode((bos, *target)),
            task.target_vocabulary.encode((*target, eos)),
        )
        for source, target in ((e.source, e.target) for e in examples)
    ]
    source, target_in, target_out = (pad(list(r)).to(torch.device(device)) for r in zip(*rows))
    lengths = torch.tensor([len(row[0]) for row in rows])
    return Batch(source, lengths, target_in, target_out)


@wrong(
    "Does not shift: the decoder's input is the output itself.",
    'The two are offset by one position:',
    'input not shifted',
)
def collate_wrong1(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    target_out = pad([[*ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, target_out, target_out)


@wrong(
    'Pads the targets first and then appends a column of EOS, so EOS stands behind the padding.',
    'Make each row from one `Example`, and append `PAD` to the shorter rows.',
    'EOS behind the padding',
)
def collate_wrong2(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = pad([task.target_vocabulary.encode(e.target) for e in examples])
    column = torch.ones(len(examples), 1, dtype=torch.long)
    target_in = torch.cat([column * BOS, targets], dim=1)
    target_out = torch.cat([targets, column * EOS], dim=1)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, target_in.to(device), target_out.to(device))


@wrong(
    'Appends EOS to the sources too, and counts it.',
    'Add neither `BOS` nor `EOS` to a source.',
    'source ends with EOS',
)
def collate_wrong3(task, examples, device="cpu"):
    sources = [[*task.source_vocabulary.encode(e.source), EOS] for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(
        pad(sources).to(device),
        lengths,
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'Inserts BOS into the very list from which target_out is made next, so target_out begins with BOS.',
    'The two are offset by one position:',
    'BOS ends up in target_out',
)
def collate_wrong4(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    inputs, outputs = [], []
    for example in examples:
        ids = task.target_vocabulary.encode(example.target)
        row = ids
        row.insert(0, BOS)
        inputs.append(row)
        outputs.append([*ids, EOS])
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, pad(inputs).to(device), pad(outputs).to(device))


@wrong(
    'Cuts both copies out of padded rows BOS, ids, EOS, so the input of a shorter target contains its EOS.',
    'Make each row from one `Example`, and append `PAD` to the shorter rows.',
    'EOS in a shorter target_in',
)
def collate_wrong5(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])


@wrong(
    'Erases every EOS from target_in, also one that is a token of the target.',
    'Make each row from one `Example`, and append `PAD` to the shorter rows.',
    'EOS token of target erased',
)
def collate_wrong6(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples]).to(device)
    target_in = whole[:, :-1]
    target_in = target_in.masked_fill(target_in == EOS, PAD)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, target_in, whole[:, 1:])


@wrong(
    'Counts the ids that are not PAD, so a token `<pad>` in a source is not counted.',
    'Count every token, even one that the vocabulary does not know and even a special token such as `<pad>`.',
    'lengths counted from the ids',
)
def collate_wrong7(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'Moves the lengths to the device together with the ids.',
    'Leave them on the CPU, and move the ids to `device`.',
    'lengths moved to the device',
)
def collate_wrong8(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    fields = (
        pad(sources),
        torch.tensor([len(ids) for ids in sources]),
        pad([[BOS, *ids] for ids in targets]),
        pad([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(field.to(device) for field in fields))


@wrong(
    'Pads sources and targets together to one common width, so the shorter side gets columns that hold padding only.',
    'Make each row from one `Example`, and append `PAD` to the shorter rows.',
    'both sides padded to one width',
)
def collate_wrong9(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    together = pad(
        sources + [[BOS, *ids] for ids in targets] + [[*ids, EOS] for ids in targets]
    ).to(device)
    source, target_in, target_out = together.chunk(3)
    return Batch(source, torch.tensor([len(ids) for ids in sources]), target_in, target_out)


@wrong(
    'Looks for "cuda" in the device as if it were always a string, which fails for a torch.device.',
    'device: where the ids go, a string or a `torch.device`.',
    'device taken for a string',
)
def collate_wrong10(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    ids = (pad(sources), pad([[BOS, *t] for t in targets]), pad([[*t, EOS] for t in targets]))
    if not device.startswith("cpu"):
        ids = tuple(x.to(device) for x in ids)
    return Batch(ids[0], torch.tensor([len(s) for s in sources]), *ids[1:])
