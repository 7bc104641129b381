import torch
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example
from blind import right, wrong


def pad(rows):
    longest = max(len(row) for row in rows)
    padded = [[*row, *[PAD] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest)


@right("fills four tensors cell by cell in a loop, without pad")
def collate(task, examples, device="cpu"):
    lengths = torch.tensor([len(example.source) for example in examples])
    steps = 1 + max(len(example.target) for example in examples)
    source = torch.full((len(examples), int(lengths.max())), PAD)
    target_in = torch.full((len(examples), steps), PAD)
    target_out = target_in.clone()
    for b, example in enumerate(examples):
        target_in[b, 0] = BOS
        for s, i in enumerate(task.source_vocabulary.encode(example.source)):
            source[b, s] = i
        t = 0
        for i in task.target_vocabulary.encode(example.target):
            target_out[b, t] = i
            target_in[b, t + 1] = i
            t += 1
        target_out[b, t] = EOS
    source, target_in, target_out = (
        x.to(device) for x in (source, target_in, target_out)
    )
    return Batch(source, lengths, target_in, target_out)


@right("one padded rectangle of BOS, target and EOS; EOS is taken out of target_in by its place")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    whole = pad([[BOS, *target, EOS] for target in targets])
    target_in, target_out = whole[:, :-1].clone(), whole[:, 1:].clone()
    for b, target in enumerate(targets):
        target_in[b, len(target) + 1 :] = PAD
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources], dtype=torch.long),
        target_in.to(device),
        target_out.to(device),
    )


@right("pad_sequence of torch on rows that are tensors already")
def collate(task, examples, device="cpu"):
    def rectangle(rows):
        rows = [torch.tensor(row, dtype=torch.long, device=device) for row in rows]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)

    sources, before, after = [], [], []
    for example in examples:
        sources.append(task.source_vocabulary.encode(example.source))
        target = task.target_vocabulary.encode(example.target)
        before.append([BOS] + target)
        after.append(target + [EOS])
    return Batch(
        rectangle(sources),
        torch.tensor(list(map(len, sources))),
        rectangle(before),
        rectangle(after),
    )


@right("encodes all tokens in one call and cuts the ids apart with torch.split")
def collate(task, examples, device="cpu"):
    def rows(vocabulary, sentences):
        flat = vocabulary.encode([token for s in sentences for token in s])
        sizes = [len(s) for s in sentences]
        pieces = torch.tensor(flat, dtype=torch.long).split(sizes)
        return [piece.tolist() for piece in pieces], sizes

    sources, lengths = rows(task.source_vocabulary, [e.source for e in examples])
    targets, _ = rows(task.target_vocabulary, [e.target for e in examples])
    ids = [sources, [[BOS, *t] for t in targets], [[*t, EOS] for t in targets]]
    source, target_in, target_out = (pad(x).to(device) for x in ids)
    return Batch(source, torch.tensor(lengths), target_in, target_out)


@wrong(
    "appends EOS after padding: shorter targets have their EOS behind the padding",
    "and is filled up with `PAD` at its end.",
    "padded before EOS was appended",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = pad([task.target_vocabulary.encode(e.target) for e in examples])
    edge = torch.ones(len(examples), 1, dtype=torch.long)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        torch.cat([edge * BOS, targets], dim=1).to(device),
        torch.cat([targets, edge * EOS], dim=1).to(device),
    )


@wrong(
    "gives the sources BOS and EOS as well; source and lengths are two too long",
    "Sources get neither `BOS` nor `EOS`.",
    "sources get BOS and EOS",
)
def collate(task, examples, device="cpu"):
    sources = [[BOS, *task.source_vocabulary.encode(e.source), EOS] for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "encodes the targets with the vocabulary of the sources: most words become UNK or another id",
    "The function will be a method of a task: its first argument is the task, which holds both vocabularies.",
    "targets encoded with the source vocabulary",
)
def collate(task, examples, device="cpu"):
    encode = task.source_vocabulary.encode
    sources = [encode(e.source) for e in examples]
    targets = [encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "counts the ids that are not PAD: a source with the token '<pad>' is said to be shorter than it is",
    "A token that the vocabulary does not know counts, and so does one of the four special ones, even `<pad>`, if it occurs in a source or target.",
    "a <pad> token in a source is not counted",
)
def collate(task, examples, device="cpu"):
    source = pad([task.source_vocabulary.encode(e.source) for e in examples])
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "sends the lengths to the device as well, visible with device='meta' or 'cuda'",
    "The lengths count the tokens of each source; they stay on the CPU, while the ids go to `device`.",
    "lengths moved to the device",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources], device=device),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "leaves out the examples with an empty target: the batch has fewer rows",
    "A target may be empty, but a source never is.",
    "examples with empty targets are dropped",
)
def collate(task, examples, device="cpu"):
    examples = [e for e in examples if e.source and e.target]
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "sorts the caller's list by length, longest first, as recurrent networks once wanted it",
    "examples: a list, which stays as it is; each has `source` and `target`,",
    "sorts the caller's list of examples",
)
def collate(task, examples, device="cpu"):
    examples.sort(key=lambda example: len(example.source), reverse=True)
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *target] for target in targets]).to(device),
        pad([[*target, EOS] for target in targets]).to(device),
    )


@wrong(
    "one rectangle cut twice: target_in of every shorter target has EOS where padding should be",
    "Each row comes from one `Example`, which has the fields `source` and `target` (tuples of tokens), and is filled up with `PAD` at its end.",
    "EOS left in target_in of shorter rows",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    whole = pad([[BOS, *target, EOS] for target in targets]).to(device)
    lengths = torch.tensor([len(source) for source in sources])
    return Batch(pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])


@wrong(
    "one rectangle cut twice, and every EOS in target_in becomes PAD: a token '<eos>' of a target is wiped out as well",
    "A token that the vocabulary does not know counts, and so does one of the four special ones, even `<pad>`, if it occurs in a source or target.",
    "a target's own <eos> token is overwritten",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    whole = pad([[BOS, *target, EOS] for target in targets]).to(device)
    target_in = whole[:, :-1].masked_fill(whole[:, :-1] == EOS, PAD)
    lengths = torch.tensor([len(source) for source in sources])
    return Batch(pad(sources).to(device), lengths, target_in, whole[:, 1:])


@wrong(
    "finds the place of EOS by counting ids that are not PAD: with a '<pad>' in a target, EOS overwrites its last token",
    "A token that the vocabulary does not know counts, and so does one of the four special ones, even `<pad>`, if it occurs in a source or target.",
    "a <pad> token in a target displaces EOS",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    target_in = pad([[BOS, *target] for target in targets])
    target_out = torch.full_like(target_in, PAD)
    target_out[:, :-1] = target_in[:, 1:]
    ends = (target_out != PAD).sum(1)
    target_out[torch.arange(len(examples)), ends] = EOS
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        target_in.to(device),
        target_out.to(device),
    )
