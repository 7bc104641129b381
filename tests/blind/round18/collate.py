import itertools

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from blind import right, wrong

COPIES = "So we need two copies of the target, offset by one position:"
ROWS = (
    "Make each row from one `Example`, in the given order, and append `PAD` to the"
    " shorter rows."
)
SOURCE = "Add neither `BOS` nor `EOS` to a source."
DEVICE = "Leave them on the CPU, and move the ids to `device`."
COUNT = (
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`."
)
EMPTY = "A target may be empty, but a source never is."


def pad_rows(rows):
    width = max(len(row) for row in rows)
    rows = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(rows, dtype=torch.long)


def source_ids(task, examples):
    return [task.source_vocabulary.encode(example.source) for example in examples]


def target_ids(task, examples):
    return [task.target_vocabulary.encode(example.target) for example in examples]


@right("one tensor with BOS and EOS, two slices of it, and a mask for the extra EOS")
def collate(task, examples, device="cpu"):
    targets = target_ids(task, examples)
    both = pad_rows([[BOS, *ids, EOS] for ids in targets])
    counts = torch.tensor([len(ids) for ids in targets])[:, None]
    columns = torch.arange(both.shape[1] - 1)
    target_in = both[:, :-1].where(columns <= counts, PAD)
    return Batch(
        source=pad_rows(source_ids(task, examples)).to(device),
        lengths=torch.tensor([len(example.source) for example in examples]),
        target_in=target_in.to(device),
        target_out=both[:, 1:].to(device),
    )


@right("three lists of tensors, filled example by example, and pad_sequence")
def collate(task, examples, device="cpu"):
    fields = [], [], []
    for example in examples:
        target = task.target_vocabulary.encode(example.target)
        rows = (
            task.source_vocabulary.encode(example.source),
            itertools.chain([BOS], target),
            itertools.chain(target, [EOS]),
        )
        for field, row in zip(fields, rows):
            field.append(torch.tensor([*row], dtype=torch.long, device=device))
    source, target_in, target_out = (
        nn.utils.rnn.pad_sequence(field, batch_first=True, padding_value=PAD)
        for field in fields
    )
    lengths = torch.tensor([len(row) for row in fields[0]], device="cpu")
    return Batch(source, lengths, target_in, target_out)


@right("columns from zip_longest, transposed at the end")
def collate(task, examples, device="cpu"):
    def columns(rows):
        turned = list(itertools.zip_longest(*rows, fillvalue=PAD))
        return torch.tensor(turned, dtype=torch.long, device=device).T

    sources, targets = source_ids(task, examples), target_ids(task, examples)
    lengths = torch.LongTensor(list(map(len, sources)))
    return Batch(
        columns(sources),
        lengths,
        columns([BOS] + ids for ids in targets),
        columns(ids + [EOS] for ids in targets),
    )


@right("pads the bare targets, shifts them with F.pad, and writes EOS at its places")
def collate(task, examples, device="cpu"):
    targets = target_ids(task, examples)
    ends = [len(ids) for ids in targets]
    bare = pad_rows(targets)
    target_in = F.pad(bare, (1, 0), value=BOS)
    target_out = F.pad(bare, (0, 1), value=PAD)
    target_out[range(len(ends)), ends] = EOS
    source = pad_rows(source_ids(task, examples))
    lengths = torch.zeros(len(examples), dtype=torch.long)
    for b, example in enumerate(examples):
        for _ in example.source:
            lengths[b] += 1
    fields = (x.to(device) for x in (source, target_in, target_out))
    source, target_in, target_out = fields
    return Batch(source, lengths, target_in, target_out)


@wrong(
    "makes both copies from one list, so each of them has BOS and EOS and none is"
    " shifted",
    breaks=COPIES,
    name="two names for one list",
)
def collate(task, examples, device="cpu"):
    sources, targets = source_ids(task, examples), target_ids(task, examples)
    target_in, target_out = targets, targets
    for ids in target_in:
        ids.insert(0, BOS)
    for ids in target_out:
        ids.append(EOS)
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows(target_in).to(device),
        pad_rows(target_out).to(device),
    )


@wrong(
    "pads the targets first, so EOS stands after the padding",
    breaks=ROWS,
    name="EOS after the padding",
)
def collate(task, examples, device="cpu"):
    sources = source_ids(task, examples)
    bare = pad_rows(target_ids(task, examples))
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        F.pad(bare, (1, 0), value=BOS).to(device),
        F.pad(bare, (0, 1), value=EOS).to(device),
    )


@wrong(
    "ends each source with EOS, but does not count it",
    breaks=SOURCE,
    name="EOS added to the source",
)
def collate(task, examples, device="cpu"):
    sources, targets = source_ids(task, examples), target_ids(task, examples)
    return Batch(
        pad_rows([[*ids, EOS] for ids in sources]).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] for ids in targets]).to(device),
        pad_rows([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "sorts the examples by their lengths, the longest source first",
    breaks=ROWS,
    name="examples sorted by length",
)
def collate(task, examples, device="cpu"):
    examples = sorted(examples, key=lambda example: -len(example.source))
    sources, targets = source_ids(task, examples), target_ids(task, examples)
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] for ids in targets]).to(device),
        pad_rows([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "cuts the last column of BOS target EOS, so EOS stays in the short rows of"
    " target_in",
    breaks=ROWS,
    name="EOS in the decoder's input",
)
def collate(task, examples, device="cpu"):
    sources = source_ids(task, examples)
    both = pad_rows([[BOS, *ids, EOS] for ids in target_ids(task, examples)])
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        both[:, :-1].to(device),
        both[:, 1:].to(device),
    )


@wrong(
    "counts the ids that are not PAD, so a token <pad> in a source does not count",
    breaks=COUNT,
    name="lengths counted from the ids",
)
def collate(task, examples, device="cpu"):
    targets = target_ids(task, examples)
    source = pad_rows(source_ids(task, examples))
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad_rows([[BOS, *ids] for ids in targets]).to(device),
        pad_rows([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "replaces every EOS in target_in with PAD, also one that is a token of the target",
    breaks=ROWS,
    name="special tokens of a target erased",
)
def collate(task, examples, device="cpu"):
    sources = source_ids(task, examples)
    both = pad_rows([[BOS, *ids, EOS] for ids in target_ids(task, examples)])
    target_in = both[:, :-1].masked_fill(both[:, :-1] == EOS, PAD)
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        target_in.to(device),
        both[:, 1:].to(device),
    )


@wrong(
    "adds neither BOS nor EOS to an empty target, so its row is all padding",
    breaks=EMPTY,
    name="empty target without BOS and EOS",
)
def collate(task, examples, device="cpu"):
    sources, targets = source_ids(task, examples), target_ids(task, examples)
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] if ids else [] for ids in targets]).to(device),
        pad_rows([[*ids, EOS] if ids else [] for ids in targets]).to(device),
    )


@wrong(
    "collects the examples in a dictionary by their sources, so a repeated source gives"
    " one row only",
    breaks=ROWS,
    name="examples with equal sources merged",
)
def collate(task, examples, device="cpu"):
    pairs = {example.source: example.target for example in examples}
    sources = [task.source_vocabulary.encode(source) for source in pairs]
    targets = [task.target_vocabulary.encode(target) for target in pairs.values()]
    return Batch(
        pad_rows(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] for ids in targets]).to(device),
        pad_rows([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "moves the lengths to the device, too",
    breaks=DEVICE,
    name="lengths not on the CPU",
)
def collate(task, examples, device="cpu"):
    sources, targets = source_ids(task, examples), target_ids(task, examples)
    batch = Batch(
        pad_rows(sources),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] for ids in targets]),
        pad_rows([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(field.to(device) for field in batch))
