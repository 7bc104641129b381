import torch
from torch import nn

from blind import right, wrong

PICK = "For each sentence it picks the vector at position `lengths[b] - 1`."
NONE = "The padding may hold anything, even NaN, and none of it may get into the result."
RETURN = "(B, D): x[b, lengths[b] - 1]."
SAME = "Leave what you are handed unchanged."
DTYPE = "What you return has the dtype of the vectors or parameters that it is made from, and is on their device."


@right("gather along the positions")
def at_end(x, lengths):
    where = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, where)[:, 0]


@right("a loop that fills a new tensor")
def at_end(x, lengths):
    out = x.new_empty(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        out[b] = x[b, n - 1]
    return out


@right("rows of the flattened batch")
def at_end(x, lengths):
    B, S, D = x.shape
    rows = torch.arange(B) * S + lengths - 1
    return x.reshape(B * S, D).index_select(0, rows.to(x.device))


@right("all but the end set to zero by where, then summed")
def at_end(x, lengths):
    ends = torch.arange(x.size(1), device=x.device) == (lengths.to(x.device) - 1)[:, None]
    return torch.where(ends[..., None], x, x.new_zeros(())).sum(1)


@wrong("the last column", breaks=PICK, name="last column in place of the last token")
def at_end(x, lengths):
    return x[:, -1]


@wrong("lengths in place of lengths - 1", breaks=PICK, name="off by one")
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.clamp(max=x.size(1) - 1)]


@wrong("every row with every column", breaks=RETURN, name="columns not paired with rows")
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong("a product with zeros and ones", breaks=NONE, name="zero times NaN", subtle=True)
def at_end(x, lengths):
    ends = torch.arange(x.size(1)) == lengths[:, None] - 1
    return torch.einsum("bs,bsd->bd", ends.to(x), x)


@wrong("lengths lowered in place", breaks=SAME, name="input changed", subtle=True)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong("gather, then squeeze of all axes", breaks=RETURN, name="axes of length one lost", subtle=True)
def at_end(x, lengths):
    where = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, where).squeeze()


@wrong("the last vector that is not zero", breaks=NONE, name="padding guessed from its content", subtle=True)
def at_end(x, lengths):
    there = (x != 0).any(-1)
    last = (there * torch.arange(x.size(1), device=x.device)).amax(1)
    return x[torch.arange(x.size(0)), last]


@wrong("filled into a tensor of the default dtype", breaks=DTYPE, name="dtype and device lost", subtle=True)
def at_end(x, lengths):
    out = torch.empty(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        out[b] = x[b, n - 1]
    return out


@wrong("sorted by length, as packing does it, and left so", breaks=PICK, name="sentences in another order", subtle=True)
def at_end(x, lengths):
    ordered, order = lengths.sort(descending=True, stable=True)
    return x[order, ordered - 1]


@wrong("sentences are cut at 100 tokens", breaks=RETURN, name="a constant for the length", subtle=True)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.clamp(max=100) - 1]
