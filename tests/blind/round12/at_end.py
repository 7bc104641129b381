import torch

from attention_course.masks import padding_mask
from attention_course.rnn import reverse_padded

from blind import right, wrong


# ---------------------------------------------------------------- wrong answers


@wrong(
    "picks the last column",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "last column",
)
def at_end(x, lengths):
    return x[:, -1]


@wrong(
    "indexes one axis only, which gives (B, B, D)",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "every column for every row",
)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong(
    "picks position lengths[b], the first position of the padding (or, in a full row,"
    " the last token)",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "off by one",
)
def at_end(x, lengths):
    columns = lengths.clamp(max=x.size(1) - 1)
    return x[torch.arange(x.size(0)), columns]


@wrong(
    "the mean over the tokens of each sentence",
    "For each sentence b, pick the vector at position `lengths[b] - 1`.",
    "mean instead of last vector",
)
def at_end(x, lengths):
    return torch.stack([row[:n].mean(0) for row, n in zip(x, lengths.tolist())])


@wrong(
    "multiplies by a one-hot row: NaN in the padding times 0 is NaN",
    "The padding may hold any values, even NaN, and must not influence the result.",
    "0 times NaN",
    subtle=True,
)
def at_end(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    one_hot = (positions == lengths.to(x.device)[:, None] - 1).to(x.dtype)
    return (one_hot[:, None] @ x)[:, 0]


@wrong(
    "subtracts 1 from the caller's lengths in place",
    "Do not change the inputs.",
    "lengths changed in place",
    subtle=True,
)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong(
    "squeeze() without an axis: a batch of one, or vectors of width one, lose an axis",
    "(B, D): x[b, lengths[b] - 1].",
    "squeeze of all axes",
    subtle=True,
)
def at_end(x, lengths):
    last = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze()


@wrong(
    "leaves the index of gather on the CPU",
    "The lengths are on the CPU, but the vectors may be on a GPU.",
    "index on the CPU",
    subtle=True,
)
def at_end(x, lengths):
    last = (lengths - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last)[:, 0]


@wrong(
    "takes the vectors out of x.data, which gives no gradient",
    "Gradients must be right, too.",
    "gradient lost",
    subtle=True,
)
def at_end(x, lengths):
    return torch.stack([x.data[b, n - 1] for b, n in enumerate(lengths.tolist())])


@wrong(
    "writes into torch.zeros(B, D), which is float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32",
    subtle=True,
)
def at_end(x, lengths):
    out = torch.zeros(x.size(0), x.size(2), device=x.device)
    for b in range(x.size(0)):
        out[b] = x[b, lengths[b] - 1]
    return out


# ---------------------------------------------------------------- right answers


@right("reverses each sentence and takes the first column")
def at_end(x, lengths):
    return reverse_padded(x, lengths)[:, 0]


@right("torch.where, then a sum over all positions")
def at_end(x, lengths):
    lengths = lengths.to(x.device)
    through_end = padding_mask(lengths, x.size(1))[:, 0]
    before_end = padding_mask(lengths - 1, x.size(1))[:, 0]
    chosen = (through_end & ~before_end)[..., None]
    return torch.where(chosen, x, torch.zeros_like(x)).sum(dim=1)


@right("one long list of vectors, and index_select")
def at_end(x, lengths):
    size = x.size(1)
    rows = torch.arange(x.size(0)) * size + lengths - 1
    return x.flatten(0, 1).index_select(0, rows.to(x.device))


@right("cuts each sentence off and takes its last vector")
def at_end(x, lengths):
    ends = []
    for vectors, n in zip(x.unbind(0), lengths):
        ends.append(vectors.split([int(n), x.size(1) - int(n)])[0][-1:])
    return torch.cat(ends, dim=0)
