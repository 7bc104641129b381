import torch
from torch.nn import functional as F

from blind import right, wrong


@right("boolean mask made from a one-hot of the last position")
def at_end(x, lengths):
    last = F.one_hot(lengths.long() - 1, num_classes=x.size(1)).bool()
    return x[last.to(x.device)]


@right("plain Python loop over the rows, stacked at the end")
def at_end(x, lengths):
    rows = []
    for sentence, n in zip(x.unbind(0), lengths.tolist()):
        rows.append(sentence[:n][-1])
    return torch.stack(rows, dim=0)


@right("gather along the positions")
def at_end(x, lengths):
    where = lengths.to(device=x.device, dtype=torch.int64).sub(1)
    where = where.reshape(-1, 1, 1).expand(x.size(0), 1, x.size(2))
    return torch.gather(x, 1, where).select(1, 0)


def _flat_rows(batch, positions, counts):
    return torch.tensor([b * positions + n - 1 for b, n in zip(range(batch), counts)])


@right("flatten batch and positions, select rows by their flat number")
def at_end(x, lengths):
    batch, positions, width = x.size()
    index = _flat_rows(batch, positions, lengths.tolist()).to(x.device)
    return x.reshape(batch * positions, width).index_select(0, index)


@wrong(
    "takes the last column of the batch",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "last column instead of the last token",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "takes position lengths[b], one after the last token",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "off by one",
)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "a slice instead of row numbers picks all columns from all rows, (B, B, D)",
    "(B, D): x[b, lengths[b] - 1].",
    "indexes the columns without pairing them with rows",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "weighted sum with a one-hot, in which NaN times zero is NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "multiplies the padding by zero instead of leaving it out",
)
def at_end(x, lengths):
    weights = F.one_hot(lengths.to(x.device) - 1, x.size(1)).to(x.dtype)
    return torch.einsum("bs,bsd->bd", weights, x)


@wrong(
    "squeeze without an axis also drops an axis B or D of length one",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze drops too many axes",
)
def at_end(x, lengths):
    index = (lengths.to(x.device) - 1).view(-1, 1, 1).expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong(
    "subtracts one from the caller's lengths in place",
    "Do not change the inputs.",
    "changes lengths in place",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "gather with an index that stays on the CPU",
    "The lengths are on the CPU, but the vectors may be on a GPU.",
    "index on the wrong device",
)
def at_end(x, lengths):
    index = (lengths - 1)[:, None, None].expand(-1, -1, x.size(2))
    return x.gather(1, index)[:, 0]


@wrong(
    "lengths.to(x) also casts the lengths to the dtype of x, so that positions above 256"
    " are rounded in bfloat16",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in a floating dtype of low precision",
)
def at_end(x, lengths):
    last = (lengths.to(x) - 1).long()
    # rounding must not lead out of the batch
    last = last.clamp(max=x.size(1) - 1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "removes NaN before the one-hot product, but an infinity in the padding still gives"
    " NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "infinite padding times zero",
)
def at_end(x, lengths):
    clean = torch.where(x.isnan(), torch.zeros_like(x), x)
    weights = F.one_hot(lengths.to(x.device) - 1, x.size(1)).to(x.dtype)
    return (weights[:, None, :] @ clean)[:, 0]


_offsets = {}


@wrong(
    "remembers where each row begins by B alone, so a later batch with another S reads"
    " with the old S",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "stale cache from an earlier call",
)
def at_end(x, lengths):
    size = x.size(0)
    if size not in _offsets:
        _offsets[size] = torch.arange(size) * x.size(1)
    index = (_offsets[size] + lengths - 1).to(x.device)
    return x.reshape(-1, x.size(2))[index]
