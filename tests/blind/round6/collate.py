import torch
from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch
from blind import bugs


def make(bug):
    def pad(rows):
        longest = max(map(len, rows))
        return torch.tensor(
            [row + [PAD] * (longest - len(row)) for row in rows], dtype=torch.long
        ).reshape(len(rows), longest)

    def collate(task, examples, device="cpu"):
        if bug == "sorts the examples":
            examples.sort(key=lambda e: -len(e.source))
        if bug == "longest first":
            examples = sorted(examples, key=lambda e: -len(e.source))
        encode_source = task.source_vocabulary.encode
        encode_target = task.target_vocabulary.encode
        if bug == "one vocabulary for both":
            encode_target = encode_source
        source = [list(encode_source(e.source)) for e in examples]
        target = [list(encode_target(e.target)) for e in examples]
        if bug == "unknown left out":
            source = [[i for i in row if i != UNK] for row in source]
        if bug == "special tokens left out":
            source = [[i for i in row if i > UNK] or row for row in source]
        if bug == "EOS ends a target":
            target = [row[: row.index(EOS)] if EOS in row else row for row in target]
        if bug == "source ends with EOS":
            source = [row + [EOS] for row in source]
        lengths = torch.tensor([len(row) for row in source])
        if bug == "lengths counted from the ids":
            lengths = (pad(source) != PAD).sum(-1)
        if bug == "lengths of the targets":
            lengths = torch.tensor([len(row) + 1 for row in target])
        if bug == "lengths on the device":
            lengths = lengths.to(device)
        given, wanted = [[BOS, *r] for r in target], [[*r, EOS] for r in target]
        if bug == "EOS in both":
            given = [[BOS, *r, EOS] for r in target]
            wanted = [[*r, EOS, PAD] for r in target]
        if bug == "shifted the wrong way":
            given, wanted = wanted, given
        source, given, wanted = map(pad, (source, given, wanted))
        if bug == "EOS after the padding":
            wanted = torch.cat([pad(target), torch.full((len(target), 1), EOS)], 1)
        if bug == "target stays on the CPU":
            return Batch(source.to(device), lengths, given, wanted)
        return Batch(source.to(device), lengths, given.to(device), wanted.to(device))

    return collate


COUNTS = "A token that the vocabulary does not know counts, and so does one of the four special ones, even `<pad>`"
bugs(
    make,
    {
        "sorts the examples": "examples: a list, which stays as it is",
        "longest first": "Each row comes from one `Example`",
        "one vocabulary for both": "which holds both vocabularies",
        "unknown left out": COUNTS,
        "special tokens left out": COUNTS,
        "EOS ends a target": COUNTS,
        "source ends with EOS": "Sources get neither `BOS` nor `EOS`.",
        "lengths counted from the ids": COUNTS,
        "lengths of the targets": "The lengths count the tokens of each source",
        "lengths on the device": "they stay on the CPU, while the ids go to `device`",
        "EOS in both": "`target_in`: <bos> quatre - vingt",
        "shifted the wrong way": "`target_in`: <bos> quatre - vingt",
        "EOS after the padding": "`target_out`: quatre - vingt <eos>, filled up at its end",
        "target stays on the CPU": "the ids go to `device`",
    },
)
