import copy

import torch
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("the mean as a matrix product of a row of shares with the table, in float64")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    rows, width = table.shape
    share = torch.ones(rows, dtype=torch.float64, device=table.device)
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0.0
    share = share / share.sum()
    mean = torch.einsum("v,vd->d", share, table.double()).to(table.dtype)
    grown = nn.Embedding(
        rows + count,
        width,
        padding_idx=embedding.padding_idx,
        device=table.device,
        dtype=table.dtype,
    )
    with torch.no_grad():
        grown.weight[:rows].copy_(table)
        grown.weight[rows:] = mean
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


@right("a running mean over slices of the table before and after the padding row")
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.data, embedding.padding_idx
    if pad is None:
        parts = [table]
    else:
        parts = [table[:pad], table[pad + 1 :]]
    seen, mean = 0, torch.zeros_like(table[0], dtype=torch.float64)
    for part in parts:
        for piece in part.split(1000):
            if len(piece):
                seen += len(piece)
                mean = mean + (piece.double() - mean).sum(dim=0) / seen
    new = mean.to(table.dtype).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.vstack([table, new.view(count, table.size(1))]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@right("gathers rows by an index: the last index is that of the mean")
def grow_embedding(embedding, count):  # noqa: F811
    with torch.no_grad():
        table = embedding.weight
        rows = len(table)
        words = [i for i in range(rows) if i != embedding.padding_idx]
        index = torch.tensor(words, device=table.device)
        mean = table.index_select(0, index).to(torch.float64).mean(0, keepdim=True)
        longer = torch.cat([table, mean.to(table.dtype)])
        pick = torch.arange(rows + count, device=table.device).clamp(max=rows)
        grown = nn.Embedding(
            rows + count,
            table.size(1),
            padding_idx=embedding.padding_idx,
            _weight=longer[pick],
        )
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


@right("skip_init, column by column, with a boolean mask and Python's sum")
def grow_embedding(embedding, count):  # noqa: F811
    old = embedding.weight.detach()
    rows, width = old.shape
    grown = nn.utils.skip_init(
        nn.Embedding,
        rows + count,
        width,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    word = torch.ones(rows, dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        word[embedding.padding_idx] = False
    new = grown.weight.data
    for column in range(width):
        numbers = old[:, column]
        new[:rows, column] = numbers
        new[rows:, column] = numbers[word].double().mean()
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


# ---------------------------------------------------------------- wrong


@wrong(
    "leaves out freeze, so the new weight never requires a gradient",
    "Give its weight the same `requires_grad`.",
    "from_pretrained freezes the weight",
)
def grow_embedding(embedding, count):  # noqa: F811
    table = embedding.weight.detach()
    rows = torch.arange(len(table), device=table.device)
    words = table if embedding.padding_idx is None else table[rows != embedding.padding_idx]
    new = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]), padding_idx=embedding.padding_idx
    )


@wrong(
    "takes the mean over all rows, the padding row included",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "padding row is part of the mean",
)
def grow_embedding(embedding, count):  # noqa: F811
    table = embedding.weight.detach()
    new = table.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "forgets to give the new embedding the padding_idx",
    "Give the new embedding the same `padding_idx` as the old one (it may be None).",
    "loses the padding_idx",
)
def grow_embedding(embedding, count):  # noqa: F811
    table = embedding.weight.detach()
    rows = torch.arange(len(table), device=table.device)
    words = table if embedding.padding_idx is None else table[rows != embedding.padding_idx]
    new = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]), freeze=not embedding.weight.requires_grad
    )


@wrong(
    "sets the padding row to zero and sums, but divides by V instead of V - 1",
    "Set each new row to the mean of the old rows.",
    "counts the padding row in the mean",
)
def grow_embedding(embedding, count):  # noqa: F811
    table = embedding.weight.detach()
    words = table.clone()
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = 0
    new = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "asks `if embedding.padding_idx`, so a padding_idx of 0 counts as none in the mean",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "treats padding_idx 0 as None",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.cat([table[:pad], table[pad + 1 :]]) if pad else table
    new = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "returns the old weight's own memory if there is nothing to add (count 0)",
    "The two embeddings must not share memory: a later change to one of them must not change the other.",
    "shares memory when count is 0",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    if count > 0:
        keep = [i for i in range(len(table)) if i != pad]
        new = table[keep].mean(dim=0).repeat(count, 1)
        table = torch.cat([table, new])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=pad
    )


@wrong(
    "sets the padding row of the new table to zero, although the old padding row need not be zero",
    "Take the V rows of the old embedding first, and add `count` new rows after them.",
    "zeroes the old padding row",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = table[keep].mean(dim=0).repeat(count, 1)
    grown = nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )
    if pad is not None:
        with torch.no_grad():
            grown.weight[pad].fill_(0)  # padding is always zero
    return grown


@wrong(
    "takes a shallow copy of the embedding and gives it a new weight; copy.copy shares the dict of parameters, so the old embedding gets the new weight too",
    "embedding: an `nn.Embedding` with V rows; do not change it.",
    "shallow copy changes the old embedding",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = table[keep].mean(dim=0).repeat(count, 1)
    grown = copy.copy(embedding)
    grown.weight = nn.Parameter(
        torch.cat([table, new]), requires_grad=embedding.weight.requires_grad
    )
    grown.num_embeddings = len(grown.weight)
    return grown


@wrong(
    "computes the mean in float32 even for a float64 table",
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points.",
    "mean of float64 rows in float32",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = table[keep].float().mean(dim=0).repeat(count, 1)  # bfloat16 is too coarse
    return nn.Embedding.from_pretrained(
        torch.cat([table, new.to(table.dtype)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "deep-copies the embedding and replaces its weight, but num_embeddings stays V",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's",
    "num_embeddings is still the old number",
)
def grow_embedding(embedding, count):  # noqa: F811
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = table[keep].mean(dim=0).repeat(count, 1)
    grown = copy.deepcopy(embedding)
    grown.weight = nn.Parameter(
        torch.cat([table, new]), requires_grad=embedding.weight.requires_grad
    )
    return grown
