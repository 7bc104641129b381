import torch
from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong
from torch.nn.utils.rnn import pad_sequence

ROWS = "Make each row from one `Example`, and append `PAD` to the shorter rows."
COUNT = "Count every token, even one that the vocabulary does not know and even a special token such as `<pad>`."
DEVICE = "Leave them on the CPU, and move the ids to `device`."


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long)


@right("one target tensor, BOS as a column in front, EOS scattered to the ends")
def collate(task, examples, device="cpu"):
    source = pad([list(task.source_vocabulary.encode(e.source)) for e in examples])
    lengths = torch.tensor([len(e.source) for e in examples])
    targets = [list(task.target_vocabulary.encode(e.target)) for e in examples]
    body = pad(targets)
    ends = torch.tensor([len(target) for target in targets])[:, None]
    target_in = torch.cat([torch.full_like(ends, BOS), body], dim=1)
    target_out = torch.cat([body, torch.full_like(ends, PAD)], dim=1).scatter(1, ends, EOS)
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("pad_sequence, tensors made per row")
def collate(task, examples, device="cpu"):
    def stack(rows):
        tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=PAD).to(device)

    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        stack(sources),
        torch.tensor([len(source) for source in sources], dtype=torch.long),
        stack([[BOS] + list(ids) for ids in targets]),
        stack([list(ids) + [EOS] for ids in targets]),
    )


@right("one loop that fills four tensors")
def collate(task, examples, device="cpu"):
    batch = len(examples)
    wide = max(len(example.source) for example in examples)
    long = 1 + max(len(example.target) for example in examples)
    source = torch.full((batch, wide), PAD)
    target_in = torch.full((batch, long), PAD)
    target_out = target_in.clone()
    lengths = torch.zeros(batch, dtype=torch.long)
    for b, example in enumerate(examples):
        for s, i in enumerate(task.source_vocabulary.encode(example.source)):
            source[b, s] = i
            lengths[b] += 1
        target_in[b, 0] = BOS
        ids = task.target_vocabulary.encode(example.target)
        for t, i in enumerate(ids):
            target_in[b, t + 1] = target_out[b, t] = i
        target_out[b, len(ids)] = EOS
    ids = (x.to(device=device) for x in (source, target_in, target_out))
    source, target_in, target_out = ids
    return Batch(source, lengths, target_in, target_out)


@right("zip over triples, and pad with the device moved by map")
def collate(task, examples, device="cpu"):
    def rows(example):
        target = task.target_vocabulary.encode(example.target)
        return task.source_vocabulary.encode(example.source), [BOS, *target], [*target, EOS]

    columns = list(zip(*map(rows, examples)))
    source, target_in, target_out = (pad(list(column)).to(device) for column in columns)
    lengths = torch.tensor(list(map(len, columns[0])))
    return Batch(source=source, lengths=lengths, target_in=target_in, target_out=target_out)


@wrong("pads the targets first: EOS stands behind the padding of short targets", breaks=ROWS,
       name="EOS after the padding")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    body = pad([task.target_vocabulary.encode(e.target) for e in examples])
    column = torch.ones(len(examples), 1, dtype=torch.long)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        torch.cat([BOS * column, body], 1).to(device),
        torch.cat([body, EOS * column], 1).to(device),
    )


@wrong("the source ends with EOS, too", breaks="Add neither `BOS` nor `EOS` to a source.", name="EOS added to the source")
def collate(task, examples, device="cpu"):
    sources = [[*task.source_vocabulary.encode(e.source), EOS] for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("lengths are the numbers of ids that are not PAD, so a <pad> in a source is not counted", breaks=COUNT,
       name="PAD tokens not counted")
def collate(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("the lengths move to the device with the ids", breaks=DEVICE, name="lengths on the device")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    parts = (
        pad(sources),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]),
        pad([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(part.to(device) for part in parts))


@wrong("only the source moves to the device, the targets stay on the CPU",
       breaks="device: where the ids go, a string or a `torch.device`.", name="targets not moved")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]),
        pad([[*ids, EOS] for ids in targets]),
    )


@wrong("encodes the targets with the vocabulary of the sources",
       breaks="Its first argument is therefore the task, which holds both vocabularies.",
       name="one vocabulary for both sides")
def collate(task, examples, device="cpu"):
    vocabulary = task.source_vocabulary
    sources = [vocabulary.encode(e.source) for e in examples]
    targets = [vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("unknown tokens are in the row but not in the length", breaks=COUNT, name="unknown tokens not counted")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([sum(i != UNK for i in row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("sorts the caller's list of examples by length", breaks="Do not change the inputs.",
       name="examples sorted in place")
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda e: len(e.source), reverse=True)
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("skips the examples that have an empty target", breaks="A target may be empty, but a source never is.",
       name="empty targets dropped")
def collate(task, examples, device="cpu"):
    examples = [e for e in examples if e.target]
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong("pads BOS ids EOS once and slices: the shorter rows of target_in hold an EOS", breaks=ROWS,
       name="EOS left in target_in")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])
