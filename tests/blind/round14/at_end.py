"""Answers to `at_end`."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from blind import right, wrong


@right('gather with an index that is expanded over the last axis')
def at_end_right1(x, lengths):
    last = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return torch.gather(x, 1, last).squeeze(1)


@right('a Python loop over the sentences')
def at_end_right2(x, lengths):
    return torch.stack([sentence[n - 1] for sentence, n in zip(x.unbind(0), lengths.tolist())])


@right('numbers all vectors of the batch from 0 and selects by these numbers')
def at_end_right3(x, lengths):
    first = torch.arange(0, x.size(0) * x.size(1), x.size(1))
    return x.flatten(0, 1).index_select(0, (first + lengths - 1).to(x.device))


@right('replaces all other vectors by zeros with where and adds up')
def at_end_right4(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    chosen = positions == lengths.to(x.device)[:, None] - 1
    return torch.where(chosen[..., None], x, x.new_zeros(())).sum(1, dtype=x.dtype)


@wrong(
    'Takes the last column.',
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'last column taken',
)
def at_end_wrong1(x, lengths):
    return x[:, -1]


@wrong(
    'Forgets that positions count from 0, and takes the vector behind the last token.',
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'off by one position',
)
def at_end_wrong2(x, lengths):
    return x[torch.arange(x.size(0)), lengths.clamp(max=x.size(1) - 1)]


@wrong(
    'Indexes the columns for all rows, which gives a vector for each pair of sentences.',
    '(B, D): x[b, lengths[b] - 1].',
    'indexes without row numbers',
)
def at_end_wrong3(x, lengths):
    return x[:, lengths - 1]


@wrong(
    'Copies into a tensor of the default dtype on the CPU.',
    'The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.',
    'result has default dtype',
)
def at_end_wrong4(x, lengths):
    result = torch.zeros(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        result[b] = x[b, n - 1]
    return result


@wrong(
    'Multiplies by ones and zeros and adds up, so NaN in the padding reaches the result.',
    'The padding may hold any values, even NaN, and must not influence the result.',
    'NaN times zero',
)
def at_end_wrong5(x, lengths):
    chosen = torch.arange(x.size(1)) == lengths[:, None] - 1
    return (x * chosen.to(x)[..., None]).sum(1)


@wrong(
    'Calls gather with an index on the CPU, which fails for vectors on a GPU.',
    'The lengths are on the CPU, but the vectors may be on a GPU.',
    'index stays on the CPU',
)
def at_end_wrong6(x, lengths):
    last = (lengths - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last)[:, 0]


@wrong(
    'Converts the lengths to the dtype of the vectors, and bfloat16 cannot hold every position above 256.',
    'Positions and counts must be exact in every dtype.',
    'positions in low precision',
)
def at_end_wrong7(x, lengths):
    last = lengths.to(x) - 1
    return x[torch.arange(x.size(0), device=x.device), last.long()]


@wrong(
    'Takes the last column if all sentences are equally long, although the batch may be padded further.',
    'A batch may be padded to more positions than its longest sentence has tokens.',
    'shortcut for equal lengths',
)
def at_end_wrong8(x, lengths):
    if (lengths == lengths[0]).all():
        return x[:, -1]
    return x[torch.arange(x.size(0)), lengths - 1]


@wrong(
    'Packs the batch, which sorts the sentences by length, and does not put the result back into the order of the batch.',
    '(B, D): x[b, lengths[b] - 1].',
    'sentences stay sorted by length',
)
def at_end_wrong9(x, lengths):
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    starts = packed.batch_sizes.cumsum(0) - packed.batch_sizes
    ordered = lengths[packed.sorted_indices.cpu()]
    rows = starts[ordered - 1] + torch.arange(len(lengths))
    return packed.data[rows.to(x.device)]


@wrong(
    "Writes zeros over the caller's padding, to be safe from NaN.",
    'Do not change the inputs.',
    'padding of the input overwritten',
)
def at_end_wrong10(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    ends = lengths.to(x.device)[:, None] - 1
    x.data[positions > ends] = 0
    return (x * (positions == ends).to(x.dtype)[..., None]).sum(1)
