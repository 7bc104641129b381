import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded
from attention_course.seq2seq import Encoded, Memory
from blind import right, wrong


@right("one flat table of all positions, with index_select")
def at_end(x, lengths):
    size, width = x.size(1), x.size(2)
    table = x.reshape(-1, width)
    index = torch.tensor(
        [b * size + n - 1 for b, n in enumerate(lengths.tolist())], device=x.device
    )
    return table.index_select(0, index)


@right("walks over the positions and keeps the newest token's vector")
def at_end(x, lengths):
    last = x[:, 0]
    for s in range(1, x.size(1)):
        going_on = (lengths > s).to(x.device)
        last = torch.where(going_on[:, None], x[:, s], last)
    return last


@right(
    "clears all other positions, and then adds everything up with einsum, in float64"
)
def at_end(x, lengths):
    here = torch.arange(x.size(1)) == (lengths - 1)[:, None]
    kept = x.masked_fill(~here.to(x.device)[:, :, None], 0)
    return torch.einsum("bsd->bd", kept.double()).to(x.dtype)


@right("cuts every sentence to its length, and fills an empty result row by row")
def at_end(x, lengths):
    result = x.new_empty(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        *_, end = x[b].narrow(0, 0, n).unbind(0)
        result[b] = end
    return result


@wrong(
    "takes the last column of the batch",
    breaks="For each sentence b, pick the vector at position `lengths[b] - 1`.",
    name="last column instead of last token",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "takes the position after the last token, and clamps it to the batch",
    breaks="For each sentence b, pick the vector at position `lengths[b] - 1`.",
    name="off by one: the length is used as the position",
)
def at_end(x, lengths):
    rows = torch.arange(x.size(0))
    return x[rows, lengths.clamp(max=x.size(1) - 1)]


@wrong(
    "looks for the last row that is not zero, instead of using the lengths",
    breaks="The padding may hold any values, even NaN, and must not influence the result.",
    name="takes zeros for padding",
)
def at_end(x, lengths):
    used = (x != 0).any(dim=-1)
    positions = torch.arange(x.size(1), device=x.device)
    last = torch.where(used, positions, 0).amax(dim=1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "multiplies with a one-hot vector and adds up the positions, so NaN times zero gets in",
    breaks="The padding may hold any values, even NaN, and must not influence the result.",
    name="multiplies NaN padding by zero",
)
def at_end(x, lengths):
    hot = F.one_hot(lengths - 1, x.size(1)).to(x)
    return torch.einsum("bs,bsd->bd", hot, x)


@wrong(
    "collects the vectors in torch.zeros, which is float32 whatever x is",
    breaks="The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    name="result has the default dtype",
)
def at_end(x, lengths):
    result = torch.zeros(x.size(0), x.size(2), device=x.device)
    for b in range(x.size(0)):
        result[b] = x[b, lengths[b] - 1]
    return result


@wrong(
    "subtracts one from the lengths in place",
    breaks="Do not change the inputs.",
    name="changes the lengths",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "squeezes all axes of length one after gather, the axis of a single sentence too",
    breaks="Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode.",
    name="squeeze() without an axis",
)
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong(
    "compares positions in the dtype of x: in bfloat16, 256 and 257 are the same",
    breaks="Positions and counts must be exact in every dtype.",
    name="positions in the dtype of the vectors",
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device).to(x.dtype)
    here = positions == (lengths - 1).to(x.device, x.dtype)[:, None]
    return x.masked_fill(~here[:, :, None], 0).sum(dim=1)


@wrong(
    "reads the memory of x as if it were contiguous",
    breaks="An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory.",
    name="relies on the layout in memory",
)
def at_end(x, lengths):
    size, width = x.size(1), x.size(2)
    table = x.as_strided((x.size(0) * size, width), (width, 1))
    rows = torch.arange(x.size(0))
    return table[rows * size + lengths - 1]


CACHE = {}


@wrong(
    "keeps the row numbers of the first batch for all later batches",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="row numbers cached between calls",
)
def at_end(x, lengths):
    if "rows" not in CACHE:
        CACHE["rows"] = torch.arange(x.size(0))
    return x[CACHE["rows"], lengths - 1]
