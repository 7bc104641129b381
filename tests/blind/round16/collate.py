import torch
import torch.nn.functional as F
from torch import nn
from attention_course.tasks.core import BOS, EOS, PAD, UNK
from attention_course.tasks.sequences import Batch
from blind import right, wrong

INPUTS = "Do not change the inputs."
FIELDS = "Return `Batch(source, lengths, target_in, target_out)`, with the fields in this order."
ROWS = "Make each row from one `Example`, in the given order, and append `PAD` to the shorter rows."
SOURCE = "Add neither `BOS` nor `EOS` to a source."
NUMBERS = "The lengths are the numbers of tokens in the sources."
CPU = "Leave them on the CPU, and move the ids to `device`."
COUNT = "Count every token, even one that the vocabulary does not know and even a special token such as `<pad>`."
EMPTY = "A target may be empty, but a source never is."
OFFSET = "The two are offset by one position:"

_vocabularies = {}


def pad(rows):
    width = max(len(row) for row in rows)
    return torch.tensor(
        [[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.long
    )


def _ids(task, examples):
    sources = [task.source_vocabulary.encode(example.source) for example in examples]
    targets = [task.target_vocabulary.encode(example.target) for example in examples]
    return sources, targets


@right('builds the two targets from one padded tensor: a column of BOS in front, EOS scattered behind the last token')
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    ids = pad(targets)
    ends = torch.tensor([[len(row)] for row in targets])
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        F.pad(ids, (1, 0), value=BOS).to(device),
        F.pad(ids, (0, 1), value=PAD).scatter(1, ends, EOS).to(device),
    )


@right('rolls target_in to the left, clears the column that came around, and writes EOS at each end')
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    target_in = pad([[BOS] + list(ids) for ids in targets])
    target_out = target_in.roll(-1, dims=1)
    target_out[:, -1] = PAD
    for b, ids in enumerate(targets):
        target_out[b, len(ids)] = EOS
    lengths = torch.tensor([*map(len, sources)], dtype=torch.long)
    return Batch(
        pad(sources).to(device), lengths, target_in.to(device), target_out.to(device)
    )


@right('pad_sequence on tensors, one example at a time')
def collate(task, examples, device="cpu"):
    def together(rows):
        tensors = [torch.tensor(row, dtype=torch.long, device=device) for row in rows]
        return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)

    triples = []
    for example in examples:
        y = list(task.target_vocabulary.encode(example.target))
        x = list(task.source_vocabulary.encode(example.source))
        triples.append((x, [BOS, *y], [*y, EOS]))
    source, target_in, target_out = map(together, zip(*triples))
    return Batch(
        source, torch.tensor([len(x) for x, _, _ in triples]), target_in, target_out
    )


@right('pads BOS ... EOS once and takes two slices; the EOS that is left in target_in is removed by its position')
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    whole = pad([[BOS, *ids, EOS] for ids in targets])
    sizes = torch.tensor([len(ids) for ids in targets])
    columns = torch.arange(whole.size(1) - 1)
    target_in = whole[:, :-1].where(columns <= sizes[:, None], PAD)
    lengths = torch.tensor([len(example.source) for example in examples])
    source = pad(sources)
    return Batch(*(
        source.to(device), lengths, target_in.to(device), whole[:, 1:].to(device)
    ))


@wrong(
    'pads the targets first, so BOS and EOS stand around the padding',
    breaks=ROWS,
    name='EOS after the padding',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    ids = pad(targets)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        F.pad(ids, (1, 0), value=BOS).to(device),
        F.pad(ids, (0, 1), value=EOS).to(device),
    )


@wrong(
    'cuts BOS ... EOS to [:, :-1], which leaves EOS in target_in in all rows but the longest',
    breaks=ROWS,
    name='EOS left in target_in',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    whole = pad([[BOS, *ids, EOS] for ids in targets]).to(device)
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(pad(sources).to(device), lengths, whole[:, :-1], whole[:, 1:])


@wrong(
    'counts the ids that are not PAD, so the token <pad> of a source is not counted',
    breaks=COUNT,
    name='length from the ids',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    source = pad(sources)
    return Batch(
        source.to(device),
        (source != PAD).sum(1),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'leaves the unknown tokens out of the length',
    breaks=COUNT,
    name='unknown tokens not counted',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([sum(i != UNK for i in row) or 1 for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'sorts the examples by the length of their source, as packing once needed it',
    breaks=ROWS,
    name='examples in a different order',
)
def collate(task, examples, device="cpu"):
    examples = sorted(examples, key=lambda example: len(example.source), reverse=True)
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'moves the lengths to the device, too (any device but the CPU)',
    breaks=CPU,
    name='lengths on the device',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources], device=device),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'gives the source an EOS, and its length counts it',
    breaks=SOURCE,
    name='EOS in the source',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    sources = [[*row, EOS] for row in sources]
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'leaves out examples with an empty target, unless all are empty',
    breaks=EMPTY,
    name='empty targets left out',
)
def collate(task, examples, device="cpu"):
    examples = [example for example in examples if example.target] or examples
    sources, targets = _ids(task, examples)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )


@wrong(
    'writes EOS at the first PAD of a row, so a token <pad> within a target is overwritten',
    breaks=COUNT,
    name='first PAD taken for the end',
)
def collate(task, examples, device="cpu"):
    sources, targets = _ids(task, examples)
    target_out = pad([[*ids, PAD] for ids in targets])
    first = (target_out == PAD).long().argmax(1, keepdim=True)
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        target_out.scatter(1, first, EOS).to(device),
    )


@wrong(
    "takes the examples out of the caller's list until it is empty",
    breaks=INPUTS,
    name='list of examples used up',
)
def collate(task, examples, device="cpu"):
    sources, targets = [], []
    while examples:
        example = examples.pop(0)
        sources.append(task.source_vocabulary.encode(example.source))
        targets.append(task.target_vocabulary.encode(example.target))
    return Batch(
        pad(sources).to(device),
        torch.tensor([len(row) for row in sources]),
        pad([[BOS, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS] for ids in targets]).to(device),
    )
