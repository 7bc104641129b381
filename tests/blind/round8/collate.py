import torch

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong


def pad(rows):
    """The answer to question 3."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long)


@right("frames each target once, and takes two slices of it before padding")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    both = [[BOS, *task.target_vocabulary.encode(example.target), EOS] for example in examples]
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(
        source=pad(sources).to(device),
        lengths=lengths,
        target_in=pad([ids[:-1] for ids in both]).to(device),
        target_out=pad([ids[1:] for ids in both]).to(device),
    )


@right("one loop with three lists, torch's pad_sequence")
def collate(task, examples, device="cpu"):
    lists, lengths = ([], [], []), []
    for source, target in ((e.source, e.target) for e in examples):
        ids = list(task.target_vocabulary.encode(target))
        rows = (task.source_vocabulary.encode(source), [BOS] + ids, ids + [EOS])
        lengths.append(len(source))
        for rest, row in zip(lists, rows):
            rest.append(torch.tensor(row, dtype=torch.long, device=device))
    a, b, c = (torch.nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=PAD) for x in lists)
    return Batch(a, torch.tensor(lengths, dtype=torch.long), b, c)


@right("target_in from target_out: rolls it, and removes EOS where it stands, by the lengths")
def collate(task, examples, device="cpu"):
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    out = pad([[*ids, EOS] for ids in targets])
    into = out.roll(1, dims=1)
    into[:, 0] = BOS
    for row, ids in zip(into, targets):
        row[len(ids) + 1 :] = PAD
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    lengths = torch.tensor([*map(len, (e.source for e in examples))])
    return Batch(source.to(device), lengths, into.to(device), out.to(device))


@right("writes ids into prepared tensors")
def collate(task, examples, device="cpu"):
    lengths = torch.tensor([len(e.source) for e in examples])
    steps = 1 + max(len(e.target) for e in examples)
    source = torch.full((len(examples), int(lengths.max())), PAD)
    target_in, target_out = torch.full((2, len(examples), steps), PAD).clone()
    for b, e in enumerate(examples):
        source[b, : len(e.source)] = torch.tensor(task.source_vocabulary.encode(e.source))
        ids = torch.tensor(task.target_vocabulary.encode(e.target), dtype=torch.long)
        target_in[b, 0], target_in[b, 1 : len(ids) + 1] = BOS, ids
        target_out[b, : len(ids)], target_out[b, len(ids)] = ids, EOS
    return Batch(*(x if x is lengths else x.to(device) for x in (source, lengths, target_in, target_out)))


def rows_of(task, examples):
    """Ids of all sources and of all targets."""
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    return sources, [task.target_vocabulary.encode(e.target) for e in examples]


@wrong("no shift: both targets have BOS and EOS", "So we need the target twice, and the two copies are shifted by one position:", "targets not shifted")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    both = pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), both, both)


@wrong("pads before it shifts: target_in of the shorter rows contains EOS", "Each row comes from one `Example`, which has the fields `source` and `target` (tuples of tokens), and is filled up with `PAD` at its end.", "EOS in target_in of shorter rows")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    both = pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), both[:, :-1], both[:, 1:])


@wrong("sources get EOS, and the lengths count it", "Sources get neither `BOS` nor `EOS`.", "EOS at the source")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    sources = [[*ids, EOS] for ids in sources]
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), target_in.to(device), target_out.to(device))


@wrong("counts ids that are not PAD: a source with the token <pad> is too short", "Every token of a source or target counts, also a token that the vocabulary does not know, and one of the four special tokens, even `<pad>`.", "lengths from ids unlike PAD")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    source = pad(sources)
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(source.to(device), (source != PAD).sum(dim=1), target_in.to(device), target_out.to(device))


@wrong("moves the lengths to the device as well (seen on a GPU or with device='meta')", "The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.", "lengths leave the CPU")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    parts = pad(sources), torch.tensor([len(x) for x in sources]), pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(*(x.to(device) for x in parts))


@wrong("leaves all ids on the CPU", "The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.", "device ignored")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    return Batch(pad(sources), torch.tensor([len(x) for x in sources]), pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets]))


@wrong("sorts the list of examples by length, in place: rows are in another order, and the list too", "a list, which stays as it is; each has `source` and `target`, tuples of tokens.", "sorts the given examples")
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda e: len(e.source), reverse=True)
    sources, targets = rows_of(task, examples)
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), target_in.to(device), target_out.to(device))


@wrong("drops examples with an empty target", "A target may be empty, but a source never is.", "examples with empty targets dropped")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, [e for e in examples if e.target] or examples)
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), target_in.to(device), target_out.to(device))


@wrong("encodes targets with the source's vocabulary: right if both vocabularies are the same, as in a test with one", "The function will become a method of a task, so its first argument is the task, which holds both vocabularies.", "one vocabulary for both sides")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.source_vocabulary.encode(e.target) for e in examples]
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), target_in.to(device), target_out.to(device))


@wrong("leaves unknown tokens out of the ids and of the lengths", "Every token of a source or target counts, also a token that the vocabulary does not know, and one of the four special tokens, even `<pad>`.", "unknown tokens left out")
def collate(task, examples, device="cpu"):
    sources, targets = rows_of(task, examples)
    sources = [[i for i in x if i != UNK] for x in sources]
    target_in, target_out = pad([[BOS, *x] for x in targets]), pad([[*x, EOS] for x in targets])
    return Batch(pad(sources).to(device), torch.tensor([len(x) for x in sources]), target_in.to(device), target_out.to(device))
