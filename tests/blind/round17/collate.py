import torch
from torch.nn.utils.rnn import pad_sequence

from attention_course.tasks.core import BOS, EOS, PAD
from attention_course.tasks.sequences import Batch
from blind import right, wrong

ORDER = (
    "Return `Batch(source, lengths, target_in, target_out)`, with the fields in this"
    " order."
)
ROW = (
    "Make each row from one `Example`, in the given order, and append `PAD` to the"
    " shorter rows."
)
NEITHER = "Add neither `BOS` nor `EOS` to a source."
DEVICE = "Leave them on the CPU, and move the ids to `device`."
COUNT = (
    "Count every token, even one that the vocabulary does not know and even a special"
    " token such as `<pad>`."
)
EMPTY = "A target may be empty, but a source never is."
COPIES = (
    "So we need two copies of the target: `target_in` goes into the decoder, and"
    " `target_out` should come out of it."
)
OFFSET = "The two are offset by one position:"
INPUTS = "Do not change the inputs."
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)

SEEN = {}


def padded(rows):
    size = max(len(row) for row in rows)
    rows = [[*row, *[PAD] * (size - len(row))] for row in rows]
    return torch.tensor(rows, dtype=torch.long)


def encode(task, examples):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return sources, targets


@right("fills tensors that lie on the device already, with slices, in one loop")
def collate(task, examples, device="cpu"):
    S = max(len(example.source) for example in examples)
    T = max(len(example.target) for example in examples) + 1
    source = torch.full((len(examples), S), PAD, device=device)
    target_in = torch.full((len(examples), T), PAD, device=device)
    target_out = torch.full((len(examples), T), PAD, device=device)
    lengths = torch.zeros(len(examples), dtype=torch.long)
    for b, example in enumerate(examples):
        ids = torch.tensor(task.source_vocabulary.encode(example.source))
        lengths[b] = ids.numel()
        source[b, : ids.numel()] = ids.to(device)
        ids = task.target_vocabulary.encode(example.target)
        target_in[b, 0], target_out[b, len(ids)] = BOS, EOS
        for t, i in enumerate(ids):
            target_in[b, t + 1] = target_out[b, t] = i
    return Batch(source, lengths, target_in, target_out)


@right("shifts target_out to the right, and masks the rest by the lengths of the targets")
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    target_out = padded([[*ids, EOS] for ids in targets])
    begin = target_out.new_full((len(targets), 1), BOS)
    shifted = torch.cat([begin, target_out[:, :-1]], dim=1)
    ends = torch.tensor([len(ids) for ids in targets])[:, None]
    inside = torch.arange(shifted.size(1)) <= ends
    return Batch(
        source=padded(sources).to(device),
        lengths=torch.tensor([len(ids) for ids in sources]),
        target_in=torch.where(inside, shifted, PAD).to(device),
        target_out=target_out.to(device),
    )


@right("transposes the fields with zip and pads with pad_sequence")
def collate(task, examples, device="cpu"):
    def row(example):
        ids = task.target_vocabulary.encode(example.target)
        source = task.source_vocabulary.encode(example.source)
        return source, [BOS] + ids, ids + [EOS]

    fields = [
        pad_sequence(
            [torch.tensor(ids, dtype=torch.long, device=device) for ids in column],
            batch_first=True,
            padding_value=PAD,
        )
        for column in zip(*map(row, examples))
    ]
    fields.insert(1, torch.tensor([len(example.source) for example in examples]))
    return Batch(*fields)


@right("pads [BOS, *ids, EOS] once and cuts it twice, then clears EOS at its place")
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    both = padded([[BOS, *ids, EOS] for ids in targets])
    target_in, target_out = both[:, :-1].clone(), both[:, 1:].clone()
    for row, ids in zip(target_in, targets):
        row[len(ids) + 1 :] = PAD
    lengths = torch.tensor(list(map(len, sources)))
    return Batch(
        padded(sources).to(device), lengths, target_in.to(device), target_out.to(device)
    )


@wrong(
    "gives the decoder the very tokens that it should predict",
    breaks=OFFSET,
    name="target_in is not shifted",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    target = padded([[*ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(padded(sources).to(device), lengths, target, target)


@wrong(
    "pads the targets first and appends EOS in the last column",
    breaks=ROW,
    name="EOS comes after the padding",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    ids = padded(targets)
    ends = ids.new_full((len(ids), 1), EOS)
    begins = ids.new_full((len(ids), 1), BOS)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(
        padded(sources).to(device),
        lengths,
        torch.cat([begins, ids], dim=1).to(device),
        torch.cat([ids, ends], dim=1).to(device),
    )


@wrong(
    "appends EOS to the sources and counts it",
    breaks=NEITHER,
    name="EOS at the end of a source",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    sources = [[*ids, EOS] for ids in sources]
    return Batch(
        padded(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        padded([[BOS, *ids] for ids in targets]).to(device),
        padded([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "pads [BOS, *ids, EOS] and drops the last column, so short rows keep EOS in target_in",
    breaks=ROW,
    name="EOS in the decoder's input",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    both = padded([[BOS, *ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(padded(sources).to(device), lengths, both[:, :-1], both[:, 1:])


@wrong(
    "counts the ids that are not PAD, so a token <pad> or an id 0 is not counted",
    breaks=COUNT,
    name="lengths are counted from the ids",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    source = padded(sources)
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        padded([[BOS, *ids] for ids in targets]).to(device),
        padded([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "replaces every EOS in target_in by PAD, even a token <eos> of the target",
    breaks=COPIES,
    name="a token <eos> is wiped out of target_in",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    both = padded([[BOS, *ids, EOS] for ids in targets]).to(device)
    target_in = both[:, :-1]
    lengths = torch.tensor([len(ids) for ids in sources])
    return Batch(
        padded(sources).to(device),
        lengths,
        target_in.masked_fill(target_in == EOS, PAD),
        both[:, 1:],
    )


@wrong(
    "leaves out the examples whose target is empty, unless all are",
    breaks=EMPTY,
    name="examples with an empty target are lost",
)
def collate(task, examples, device="cpu"):
    kept = [example for example in examples if example.target]
    sources, targets = encode(task, kept or examples)
    return Batch(
        padded(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        padded([[BOS, *ids] for ids in targets]).to(device),
        padded([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "takes the examples out of the caller's list with pop",
    breaks=INPUTS,
    name="the list of examples is empty afterwards",
)
def collate(task, examples, device="cpu"):
    sources, targets = [], []
    while examples:
        example = examples.pop(0)
        sources.append(task.source_vocabulary.encode(example.source))
        targets.append(task.target_vocabulary.encode(example.target))
    return Batch(
        padded(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        padded([[BOS, *ids] for ids in targets]).to(device),
        padded([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    "moves the lengths to the device too",
    breaks=DEVICE,
    name="the lengths leave the CPU",
)
def collate(task, examples, device="cpu"):
    sources, targets = encode(task, examples)
    fields = (
        padded(sources),
        torch.tensor([len(ids) for ids in sources]),
        padded([[BOS, *ids] for ids in targets]),
        padded([[*ids, EOS] for ids in targets]),
    )
    return Batch(*(field.to(device) for field in fields))


@wrong(
    "keeps the ids of each source for the next call, whatever the task",
    breaks=CALLS,
    name="ids from another task's vocabulary",
)
def collate(task, examples, device="cpu"):
    for example in examples:
        if example.source not in SEEN:
            SEEN[example.source] = task.source_vocabulary.encode(example.source)
    sources = [SEEN[example.source] for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return Batch(
        padded(sources).to(device),
        torch.tensor([len(ids) for ids in sources]),
        padded([[BOS, *ids] for ids in targets]).to(device),
        padded([[*ids, EOS] for ids in targets]).to(device),
    )
