import torch
from torch import nn

from blind import right, wrong

REMEMBERED = {}


@right("one-hot product over a copy in which NaN and infinities became finite numbers")
def at_end(x, lengths):
    pick = nn.functional.one_hot(lengths - 1, x.size(1)).to(x)  # (B, S)
    return torch.einsum("bs,bsd->bd", pick, torch.nan_to_num(x))


@right("a Python loop over the sentences")
def at_end(x, lengths):
    found = []
    for sentence, n in zip(x.unbind(0), lengths.tolist()):
        found.append(sentence[:n][-1])
    return torch.stack(found, dim=0)


@right("a boolean mask with one True per row")
def at_end(x, lengths):
    positions = torch.arange(1, x.size(1) + 1, device=x.device)
    return x[positions == lengths.to(x.device).unsqueeze(-1)]


@right("all sentences in one row of vectors, and index_select in it; float64 between")
def at_end(x, lengths):
    size = x.size(1)
    starts = torch.arange(x.size(0)) * size
    rows = (starts + lengths - 1).to(x.device)
    return x.double().flatten(0, 1).index_select(0, rows).to(x.dtype)


@wrong(
    "takes the last column for all sentences",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "last column, not last token",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "forgets that positions count from 0 and takes position lengths[b]",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "off by one",
)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "slices all rows with all columns, which gives (B, B, D)",
    "(B, D): x[b, lengths[b] - 1].",
    "colon in place of row numbers",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "multiplies with a one-hot mask and sums, and 0 * NaN is NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "NaN from the padding leaks through a product with zero",
    subtle=True,
)
def at_end(x, lengths):
    pick = nn.functional.one_hot(lengths - 1, x.size(1)).to(x)  # (B, S)
    return (pick[:, :, None] * x).sum(dim=1)


@wrong(
    "subtracts one from the lengths in place",
    "Do not change the inputs.",
    "changes the lengths in place",
    subtle=True,
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "gathers with an index that stays on the CPU",
    "The lengths are on the CPU, but the vectors may be on a GPU.",
    "index on the wrong device",
    subtle=True,
)
def at_end(x, lengths):
    index = (lengths - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, index)[:, 0]


@wrong(
    "compares positions in the dtype of x; in bfloat16 256 and 257 are one number",
    "Positions and counts, however, must be exact in every dtype.",
    "positions in bfloat16",
    subtle=True,
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device).to(x.dtype)
    hit = positions == (lengths - 1).to(x)[:, None]  # (B, S)
    return torch.where(hit[:, :, None], x, torch.zeros_like(x)).sum(dim=1)


@wrong(
    "squeezes every axis of length one, so that B = 1 or D = 1 loses an axis too",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze without an axis",
    subtle=True,
)
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong(
    "keeps the positions of the first batch of each shape and uses them again",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "positions cached by shape",
    subtle=True,
)
def at_end(x, lengths):
    if x.shape not in REMEMBERED:
        REMEMBERED[x.shape] = (torch.arange(x.size(0)), lengths - 1)
    rows, columns = REMEMBERED[x.shape]
    return x[rows, columns]


@wrong(
    "makes a new tensor from Python numbers, so no gradient flows back to x",
    "Gradients must be right, too.",
    "gradient cut by torch.tensor",
    subtle=True,
)
def at_end(x, lengths):
    rows = [x[b, n - 1].tolist() for b, n in enumerate(lengths.tolist())]
    return torch.tensor(rows, dtype=x.dtype, device=x.device)
