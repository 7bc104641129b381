import torch
from torch import nn

from attention_course.masks import padding_mask
from blind import right, wrong


@right("a loop over the sentences that fills a new tensor row by row")
def at_end_loop(x, lengths):
    out = x.new_empty(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        out[b] = x[b, n - 1]
    return out


@right("a boolean mask with one True per sentence: selection keeps the order")
def at_end_boolean(x, lengths):
    positions = torch.arange(1, x.size(1) + 1, device=x.device)
    return x[positions == lengths.to(x.device)[:, None]]


@right("walk over the positions and keep what was there unless the sentence is over")
def at_end_walk(x, lengths):
    left = lengths.to(x.device).unsqueeze(-1)
    kept = x[:, 0]
    for s in range(1, x.shape[1]):
        kept = torch.where(left > s, x[:, s], kept)
    return kept.clone()


@right("one long list of vectors, with the place of each sentence's first one added")
def at_end_flat(x, lengths):
    b, s, d = x.shape
    first = torch.arange(b) * s
    return x.reshape(b * s, d).index_select(0, (first + lengths - 1).to(x.device))


@wrong(
    "one-hot weights over the positions, and a weighted sum",
    breaks="The padding may hold anything, even NaN, and none of it may get into the"
    " result.",
    name="zero times NaN is NaN",
    subtle=True,
)
def at_end_one_hot(x, lengths):
    weights = nn.functional.one_hot(lengths - 1, x.size(1)).to(x)
    return torch.einsum("bs,bsd->bd", weights, x)


@wrong(
    "gathers with an index that stays on the CPU",
    breaks="The lengths are on the CPU, as always in this course; the vectors may be on"
    " a GPU.",
    name="index on the wrong device",
    subtle=True,
)
def at_end_gather_cpu(x, lengths):
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, x.size(-1))
    return x.gather(1, index)[:, 0]


@wrong(
    "turns the lengths into indices in place",
    breaks="Leave what you are handed unchanged.",
    name="lengths changed in place",
    subtle=True,
)
def at_end_minus_equals(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "a flat index whose stride is the longest length, not the padded size",
    breaks="A batch may be padded to more positions than its longest sentence has"
    " tokens.",
    name="takes the longest sentence for the width of the batch",
    subtle=True,
)
def at_end_stride(x, lengths):
    longest = int(lengths.max())
    flat = x.reshape(-1, x.size(-1))
    return flat[torch.arange(x.size(0)) * longest + lengths - 1]


@wrong(
    "packs the batch, unpacks the last states, and leaves them sorted by length",
    breaks="For each sentence it picks the vector at position `lengths[b] - 1`.",
    name="sorted by length and never put back",
    subtle=True,
)
def at_end_sorted(x, lengths):
    lengths, order = lengths.sort(descending=True, stable=True)
    x = x[order.to(x.device)]
    return x[torch.arange(x.size(0)), lengths - 1]


@wrong(
    "fills torch.zeros(B, D) row by row",
    breaks="What you return has the dtype of the vectors or parameters that it is made"
    " from, and is on their device.",
    name="torch.zeros has a dtype and a device of its own",
    subtle=True,
)
def at_end_zeros(x, lengths):
    out = torch.zeros(x.size(0), x.size(2))
    for b in range(x.size(0)):
        out[b] = x[b, lengths[b] - 1]
    return out


@wrong(
    "takes the last vector that is not all zeros, without looking at the lengths",
    breaks="The padding may hold anything, even NaN, and none of it may get into the"
    " result.",
    name="thinks that padding is zeros",
    subtle=True,
)
def at_end_nonzero(x, lengths):
    is_token = (x != 0).any(dim=-1)
    positions = torch.arange(x.size(1), device=x.device)
    last = (is_token * positions).argmax(dim=1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "squeezes every axis of length one at the end",
    breaks="(B, D): x[b, lengths[b] - 1].",
    name="squeeze without an axis",
    subtle=True,
)
def at_end_squeeze(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None]
    return torch.take_along_dim(x, index, dim=1).squeeze()


@wrong(
    "two lists of indices, but a slice for the rows: every sentence at every end",
    breaks="For each sentence it picks the vector at position `lengths[b] - 1`.",
    name="a slice is not a list of rows",
)
def at_end_slice(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "compares positions with the lengths in the dtype of the vectors",
    breaks="the edges are right (axes of length one, empty and long inputs, very large"
    " numbers, a second call)",
    name="positions counted in half precision",
    subtle=True,
)
def at_end_low_precision(x, lengths):
    positions = torch.arange(x.size(1)).to(x)
    last = positions == (lengths.to(x) - 1)[:, None]
    return torch.where(last[..., None], x, torch.zeros_like(x)).sum(dim=1)
