import torch

from blind import right, wrong


@right("one sentence after the other, then a stack")
def at_end(x, lengths):
    return torch.stack([row[n - 1] for row, n in zip(x, lengths.tolist())])


@right("gather with an index that is as wide as the vectors")
def at_end(x, lengths):
    index = (lengths.to(x.device) - 1).view(-1, 1, 1).expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze(1)


@right("a boolean mask picks exactly one position of each row")
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    last = positions == (lengths.to(x.device)[:, None] - 1)
    return x[last]


@right("flattens sentences and positions and selects rows by their number")
def at_end(x, lengths):
    B, S, D = x.shape
    row = torch.arange(B, device=x.device) * S + lengths.to(x.device) - 1
    return x.reshape(B * S, D).index_select(0, row)


@wrong(
    "takes the last column; wrong for every sentence that is shorter than S",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "last column instead of last token",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "a colon in place of the rows: (B, B, D), all pairs of sentences and lengths",
    "(B, D): x[b, lengths[b] - 1].",
    "rows and columns not paired",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "one position too far: reads padding, and raises for a sentence of full length",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "off by one",
)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "multiplies with zeros and ones and sums: NaN or infinity in the padding times 0 is NaN",
    "The padding may hold anything, even NaN, and none of it may get into the result.",
    "NaN times zero is NaN",
)
def at_end(x, lengths):
    last = torch.arange(x.size(1), device=x.device) == lengths.to(x.device)[:, None] - 1
    return (x * last[:, :, None].to(x.dtype)).sum(dim=1)


@wrong(
    "subtracts one from the lengths in place: the caller's lengths are changed, and a second call picks other vectors",
    "Do not change the inputs that your code is given.",
    "lengths changed in place",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "squeezes all axes: one sentence gives (D,), and D = 1 gives (B,)",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze drops axes of length one",
)
def at_end(x, lengths):
    index = (lengths.to(x.device) - 1)[:, None, None].expand(-1, -1, x.size(2))
    return torch.gather(x, 1, index).squeeze()


@wrong(
    "the index stays on the CPU, which gather does not allow for vectors on a GPU",
    "The lengths are on the CPU; the vectors may be on a GPU.",
    "index not moved to the device",
)
def at_end(x, lengths):
    index = (lengths - 1).view(-1, 1, 1).repeat(1, 1, x.size(2))
    return torch.gather(x, 1, index)[:, 0]


@wrong(
    "looks for the last vector that is not zero: right if the padding is zeros and no token's vector is, wrong for padding that holds numbers or NaN",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "padding recognised by zeros",
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    last = torch.where((x != 0).any(dim=-1), positions, 0).amax(dim=1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "cleans x of NaN and infinity before it is multiplied: an infinity or a NaN in the last token's own vector comes out as another number",
    "(B, D): x[b, lengths[b] - 1].",
    "nan_to_num changes real values",
)
def at_end(x, lengths):
    last = torch.arange(x.size(1), device=x.device) == lengths.to(x.device)[:, None] - 1
    return torch.einsum("bsd,bs->bd", x.nan_to_num(), last.to(x.dtype))


@wrong(
    "goes through the sentences from the longest to the shortest and returns them in this order: right for batches that are sorted by length",
    "(B, D): x[b, lengths[b] - 1].",
    "sentences come back sorted by length",
)
def at_end(x, lengths):
    order = lengths.argsort(descending=True, stable=True)
    return torch.stack([x[b, lengths[b] - 1] for b in order.tolist()])
