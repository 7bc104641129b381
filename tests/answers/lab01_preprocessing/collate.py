"""Answers to collate."""

import torch
import torch.nn.functional as F
from answers.core import right, right_edits, wide, wrong_edits
from answers.lab01_preprocessing.pad import padded_by_loop
from answers.lab01_preprocessing.shared import draw
from answers.signs import NO_NAME
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from nbjudge import Request, edit


@wide("collate")
def any_examples(g):
    for batch in (1, 2, 5):
        for longest in (1, 3, 8):
            texts = [
                [
                    tuple(letters[i] for i in draw(g, n, low=0, high=7))
                    for n in draw(g, batch, low=1, high=longest + 1).tolist()
                ]
                for letters in ("abcdefg", "nopqrst")
            ]
            words = [[*"abcdefg"], [*"nopqrst"]]
            yield Request((words, *texts))
            yield Request((words, *texts, "meta"))


def pad(rows):
    return padded_by_loop(rows)


def both(task, examples):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return sources, targets


def fields_of(**fields):
    return tuple(fields.values())


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
def by_rolling(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = pad([[*row, EOS] for row in targets])
    given = said.roll(1, dims=1)
    for row, target in zip(given, targets):
        row[len(target) + 1 :] = PAD
    given[:, 0] = BOS
    lengths = torch.tensor(list(map(len, sources)))
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


@right("collate")
def end_put_in_place(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    said = F.pad(pad(targets), (0, 1), value=PAD)
    said[torch.arange(len(said)), torch.tensor([len(row) for row in targets])] = EOS
    given = F.pad(pad(targets), (1, 0), value=BOS)
    lengths = torch.tensor([len(example.source) for example in examples])
    return Batch(pad(sources).to(device), lengths, given.to(device), said.to(device))


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
def filled_by_hand(task, examples, device="cpu"):
    sources, targets = both(task, examples)
    longest = max(map(len, targets))
    given = [[BOS, *row, *[PAD] * (longest - len(row))] for row in targets]
    said = [[*row, EOS, *[PAD] * (longest - len(row))] for row in targets]
    lengths = torch.zeros(len(examples), dtype=torch.long)
    for b, row in enumerate(sources):
        lengths[b] += len(row)
    return Batch(
        pad(sources).to(device),
        lengths,
        torch.tensor(given, device=device),
        torch.tensor(said, device=device),
    )


LENGTHS = "torch.tensor([len(row) for row in sources])"
GIVEN, SAID = "[[BOS, *row] for row in targets]", "[[*row, EOS] for row in targets]"
right_edits(
    "collate",
    by_the_book,
    from_one_longer_tensor=edit(
        by_the_book, f"{SAID})", "[[BOS, *row, EOS] for row in targets])[:, 1:]"
    ),
    bos_glued_in_front=edit(
        by_the_book,
        f"pad({GIVEN})",
        "torch.cat([torch.full((len(targets), 1), BOS), pad(targets)], dim=1)",
    ),
    end_scattered=edit(
        by_the_book,
        f"{SAID})",
        "[[*row, PAD] for row in targets])"
        ".scatter(1, torch.tensor([[len(row)] for row in targets]), EOS)",
    ),
)

LONG, AWAY = "wrong for long inputs", "tensors of the batch on the wrong device"
wrong_edits(
    "collate",
    by_the_book,
    not_shifted=(
        edit(by_the_book, GIVEN, "targets") & edit(by_the_book, SAID, "targets"),
        "the target is not shifted",
    ),
    end_goes_in=(
        edit(
            by_the_book, f"{GIVEN})", "[[BOS, *row, EOS] for row in targets])[:, :-1]"
        ),
        "the last column cut off, not the EOS of each row",
    ),
    never_ends=(
        edit(by_the_book, "[BOS, *row]", "[BOS, *row[:-1]]")
        & edit(by_the_book, SAID, "targets"),
        "EOS is missing in target_out",
    ),
    no_beginning=(
        edit(by_the_book, GIVEN, "targets")
        & edit(by_the_book, "[*row, EOS]", "[*row[1:], EOS]"),
        "BOS is missing in target_in",
    ),
    sources_end=(
        edit(both, "encode(example.source)", "encode([*example.source, '<eos>'])"),
        "BOS or EOS in the sources",
    ),
    counted_by_a_sum=(
        edit(by_the_book, LENGTHS, "(pad(sources) != PAD).sum(1)"),
        "lengths computed from the ids",
    ),
    no_unknown=(
        edit(
            by_the_book,
            "both(task, examples)",
            "([[i for i in row if i != 3] for row in x] for x in both(task, examples))",
        ),
        "no UNK among the ids",
    ),
    sorted_in_place=(
        edit(
            by_the_book,
            "return Batch",
            "examples.sort(key=lambda x: -len(x.source))\n    return Batch",
        ),
        "the examples are changed",
    ),
    lengths_of_targets=(
        edit(by_the_book, "in sources", "in targets"),
        "the sources are right, the lengths are wrong",
    ),
    one_vocabulary=(
        edit(both, "task.target_vocabulary", "task.source_vocabulary"),
        "unexpected UNK among the ids",
    ),
    not_encoded=(
        edit(by_the_book, "pad(sources)", "pad([[*x.source] for x in examples])"),
        "tokens instead of ids",
    ),
    cut=(edit(both, "(example.source)", "(example.source[:512])"), LONG),
    in_lower_case=(
        edit(
            both, "encode(example.target)", "encode(t.lower() for t in example.target)"
        ),
        "unexpected UNK among the ids",
    ),
    begun_already=(
        edit(by_the_book, "[BOS, *row]", "[BOS, *row[row[:1] == [BOS] :]]"),
    ),
    ended_already=(
        edit(by_the_book, "[*row, EOS]", "[*row, *[EOS][row[-1:] == [EOS] :]]"),
    ),
    a_device_by_name=(
        edit(by_the_book, "return", "device = device.split(':')[0]; return"),
        NO_NAME,
    ),
    plain_tuple=(
        edit(by_the_book, "Batch(", "fields_of("),
        "no Batch is returned",
    ),
    stays_on_the_cpu=(edit(by_the_book, "return", "device = 'cpu'; return"), AWAY),
    lengths_sent_along=(edit(by_the_book, LENGTHS, f"{LENGTHS}.to(device)"), AWAY),
    lengths_in_a_list=(
        edit(by_the_book, LENGTHS, "[len(row) for row in sources]"),
        "lists instead of tensors",
    ),
    first_example=(
        edit(by_the_book, "both(task, examples)", "both(task, examples[:1])"),
        "wrong number of rows in the batch",
    ),
)
