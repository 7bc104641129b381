import torch
from torch import nn

from blind import right, wrong


@right("counts from the end: lengths - 1 - S is a negative index into the columns")
def at_end(x, lengths):
    rows = torch.arange(x.size(0))
    return x[rows, lengths - 1 - x.size(1)]


@right("gather along the positions with an index as wide as the vectors")
def at_end(x, lengths):
    last = lengths.to(x.device).long().sub(1).view(-1, 1, 1)
    return x.gather(1, last.expand(-1, 1, x.size(2))).squeeze(1)


@right("a loop over the sentences and torch.stack")
def at_end(x, lengths):
    return torch.stack([row[n - 1] for row, n in zip(x, lengths.tolist())])


@right("a boolean mask with one True in each row; indexing keeps the order of the rows")
def at_end(x, lengths):
    positions = torch.arange(1, x.size(1) + 1, device=x.device)
    return x[positions == lengths.to(x.device)[:, None]]


@wrong(
    "takes the last column: wrong for every sentence that is shorter than the batch",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "last column of the batch",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "forgets the minus one: the vector after the end, and an IndexError for the longest sentence",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "off by one: position lengths[b]",
)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "x[:, lengths - 1] picks every column for every sentence: (B, B, D)",
    "(B, D): x[b, lengths[b] - 1].",
    "all rows are paired with all ends",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "multiplies the other positions by zero and sums: NaN or inf in the padding gets into the result",
    "The padding may hold anything, even NaN, and none of it may get into the result.",
    "masked sum lets NaN of the padding through",
)
def at_end(x, lengths):
    last = nn.functional.one_hot((lengths - 1).to(x.device), x.size(1))
    return (last[..., None].to(x.dtype) * x).sum(1)


@wrong(
    "squeezes every axis of length one: with B = 1 or D = 1 the shape is not (B, D)",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze drops further axes of length one",
)
def at_end(x, lengths):
    last = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze()


@wrong(
    "subtracts one in place: the caller's lengths are one shorter afterwards, and a second call picks the vector before",
    "Leave what you are handed unchanged.",
    "lengths changed in place",
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "fills a new tensor of torch.zeros: float32 whatever the dtype of the vectors is",
    "What you return has the dtype of the vectors or parameters that it is made from, and is on their device.",
    "result is always float32",
)
def at_end(x, lengths):
    out = torch.zeros(x.size(0), x.size(2))
    for b, n in enumerate(lengths.tolist()):
        out[b] = x[b, n - 1]
    return out


@wrong(
    "counts back from the longest sentence, not from S: wrong if the batch is padded further than its longest sentence",
    "A batch may be padded to more positions than its longest sentence has tokens.",
    "longest length taken for the number of columns",
)
def at_end(x, lengths):
    back = lengths - 1 - int(lengths.max())
    return x[torch.arange(x.size(0)), back]


@wrong(
    "ignores the lengths and looks for the last vector that is not zero: padding may hold anything, and a token's vector may be zero",
    "The padding may hold anything, even NaN, and none of it may get into the result.",
    "guesses the end from vectors that are zero",
)
def at_end(x, lengths):
    positions = torch.arange(1, x.size(1) + 1, device=x.device)
    last = ((x != 0).any(-1) * positions).argmax(1)
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong(
    "cuts NaN out with nan_to_num before it sums: NaN or inf in the token's own vector is replaced as well",
    "For each sentence it picks the vector at position `lengths[b] - 1`.",
    "nan_to_num changes the picked vector, too",
)
def at_end(x, lengths):
    last = nn.functional.one_hot((lengths - 1).to(x.device), x.size(1))
    return (last[..., None].to(x.dtype) * x.nan_to_num()).sum(1)
