import torch
from torch import nn
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pack_padded_sequence

from blind import right, wrong


@right("cuts each sentence to its length and takes the last vector that is left")
def at_end(x, lengths):
    return torch.stack([vectors[:n][-1] for vectors, n in zip(x, lengths.tolist())])


@right("one long axis for all positions, and index_select")
def at_end(x, lengths):
    batch, size, width = x.shape
    places = torch.arange(batch) * size + lengths.long() - 1
    return x.reshape(batch * size, width).index_select(0, places.to(x.device))


@right("take_along_dim with an index that is moved to the vectors' device")
def at_end(x, lengths, offset=1):
    last = (lengths - offset).to(device=x.device, dtype=torch.long)
    return torch.take_along_dim(x, last.reshape(-1, 1, 1), dim=1)[:, 0, :]


@right("replaces everything but the last token by zero (not a product) and adds up")
def at_end(x, lengths):
    last = one_hot(lengths.long() - 1, x.size(1)).bool().to(x.device)
    return torch.where(last[:, :, None], x, torch.zeros_like(x)).sum(dim=1)


@wrong(
    "the last column, which is padding for every shorter sentence",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "last column instead of last token",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "picks all the positions from every sentence: the result is (B, B, D)",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "slice instead of row numbers in the index",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "multiplies by a mask and adds up: NaN or infinity on padding makes the result NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "zero times NaN is NaN",
)
def at_end(x, lengths):
    last = one_hot(lengths - 1, x.size(1)).to(x)
    return (x * last[:, :, None]).sum(1)


@wrong(
    "takes the index as it comes, on the CPU: gather raises for vectors on a GPU",
    "The lengths are on the CPU, but the vectors may be on a GPU.",
    "index on the CPU, vectors on the GPU",
)
def at_end(x, lengths):
    last = (lengths - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last)[:, 0]


@wrong(
    "squeeze without an axis: (D,) for one sentence, (B,) for vectors of width 1",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze removes axes of length one too many",
)
def at_end(x, lengths):
    last = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze()


@wrong(
    "pack_padded_sequence expects the longest sentence first: unsorted lengths raise",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "sentences must be sorted by length",
)
def at_end(x, lengths):
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    begin = packed.batch_sizes.cumsum(0) - packed.batch_sizes
    return packed.data[begin[lengths - 1] + torch.arange(len(lengths))]


@wrong(
    "view needs one block of memory: vectors with swapped axes (time first, transposed) raise",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "view of a tensor that is not contiguous",
)
def at_end(x, lengths):
    batch, size, width = x.shape
    return x.view(batch * size, width)[torch.arange(batch) * size + lengths - 1]


@wrong(
    "counts from the last column and takes the longest sentence for full: wrong if the batch"
    " is padded beyond its longest sentence",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "assumes that the longest sentence fills the batch",
)
def at_end(x, lengths):
    return x[torch.arange(len(x)), lengths - lengths.max() - 1]


@wrong(
    "nan_to_num cleans the padding, but also the tokens: an infinite or NaN entry in the last"
    " token's own vector comes out as a finite number",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "cleans the tokens along with the padding",
)
def at_end(x, lengths):
    last = one_hot(lengths - 1, x.size(1)).to(x)
    return (x.nan_to_num() * last[:, :, None]).sum(1)


@wrong(
    "subtracts one from the caller's lengths in place: a second call with the same lengths"
    " picks the token before the last",
    "Do not change the inputs.",
    "lengths are changed in place",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]
