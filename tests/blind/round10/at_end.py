import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong


@right('loops over the sentences and stacks the picked vectors')
def at_end(x, lengths):
    return torch.stack([sentence[n - 1] for sentence, n in zip(x, lengths.tolist())])


@right('gather with an index that is expanded over the width')
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.shape[2])
    return x.gather(1, index)[:, 0]


@right('selects with a boolean mask, which is True once in each row')
def at_end(x, lengths):
    columns = torch.arange(x.shape[1])[None, :]
    last = columns.eq(lengths[:, None] - 1)
    return x[last.to(x.device)]


@right('index_select in the batch flattened to B * S vectors')
def at_end(x, lengths):
    B, S, D = x.shape
    rows = torch.arange(0, B * S, S)
    where = (rows + lengths.long() - 1).to(x.device)
    return x.reshape(B * S, D).index_select(0, where)


@wrong(
    'takes the last column; wrong for every sentence that is shorter than the batch',
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'takes the last column',
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    'takes the vector after the last token: padding, or an IndexError for the longest sentence',
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'off by one, forgot to subtract one',
)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.to(x.device)]


@wrong(
    "a slice instead of row numbers: (B, B, D), every sentence at everybody's length",
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'slice for the rows, result is (B, B, D)',
)
def at_end(x, lengths):
    return x[:, lengths.to(x.device) - 1]


@wrong(
    'product with a one-hot mask: NaN or infinity in the padding times 0 is NaN',
    'The padding may hold any values, even NaN, and must not influence the result.',
    'multiplies the padding by zero, NaN survives',
)
def at_end(x, lengths):
    pick = F.one_hot(lengths - 1, x.size(1)).to(x)
    return (pick[:, :, None] * x).sum(dim=1)


@wrong(
    "subtracts one in place, so the caller's lengths are changed",
    'Do not change the inputs.',
    'changes lengths in place',
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths.to(x.device)]


@wrong(
    'squeeze() without an axis: with one sentence or width one the result loses an axis',
    'Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.',
    'squeezes axes of length one away',
)
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, -1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong(
    'the result is filled into torch.zeros: float32 on the CPU for bfloat16, float64 or GPU vectors',
    'The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.',
    'result always float32 on the CPU',
)
def at_end(x, lengths):
    result = torch.zeros(x.size(0), x.size(2))
    for b, n in enumerate(lengths):
        result[b] = x[b, n - 1]
    return result


@wrong(
    'compares positions in the dtype of x: in bfloat16 positions from 256 on coincide, so long sentences give the sum or another token',
    'For each sentence b, pick the vector at position `lengths[b] - 1`.',
    'compares positions in low precision',
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device, dtype=x.dtype)
    last = (lengths - 1).to(x.device, x.dtype)
    hit = positions[None, :] == last[:, None]
    return x.masked_fill(~hit[:, :, None], 0).sum(dim=1)


@wrong(
    'replaces only NaN by zero before the one-hot product: infinite padding gives inf * 0 = NaN',
    'The padding may hold any values, even NaN, and must not influence the result.',
    'cleans NaN but not infinity',
)
def at_end(x, lengths):
    clean = torch.where(x.isnan(), torch.zeros_like(x), x)
    pick = F.one_hot(lengths - 1, x.size(1)).to(x)
    return torch.einsum("bs,bsd->bd", pick, clean)


_index = {}


@wrong(
    "keeps the index for each shape: a second batch of the same shape with other lengths gets the vectors of the first one's lengths",
    'The result of a call must not depend on earlier calls or on other objects of the same class.',
    'caches the index by shape',
)
def at_end(x, lengths):
    key = (tuple(x.shape), x.device)
    if key not in _index:
        _index[key] = (torch.arange(x.size(0), device=x.device), lengths.to(x.device) - 1)
    return x[_index[key]]
