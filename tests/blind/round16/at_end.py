import torch
from torch import nn
from blind import right, wrong

INPUTS = "Do not change the inputs."
SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
LAYOUT = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
PICK = "For each sentence b, pick the vector at position `lengths[b] - 1`."
DEVICES = "The lengths are on the CPU, but the vectors may be on a GPU."
PADDING = "The padding may hold any values, even NaN, and must not influence the result."
RESULT = "(B, D): x[b, lengths[b] - 1]."

_columns = {}


@right('gather along the positions with an expanded index')
def at_end(x, lengths):
    last = (lengths.to(x.device) - 1).view(-1, 1, 1).expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze(1)


@right('one boolean per position, True only at the last token; x[mask] keeps the order of the rows')
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    return x[positions == lengths.to(x.device).unsqueeze(1) - 1]


@right('where, not a product, clears everything else, and a sum of zeros and one vector remains')
def at_end(x, lengths):
    positions = torch.arange(1, x.size(1) + 1, device=x.device)
    last = positions[None, :, None] == lengths.to(x.device)[:, None, None]
    return torch.where(last, x, torch.zeros_like(x)).sum(dim=1)


@right('a Python loop over sentences and stack')
def at_end(x, lengths):
    return torch.stack([row[:n][-1] for row, n in zip(x, lengths.tolist())])


@wrong(
    'takes the last column of the batch',
    breaks=PICK,
    name='last column',
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    'multiplies by a one-hot mask; zero times NaN is NaN',
    breaks=PADDING,
    name='NaN in the padding',
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    last = positions == lengths.to(x.device)[:, None] - 1
    return (x * last[:, :, None].to(x.dtype)).sum(1)


@wrong(
    'replaces NaN by zero first, but an infinite value in the padding still gives zero times inf',
    breaks=PADDING,
    name='infinity in the padding',
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    last = positions == lengths.to(x.device)[:, None] - 1
    x = x.masked_fill(x.isnan(), 0)
    return (x * last[:, :, None].to(x.dtype)).sum(1)


@wrong(
    'all rows at all last columns: (B, B, D) instead of (B, D)',
    breaks=RESULT,
    name='every row at every end',
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    'squeeze also drops the axis of the sentences or of the width if its length is one',
    breaks=SIZES,
    name='squeeze drops an axis of length one',
)
def at_end(x, lengths):
    last = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze()


@wrong(
    'takes vectors of zeros for padding instead of using the lengths; a last token may be a zero vector, and padding may not be',
    breaks=PICK,
    name='padding guessed from the values',
)
def at_end(x, lengths):
    token = (x != 0).any(-1)
    positions = torch.arange(x.size(1), device=x.device)
    last = positions.where(token, 0).amax(1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "subtracts one from the caller's lengths in place",
    breaks=INPUTS,
    name='lengths changed in place',
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    'view merges the axes, which is an error for a transposed or sliced x',
    breaks=LAYOUT,
    name='view of a tensor that is not contiguous',
)
def at_end(x, lengths):
    start = torch.arange(x.size(0)) * x.size(1)
    rows = (start + lengths - 1).to(x.device)
    return x.view(-1, x.size(2))[rows]


@wrong(
    'computes with float32 and casts back, so float64 vectors are rounded',
    breaks=PRECISE,
    name='float64 through float32',
)
def at_end(x, lengths):
    last = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.float().gather(1, last).squeeze(1).to(x.dtype)


@wrong(
    'keeps the columns by the shape of x, so other lengths of the same shape get the old ones',
    breaks=CALLS,
    name='columns of an earlier call',
)
def at_end(x, lengths):
    columns = _columns.setdefault(tuple(x.shape), lengths.clone() - 1)
    return x[torch.arange(x.size(0)), columns]
