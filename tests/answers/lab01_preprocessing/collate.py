"""Answers to collate."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.lab01_preprocessing.pad import padded_by_loop
from answers.lab01_preprocessing.texts import draw
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from nbjudge.question import Request


@wide("collate")
def any_examples(g):
    for batch in (1, 2, 5):
        for longest in (1, 3, 8):
            texts = [
                ["".join(letters[i] for i in draw(g, n, low=0, high=7)) for n in sizes]
                for letters in ("abcdefg", "nopqrst")
                for sizes in [draw(g, batch, low=1, high=longest + 1).tolist()]
            ]
            yield Request((*texts,))
            yield Request((*texts, "meta"))


def pad(rows):
    return padded_by_loop(rows)


def both(task, examples):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return sources, targets


@right("collate")
def by_the_book(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    return Batch(
        source=pad(sources).to(device),
        lengths=torch.tensor([len(row) for row in sources]),
        target_in=pad([[BOS, *row] for row in targets]).to(device),
        target_out=pad([[*row, EOS] for row in targets]).to(device),
    )


@right("collate")
def in_one_loop(task, examples, device="cpu"):
    source, lengths, target_in, target_out = [], [], [], []
    for example in examples:
        ids = task.source_vocabulary.encode(example.source)
        source.append(ids)
        lengths.append(len(ids))
        ids = task.target_vocabulary.encode(example.target)
        target_in.append([BOS] + ids)
        target_out.append(ids + [EOS])
    target_in, target_out = (pad(rows).to(device) for rows in (target_in, target_out))
    return Batch(
        pad(source).to(device),
        torch.stack([torch.tensor(length) for length in lengths]),
        target_in,
        target_out,
    )


@right("collate")
def from_one_longer_tensor(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    given, said = (
        pad([[BOS, *row] for row in targets]),
        pad([[BOS, *row, EOS] for row in targets])[:, 1:],
    )
    source = pad(sources)
    return Batch(
        source.to(device), (source != PAD).sum(1), given.to(device), said.to(device)
    )


@right("collate")
def by_rolling(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = pad([[*row, EOS] for row in targets])
    given = said.masked_fill(said == EOS, PAD).roll(1, dims=1)
    given[:, 0] = BOS
    lengths = torch.tensor(list(map(len, sources)))
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


@right("collate")
def bos_glued_in_front(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ids = pad(targets)
    given = torch.cat([torch.full((len(ids), 1), BOS), ids], dim=1)
    said = pad([[*row, EOS] for row in targets])
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(s) for s in sources]),
        given.to(device),
        said.to(device),
    )


@right("collate")
def end_put_in_place(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = F.pad(pad(targets), (0, 1), value=PAD)
    said[torch.arange(len(said)), torch.tensor([len(row) for row in targets])] = EOS
    given = F.pad(pad(targets), (1, 0), value=BOS)
    lengths = torch.tensor([len(example.source) for example in examples])
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


@right("collate")
def end_scattered(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ends = torch.tensor([[len(row)] for row in targets])
    said = pad([[*row, PAD] for row in targets]).scatter(1, ends, EOS)
    given = pad([[BOS, *row] for row in targets])
    return Batch(
        pad(sources).to(device),
        torch.tensor([*map(len, sources)]),
        given.to(device),
        said.to(device),
    )


@right("collate")
def padded_by_torch(task, examples, device="cpu"):
    def tensor(rows):
        return pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(
            device
        )

    sources, targets = both(task, examples)
    given, said = zip(*(([BOS, *row], [*row, EOS]) for row in targets))
    return Batch(
        tensor(sources),
        torch.tensor([len(row) for row in sources]),
        tensor(given),
        tensor(said),
    )


@right("collate")
def tokens_bordered_first(task, examples, device="cpu"):
    encode = task.target_vocabulary.encode
    given = [encode(["<bos>", *example.target]) for example in examples]
    said = [encode([*example.target, "<eos>"]) for example in examples]
    source = pad(
        [task.source_vocabulary.encode(example.source) for example in examples]
    )
    lengths = torch.sum(source.ne(PAD), dim=-1)
    return Batch(
        source.to(device), lengths, pad(given).to(device), pad(said).to(device)
    )


@right("collate")
def stacked_and_unbound(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    rows = [[BOS, *row] for row in targets] + [[*row, EOS] for row in targets]
    given, said = pad(rows).to(device).chunk(2)
    return Batch(
        pad(sources).to(device),
        torch.as_tensor([len(row) for row in sources]),
        given,
        said,
    )


@right("collate")
def counted_by_a_sum(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    source = pad(sources)
    lengths = torch.stack([torch.count_nonzero(row) for row in source])
    ids = pad([[BOS, *row, EOS] for row in targets])
    given = ids[:, :-1].where(ids[:, :-1] != EOS, PAD)
    return Batch(source.to(device), lengths, given.to(device), ids[:, 1:].to(device))


@wrong("collate", "the target is not shifted")
def not_shifted(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(
        pad(sources).to(device),
        lengths,
        pad(targets).to(device),
        pad(targets).to(device),
    )


@wrong("collate", "the target is not shifted", "BOS and EOS on both sides")
def bordered_not_shifted(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    target = pad([[BOS, *row, EOS] for row in targets]).to(device)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        target,
        target,
    )


@wrong("collate", "BOS and EOS on both sides")
def end_goes_in(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    target = pad([[BOS, *row, EOS] for row in targets]).to(device)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        target[:, :-1],
        target[:, 1:],
    )


@wrong("collate", "the end behind the padding", "the end is missing")
def padded_first(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    ids = pad(targets)
    said = torch.cat([ids, torch.full((len(ids), 1), EOS)], dim=1)
    given = torch.cat([torch.full((len(ids), 1), BOS), ids], dim=1)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        given.to(device),
        said.to(device),
    )


@wrong("collate", "the end is missing")
def never_ends(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    given = pad([[BOS, *row[:-1]] for row in targets])
    return Batch(
        pad(sources).to(device), lengths, given.to(device), pad(targets).to(device)
    )


@wrong("collate", "the beginning is missing")
def no_beginning(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    lengths = torch.tensor([len(row) for row in sources])
    said = pad([[*row[1:], EOS] for row in targets])
    return Batch(
        pad(sources).to(device), lengths, pad(targets).to(device), said.to(device)
    )


@wrong("collate", "sources between BOS and EOS")
def sources_end(task, examples, device="cpu"):
    sources, _ = both(task, examples)
    sources = [[*row, EOS] for row in sources]
    right = by_the_book(task, examples, device)
    return right._replace(
        source=pad(sources).to(device),
        lengths=torch.tensor([len(row) for row in sources]),
    )


@wrong("collate", "padding counted in the lengths")
def as_wide_as_all(task, examples, device="cpu"):
    batch = by_the_book(task, examples, device)
    return batch._replace(lengths=torch.full((len(examples),), batch.source.shape[1]))


@wrong("collate", "the lengths are those of something else")
def lengths_of_targets(task, examples, device="cpu"):
    _, targets = both(task, examples)
    return by_the_book(task, examples, device)._replace(
        lengths=torch.tensor([len(row) for row in targets])
    )


@wrong("collate", "a vocabulary of the other language")
def one_vocabulary(task, examples, device="cpu"):
    task.target_vocabulary = task.source_vocabulary
    return by_the_book(task, examples, device)


@wrong("collate", "tokens, where ids are meant")
def not_encoded(task, examples, device="cpu"):
    sources = [list(example.source) for example in examples]
    return by_the_book(task, examples, device)._replace(source=pad(sources).to(device))


@wrong("collate", "no Batch is returned")
def plain_tuple(task, examples, device="cpu"):
    return tuple(by_the_book(task, examples, device))


@wrong("collate", "left where they were made, or sent along too far")
def stays_on_the_cpu(task, examples, device="cpu"):
    return by_the_book(task, examples)


@wrong("collate", "left where they were made, or sent along too far")
def lengths_sent_along(task, examples, device="cpu"):
    return Batch(*(x.to(device) for x in by_the_book(task, examples)))


@wrong("collate", "the outputs in another order", "shifted the wrong way")
def other_order(task, examples, device="cpu"):
    source, lengths, given, said = by_the_book(task, examples, device)
    return Batch(source, lengths, said, given)


@wrong("collate", "lists, where tensors are meant")
def lengths_in_a_list(task, examples, device="cpu"):
    batch = by_the_book(task, examples, device)
    return batch._replace(lengths=batch.lengths.tolist())


@wrong("collate", "not every example is in the batch")
def first_example(task, examples, device="cpu"):
    return by_the_book(task, examples[:1], device)
