import torch
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@right("one padded target with both ends; EOS is cut off by the known lengths")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    both_ends = pad([[BOS, *ids, EOS] for ids in targets])
    taken = torch.tensor([[1 + len(ids)] for ids in targets])
    inside = torch.arange(both_ends.size(1) - 1) < taken
    target_in = both_ends[:, :-1].where(inside, PAD)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(
        pad(sources).to(device), lengths, target_in.to(device), both_ends[:, 1:].to(device)
    )


@right("fills three tensors, made on the device, cell by cell")
def collate(task, examples, device="cpu"):
    lengths = torch.tensor([len(example.source) for example in examples])
    size = len(examples), int(lengths.max())
    source = torch.full(size, PAD, dtype=torch.long)
    size = len(examples), 1 + max(len(example.target) for example in examples)
    target_in = torch.full(size, PAD, dtype=torch.long)
    target_out = torch.full(size, PAD, dtype=torch.long)
    for b, example in enumerate(examples):
        for s, i in enumerate(task.source_vocabulary.encode(example.source)):
            source[b, s] = i
        t = -1
        target_in[b, 0] = BOS
        for t, i in enumerate(task.target_vocabulary.encode(example.target)):
            target_in[b, t + 1] = i
            target_out[b, t] = i
        target_out[b, t + 1] = EOS
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("pad_sequence of small tensors, with the ends concatenated by torch.cat")
def collate(task, examples, device="cpu"):
    bos, eos = torch.tensor([BOS]), torch.tensor([EOS])

    def ids(vocabulary, tokens):
        return torch.tensor(vocabulary.encode(tokens), dtype=torch.long)

    def together(rows):
        return pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)

    sources = [ids(task.source_vocabulary, example.source) for example in examples]
    targets = [ids(task.target_vocabulary, example.target) for example in examples]
    return Batch(
        source=together(sources),
        lengths=torch.tensor([row.numel() for row in sources]),
        target_in=together([torch.cat((bos, row)) for row in targets]),
        target_out=together([torch.cat((row, eos)) for row in targets]),
    )


@right("collects the four columns of the batch with zip")
def collate(task, examples, device="cpu"):
    def row(example):
        ids = list(task.target_vocabulary.encode(example.target))
        source = list(task.source_vocabulary.encode(example.source))
        return source, len(example.source), [BOS] + ids, ids + [EOS]

    sources, lengths, ins, outs = map(list, zip(*map(row, examples)))
    source, target_in, target_out = (pad(x).to(device) for x in (sources, ins, outs))
    return Batch(source, torch.tensor(lengths), target_in, target_out)


@wrong(
    "cuts the last column off one padded target, so target_in of every shorter target"
    " contains EOS",
    "They are shifted by one position:",
    "EOS is left in target_in of shorter rows",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    both_ends = pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, both_ends[:, :-1], both_ends[:, 1:])


@wrong(
    "pads first and appends EOS afterwards: in a shorter target EOS comes after the padding",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "pads before the shift, so EOS follows the padding",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = pad([task.target_vocabulary.encode(e.target) for e in examples])
    bos, eos = targets.new_full((2, len(examples), 1), BOS)
    eos = eos.clone().fill_(EOS)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        torch.cat([bos, targets], dim=1).to(device),
        torch.cat([targets, eos], dim=1).to(device),
    )


@wrong(
    "moves the lengths to the device too",
    "Leave them on the CPU, and move the ids to `device`.",
    "lengths are moved to the device",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources], device=device),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "counts the ids that are not PAD: a source with the token <pad> gets too small a length",
    "Count every token, even one that the vocabulary does not know and even a special token"
    " such as `<pad>`.",
    "lengths are counted from the ids",
)
def collate(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        source.to(device),
        (source != PAD).sum(dim=1),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "looks at the last id before it appends EOS: an empty target raises, and a target whose"
    " last token is <eos> gets no EOS",
    "A target may be empty, but a source never is.",
    "looks at the last id of an empty target",
)
def collate(task, examples, device="cpu"):
    sources, targets_in, targets_out = [], [], []
    for example in examples:
        sources.append(task.source_vocabulary.encode(example.source))
        ids = list(task.target_vocabulary.encode(example.target))
        targets_in.append([BOS, *ids])
        if ids[-1] != EOS:
            ids.append(EOS)
        targets_out.append(ids)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad(targets_in).to(device),
        pad(targets_out).to(device),
    )


@wrong(
    "leaves the ids on the CPU whatever device says",
    "Leave them on the CPU, and move the ids to `device`.",
    "device is ignored",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources),
        torch.tensor([len(ids) for ids in sources]),
        pad([[BOS, *ids] for ids in targets]),
        pad([[*ids, EOS] for ids in targets]),
    )


@wrong(
    "leaves out source tokens that the vocabulary does not know, in the ids and in the"
    " lengths",
    "Count every token, even one that the vocabulary does not know and even a special token"
    " such as `<pad>`.",
    "unknown tokens are left out of the source",
)
def collate(task, examples, device="cpu"):
    sources = [
        [i for i in task.source_vocabulary.encode(e.source) if i != UNK] for e in examples
    ]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "removes EOS from target_in by its id: a target that contains the token <eos> itself loses"
    " it there",
    "Count every token, even one that the vocabulary does not know and even a special token"
    " such as `<pad>`.",
    "every EOS in target_in becomes PAD",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    both_ends = pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    target_in, target_out = both_ends[:, :-1], both_ends[:, 1:]
    target_in = target_in.masked_fill(target_in == EOS, PAD)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "keeps the ids of every text that it has seen: a second task with other vocabularies gets"
    " the ids of the first one",
    "The result of a call must not depend on earlier calls or on other objects of the same"
    " class.",
    "ids are remembered without the vocabulary",
)
def collate(task, examples, device="cpu", known={}):
    for example in examples:
        if example not in known:
            known[example] = (
                task.source_vocabulary.encode(example.source),
                task.target_vocabulary.encode(example.target),
            )
    sources = [known[example][0] for example in examples]
    targets = [known[example][1] for example in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "pads sources and targets in one call, so both have the width of the longest row of"
    " either: even the longest source or target is padded",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "sources and targets padded to a common width",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    rows = [*sources, *([BOS, *ids] for ids in targets), *([*ids, EOS] for ids in targets)]
    source, target_in, target_out = pad(rows).to(device).chunk(3)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(source, lengths, target_in, target_out)
