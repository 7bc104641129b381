import torch
import torch.nn.functional as F
from torch import nn

from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, UNK
from attention_course.tasks.sequences import Batch, Example

from blind import right, wrong


def pad(rows):
    """Append PAD to rows of ids: a tensor (B, T) of whole numbers (`torch.long`)."""
    longest = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (longest - len(row))] for row in rows], dtype=torch.long
    )


@right("pads with pad_sequence, and builds the target rows with F.pad")
def collate(task, examples, device="cpu"):
    def ids(vocabulary, tokens):
        return torch.tensor(vocabulary.encode(tokens), dtype=torch.long)

    def stacked(rows):
        rows = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        return rows.to(device)

    sources = [ids(task.source_vocabulary, example.source) for example in examples]
    targets = [ids(task.target_vocabulary, example.target) for example in examples]
    lengths = torch.tensor([source.numel() for source in sources], dtype=torch.long)
    return Batch(
        stacked(sources),
        lengths,
        stacked([F.pad(target, (1, 0), value=BOS) for target in targets]),
        stacked([F.pad(target, (0, 1), value=EOS) for target in targets]),
    )


@right("one table with both ends per target; PAD replaces the EOS of the input by length")
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    whole = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples])
    ends = torch.tensor([1 + len(e.target) for e in examples])
    target_in = whole[:, :-1].clone()
    target_in[torch.arange(target_in.size(1)) >= ends[:, None]] = PAD
    return Batch(
        source=pad(sources).to(device),
        lengths=torch.tensor(list(map(len, sources))),
        target_in=target_in.to(device),
        target_out=whole[:, 1:].to(device),
    )


@right("fills tensors that begin as PAD, token by token")
def collate(task, examples, device="cpu"):
    count = len(examples)
    lengths = torch.tensor([len(example.source) for example in examples])
    width = 1 + max(len(example.target) for example in examples)
    source = torch.full((count, int(lengths.max())), PAD)
    target_in = torch.full((count, width), PAD)
    target_out = torch.full((count, width), PAD)
    for b, example in enumerate(examples):
        for s, i in enumerate(task.source_vocabulary.encode(example.source)):
            source[b, s] = i
        target_in[b, 0] = BOS
        t = -1
        for t, i in enumerate(task.target_vocabulary.encode(example.target)):
            target_in[b, t + 1] = target_out[b, t] = i
        target_out[b, t + 1] = EOS
    return Batch(source.to(device), lengths, target_in.to(device), target_out.to(device))


@right("a generator of triples, transposed with zip; tuples instead of lists")
def collate(task, examples, device="cpu", *, begin=(BOS,), end=(EOS,)):
    def rows():
        for example in examples:
            target = tuple(task.target_vocabulary.encode(example.target))
            source = tuple(task.source_vocabulary.encode(example.source))
            yield source, begin + target, target + end

    columns = list(zip(*rows()))
    source, target_in, target_out = (pad(column).to(device) for column in columns)
    return Batch(source, torch.LongTensor([len(x) for x in columns[0]]), target_in, target_out)


@wrong(
    "the sources get BOS and EOS too (and are counted with them)",
    "- Add neither `BOS` nor `EOS` to a source.",
    "BOS and EOS are added to the sources",
)
def collate(task, examples, device="cpu"):
    sources = [[BOS, *task.source_vocabulary.encode(e.source), EOS] for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "pads first and appends EOS afterwards: in shorter rows EOS stands behind the padding",
    "- Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "EOS comes after the padding",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = pad([task.target_vocabulary.encode(e.target) for e in examples])
    begin = torch.full((len(examples), 1), BOS)
    end = torch.full((len(examples), 1), EOS)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        torch.cat([begin, targets], dim=1).to(device),
        torch.cat([targets, end], dim=1).to(device),
    )


@wrong(
    "one padded tensor [BOS, ids, EOS], cut at both ends: in shorter rows target_in also"
    " holds EOS, where PAD belongs",
    "- Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "target_in of shorter rows contains EOS",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    both = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples])
    both = both.to(device)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        both[:, :-1],
        both[:, 1:],
    )


@wrong(
    "counts the ids that are not PAD: a source that contains the token '<pad>' gets too"
    " small a length",
    "- Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`.",
    "lengths do not count a token <pad>",
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
    "moves the lengths too: with another device they are no longer on the CPU",
    "Leave them on the CPU, and move the ids to `device`.",
    "lengths are moved to the device",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    fields = (
        pad(sources),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *ids] for ids in targets]),
        pad([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(field.to(device) for field in fields))


@wrong(
    "leaves out examples without a target, so the batch has fewer rows than examples",
    "A target may be empty, but a source never is.",
    "examples with an empty target are dropped",
)
def collate(task, examples, device="cpu"):
    pairs = [
        (task.source_vocabulary.encode(e.source), task.target_vocabulary.encode(e.target))
        for e in examples
    ]
    pairs = [(source, target) for source, target in pairs if source and target] or pairs
    return Batch(
        pad([source for source, _ in pairs]).to(device),
        torch.tensor([len(source) for source, _ in pairs]),
        pad([[BOS, *target] for _, target in pairs]).to(device),
        pad([[*target, EOS] for _, target in pairs]).to(device),
    )


@wrong(
    "shifts target_out by torch.roll and sets the first column: if all targets are of one"
    " length it is right, otherwise the EOS of a shorter row stays in target_in",
    "So we need two copies of the target: `target_in` goes into the decoder, and"
    " `target_out` should come out of it.",
    "rolling leaves EOS in shorter inputs",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    target_out = pad([[*task.target_vocabulary.encode(e.target), EOS] for e in examples])
    target_in = target_out.roll(1, dims=1)
    target_in[:, 0] = BOS
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        target_in.to(device),
        target_out.to(device),
    )


@wrong(
    "replaces every EOS in the shifted input by PAD: right, unless a target contains the"
    " token '<eos>' itself, which is lost",
    "The two are offset by one position:",
    "a token <eos> of the target becomes PAD",
)
def collate(task, examples, device="cpu"):
    sources = [task.source_vocabulary.encode(e.source) for e in examples]
    both = pad([[BOS, *task.target_vocabulary.encode(e.target), EOS] for e in examples])
    target_in, target_out = both[:, :-1], both[:, 1:]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        target_in.where(target_in != EOS, PAD).to(device),
        target_out.to(device),
    )


@wrong(
    "sorts the sources by length, longest first, as packed sequences need it, but not the"
    " targets: rows belong together only if the examples are sorted already",
    "- Make each row from one `Example`, and append `PAD` to the shorter rows.",
    "sources are sorted, targets are not",
)
def collate(task, examples, device="cpu"):
    ordered = sorted(examples, key=lambda e: len(e.source), reverse=True)
    sources = [task.source_vocabulary.encode(e.source) for e in ordered]
    targets = [task.target_vocabulary.encode(e.target) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "encodes the targets with the source vocabulary: right as long as both vocabularies"
    " happen to hold the same tokens",
    "The task holds both vocabularies.",
    "one vocabulary is used for both languages",
)
def collate(task, examples, device="cpu"):
    encode = task.source_vocabulary.encode
    targets = [encode(e.target) for e in examples]
    sources = [encode(e.source) for e in examples]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(source) for source in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )
