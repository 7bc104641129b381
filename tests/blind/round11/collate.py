from itertools import chain, zip_longest

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from blind import right, wrong


def _pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


def _encode(task, examples):
    return (
        [task.source_vocabulary.encode(example.source) for example in examples],
        [task.target_vocabulary.encode(example.target) for example in examples],
    )


@right("one long row BOS ... EOS for each target, cut at both ends; pad_sequence")
def collate(task, examples, device="cpu"):
    def padded(rows):
        rows = [torch.tensor(row, dtype=torch.long) for row in rows]
        return nn.utils.rnn.pad_sequence(rows, True, PAD).to(device)

    whole = [[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples]
    return Batch(
        source=padded([task.source_vocabulary.encode(e.source) for e in examples]),
        lengths=torch.tensor([len(e.source) for e in examples]),
        target_in=padded([row[:-1] for row in whole]),
        target_out=padded([row[1:] for row in whole]),
    )


@right("pads the targets bare, then puts a column in front or behind and scatters EOS")
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    ends = torch.tensor([len(row) for row in targets])
    bare = _pad(targets)
    target_in = F.pad(bare, (1, 0), value=BOS)
    target_out = F.pad(bare, (0, 1), value=PAD).scatter(1, ends[:, None], EOS)
    return Batch(
        _pad(sources).to(device), lengths, target_in.to(device), target_out.to(device)
    )


@right("encodes all sources in one go and splits them; zip_longest makes columns")
def collate(task, examples, device="cpu"):
    def rows(vocabulary, texts):
        ids = iter(vocabulary.encode(list(chain.from_iterable(texts))))
        return [[next(ids) for _ in text] for text in texts]

    def tensor(lists):
        columns = list(zip_longest(*lists, fillvalue=PAD))
        return torch.tensor(columns, device=device, dtype=torch.long).T.contiguous()

    sources = rows(task.source_vocabulary, [e.source for e in examples])
    targets = rows(task.target_vocabulary, [e.target for e in examples])
    lengths = torch.LongTensor([*map(len, sources)])
    first, last = ([BOS] + t for t in targets), (t + [EOS] for t in targets)
    return Batch(tensor(sources), lengths, tensor(first), tensor(last))


@right("fills three tensors of PAD row by row")
def collate(task, examples, device="cpu"):
    size = len(examples)
    width = 1 + max(len(e.target) for e in examples)
    lengths = torch.zeros(size, dtype=torch.long)
    source = torch.full((size, max(len(e.source) for e in examples)), PAD)
    target_in, target_out = torch.full((2, size, width), PAD)
    target_in[:, 0] = BOS
    for b, e in enumerate(examples):
        lengths[b], end = len(e.source), len(e.target)
        source[b, : len(e.source)] = torch.tensor(task.source_vocabulary.encode(e.source))
        ids = torch.tensor(task.target_vocabulary.encode(e.target), dtype=torch.long)
        target_in[b, 1 : end + 1] = ids
        target_out[b, :end] = ids
        target_out[b, end] = EOS
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@wrong(
    "the decoder's input is the output that it should predict",
    "The two are offset by one position:",
    "no shift",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    target = _pad([[*ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(_pad(sources).to(device), lengths, target, target.clone())


@wrong(
    "pads the targets first, so EOS stands behind the padding",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS after the padding",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    target = _pad(targets)
    begin = torch.full((len(examples), 1), BOS)
    end = torch.full((len(examples), 1), EOS)
    return Batch(
        _pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        torch.cat([begin, target], 1).to(device),
        torch.cat([target, end], 1).to(device),
    )


@wrong(
    "appends EOS to the sources",
    "Add neither `BOS` nor `EOS` to a source.",
    "EOS in the source",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    sources = [[*ids, EOS] for ids in sources]
    return Batch(
        _pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        _pad([[BOS, *ids] for ids in targets]).to(device),
        _pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "counts the ids that are not PAD, so the token <pad> in a source does not count",
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "lengths from the padded ids",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    source = _pad(sources)
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        _pad([[BOS, *ids] for ids in targets]).to(device),
        _pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "moves the lengths to the device too",
    "Leave them on the CPU, and move the ids to `device`.",
    "lengths on the wrong device",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    batch = Batch(
        _pad(sources),
        torch.tensor([len(ids) for ids in sources]),
        _pad([[BOS, *ids] for ids in targets]),
        _pad([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(field.to(device) for field in batch))


@wrong(
    "leaves out the examples whose target is empty",
    "A target may be empty, but a source never is.",
    "empty targets are lost",
)
def collate(task, examples, device="cpu"):
    examples = [e for e in examples if e.source and e.target] or examples
    sources, targets = _encode(task, examples)
    return Batch(
        _pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        _pad([[BOS, *ids] for ids in targets]).to(device),
        _pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "pads BOS ... EOS and cuts off a column, so EOS stands in target_in of every row but"
    " the longest, where PAD should be",
    "Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS in target_in",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    whole = _pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(_pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])


@wrong(
    "makes target_in from target_out and removes every EOS, also one that is a token of"
    " the target",
    "*Teacher forcing* avoids this: in training, the decoder's input at each position is"
    " the *correct* token, and its task is to predict the next one.",
    "a special token of the target gets lost",
)
def collate(task, examples, device="cpu"):
    sources, targets = _encode(task, examples)
    target_out = _pad([[*ids, EOS] for ids in targets]).to(device)
    target_in = target_out.masked_fill(target_out == EOS, PAD).roll(1, dims=1)
    target_in[:, 0] = BOS
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(_pad(sources).to(device), lengths, target_in, target_out)


@wrong(
    "sorts the caller's list of examples, the longest source first",
    "Do not change the inputs.",
    "the examples are sorted in place",
)
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda e: len(e.source), reverse=True)
    sources, targets = _encode(task, examples)
    return Batch(
        _pad(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        _pad([[BOS, *ids] for ids in targets]).to(device),
        _pad([[*ids, EOS] for ids in targets]).to(device),
    )


_SOURCES, _TARGETS = {}, {}


@wrong(
    "remembers the ids of every text, also for a task with other vocabularies",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "ids from an earlier call",
)
def collate(task, examples, device="cpu"):
    for e in examples:
        if e.source not in _SOURCES:
            _SOURCES[e.source] = task.source_vocabulary.encode(e.source)
        if e.target not in _TARGETS:
            _TARGETS[e.target] = task.target_vocabulary.encode(e.target)
    return Batch(
        _pad([_SOURCES[e.source] for e in examples]).to(device),
        torch.tensor([len(e.source) for e in examples]),
        _pad([[BOS, *_TARGETS[e.target]] for e in examples]).to(device),
        _pad([[*_TARGETS[e.target], EOS] for e in examples]).to(device),
    )
