import torch
from torch.nn.utils.rnn import pack_padded_sequence

from blind import right, wrong

PICK = "For each sentence b, pick the vector at position `lengths[b] - 1`."
PADDING = "The padding may hold any values, even NaN, and must not influence the result."
RETURNS = "(B, D): x[b, lengths[b] - 1]."
INPUTS = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
SIZES = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
GRADIENTS = "Gradients must be right, too."
EXACT = "Positions and counts must be exact in every dtype."


@right("takes the last row of each sentence cut to its own length, in a loop")
def at_end(x, lengths):
    return torch.stack([row[:n][-1] for row, n in zip(x.unbind(0), lengths.tolist())])


@right("selects with a boolean mask that is True once in each row")
def at_end(x, lengths):
    last = torch.arange(1, x.size(1) + 1) == lengths.reshape(-1, 1)
    return x[last.to(x.device)]


@right("packs the batch, and finds the last tokens in the packed data by counting")
def at_end(x, lengths):
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    starts = packed.batch_sizes.cumsum(0) - packed.batch_sizes
    ranks = packed.unsorted_indices.cpu()
    place = starts[lengths - 1] + ranks
    return packed.data.index_select(0, place.to(x.device))


@right("replaces everything else by zeros with where, and adds up over the positions")
def at_end(x, lengths):
    ends = lengths.to(x.device)[:, None, None] - 1
    positions = torch.arange(x.size(1), device=x.device)[None, :, None]
    return torch.where(positions == ends, x, torch.zeros_like(x)).sum(dim=1)


@wrong(
    "takes the last column",
    breaks=PICK,
    name="the state after the padding",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "takes the end of the longest sentence for all sentences",
    breaks=PICK,
    name="one position for the whole batch",
)
def at_end(x, lengths):
    return x[:, int(lengths.max()) - 1]


@wrong(
    "takes the position after the last token, except in the last column",
    breaks=PICK,
    name="one position too late",
)
def at_end(x, lengths):
    rows = torch.arange(x.size(0))
    return x[rows, lengths.clamp(max=x.size(1) - 1)]


@wrong(
    "multiplies by a one-hot mask, and zero times NaN is NaN",
    breaks=PADDING,
    name="NaN from the padding gets through a product",
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    one_hot = positions == lengths.to(x.device)[:, None] - 1
    return (one_hot[..., None].to(x.dtype) * x).sum(1)


@wrong(
    "removes NaN before the product with a one-hot mask, but not infinity",
    breaks=PADDING,
    name="infinity in the padding",
)
def at_end(x, lengths):
    clean = torch.where(x.isnan(), torch.zeros_like(x), x)
    positions = torch.arange(x.size(1), device=x.device)
    one_hot = (positions == lengths.to(x.device)[:, None] - 1).to(x.dtype)
    return torch.einsum("bs,bsd->bd", one_hot, clean)


@wrong(
    "subtracts one from the caller's lengths in place",
    breaks=INPUTS,
    name="the lengths of the caller shrink",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "copies the vectors into a new tensor of the default dtype",
    breaks=DTYPE,
    name="the result is always float32",
)
def at_end(x, lengths):
    result = torch.zeros(x.size(0), x.size(2), device=x.device)
    for b, n in enumerate(lengths.tolist()):
        result[b] = x[b, n - 1]
    return result


@wrong(
    "gathers, and then squeezes all axes of length one",
    breaks=SIZES,
    name="a batch of one, or a width of one, loses its axis",
)
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong(
    "compares the positions in the dtype of the vectors: in bfloat16, 257 is 256",
    breaks=EXACT,
    name="positions in low precision",
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device).to(x.dtype)
    ends = (lengths - 1).to(x)
    other = positions != ends[:, None]
    return x.masked_fill(other[..., None], 0).sum(1)


@wrong(
    "picks from x.data, so no gradient reaches the vectors",
    breaks=GRADIENTS,
    name="the result is cut off from the graph",
)
def at_end(x, lengths):
    return x.data[torch.arange(x.size(0)), lengths - 1]
