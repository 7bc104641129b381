import copy

import torch
from torch import nn
from torch.nn import functional as F

from blind import right, wrong


@right("an empty embedding of the new size, filled slice by slice")
def grow_embedding(embedding, count):
    old = embedding.weight
    size, dim = old.shape
    keep = torch.ones(size, dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        keep[embedding.padding_idx] = False
    new = nn.Embedding(
        size + count,
        dim,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    with torch.no_grad():
        new.weight[:size] = old
        new.weight[size:] = old[keep].mean(dim=0)
    new.weight.requires_grad_(old.requires_grad)
    return new


@right("a deep copy of the whole module that gets a longer weight")
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    pad = embedding.padding_idx
    rows = [row for i, row in enumerate(embedding.weight.detach()) if i != pad]
    mean = torch.stack(rows).mean(0, keepdim=True)
    table = torch.vstack([embedding.weight.detach(), mean.repeat(count, 1)])
    grown.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    grown.num_embeddings = len(table)
    return grown


@right("a running mean in float64, row by row")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    mean, seen = torch.zeros_like(table[0], dtype=torch.float64), 0
    for index in range(len(table)):
        if index == embedding.padding_idx:
            continue
        seen += 1
        mean += (table[index].double() - mean) / seen
    longer = table.new_empty(len(table) + count, table.size(1))
    longer[: len(table)].copy_(table)
    for index in range(len(table), len(longer)):
        longer[index].copy_(mean)
    return nn.Embedding.from_pretrained(
        longer,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("looks all rows up in the old table with the mean below it")
def grow_embedding(embedding, count):
    @torch.no_grad()
    def table():
        old, pad = embedding.weight, embedding.padding_idx
        words = torch.tensor(
            [i for i in range(old.size(0)) if i != pad], device=old.device
        )
        mean = old.index_select(0, words).sum(0) / len(words)
        ids = [*range(old.size(0)), *[old.size(0)] * count]
        both = torch.cat([old, mean.unsqueeze(0)])
        return F.embedding(torch.tensor(ids, device=old.device), both).clone()

    weight = table()
    new = nn.Embedding(*weight.shape, embedding.padding_idx, _weight=weight)
    new.weight.requires_grad = embedding.weight.requires_grad
    return new


@wrong(
    "the mean of all rows, with that of the padding",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "the padding row is in the mean",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    rows = table.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "from_pretrained without freeze=..., so that the new weight is always frozen",
    "Give its weight the same `requires_grad`.",
    "from_pretrained freezes the weight",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx is not None:
        pad = embedding.padding_idx
        words = torch.cat([table[:pad], table[pad + 1 :]])
    rows = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]), padding_idx=embedding.padding_idx
    )


@wrong(
    "puts the longer weight into the old embedding and returns it",
    "embedding: an `nn.Embedding` with V rows; do not change it.",
    "the old embedding is changed",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx is not None:
        pad = embedding.padding_idx
        words = torch.cat([table[:pad], table[pad + 1 :]])
    rows = words.mean(dim=0, keepdim=True).expand(count, -1)
    embedding.weight = nn.Parameter(
        torch.cat([table, rows]), requires_grad=embedding.weight.requires_grad
    )
    embedding.num_embeddings += count
    return embedding


@wrong(
    "asks `if padding_idx`, so that a padding_idx of 0 counts as none in the mean",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "padding_idx 0 is treated like None",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx:
        keep[embedding.padding_idx] = False
    rows = table[keep].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "makes the new embedding in the default dtype and copies into it",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "the new embedding has the default dtype",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    size, dim = table.shape
    keep = torch.ones(size, dtype=torch.bool, device=table.device)
    if embedding.padding_idx is not None:
        keep[embedding.padding_idx] = False
    new = nn.Embedding(
        size + count, dim, padding_idx=embedding.padding_idx, device=table.device
    )
    with torch.no_grad():
        new.weight[:size] = table
        new.weight[size:] = table[keep].mean(dim=0)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong(
    "does not pass the padding_idx on",
    "Give the new embedding the same `padding_idx` as the old one (it may be None).",
    "padding_idx is lost",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = torch.arange(len(table), device=table.device)
    if embedding.padding_idx is not None:
        keep = keep[keep != embedding.padding_idx]
    rows = table[keep].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]), freeze=not embedding.weight.requires_grad
    )


@wrong(
    "the new weight always requires a gradient, also when the old one is frozen",
    "Give its weight the same `requires_grad`.",
    "requires_grad of a frozen embedding is lost",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = torch.arange(len(table), device=table.device)
    if embedding.padding_idx is not None:
        keep = keep[keep != embedding.padding_idx]
    rows = table[keep].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]), freeze=False, padding_idx=embedding.padding_idx
    )


@wrong(
    "concatenates once per new row, so that with count 0 nothing copies the old table",
    "The two embeddings must not share memory: a later change to one of them must not change the other.",
    "shares memory if count is 0",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = torch.arange(len(table), device=table.device)
    if embedding.padding_idx is not None:
        keep = keep[keep != embedding.padding_idx]
    mean = table[keep].mean(dim=0, keepdim=True)
    for _ in range(count):
        table = torch.cat([table, mean])
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "copies only the rows of words, because a new nn.Embedding has zeros in its padding row; the old one may have other numbers there",
    "Take the V rows of the old embedding first, and add `count` new rows after them.",
    "the padding row becomes zero",
)
def grow_embedding(embedding, count):
    table, pad = embedding.weight.detach(), embedding.padding_idx
    new = nn.Embedding(
        len(table) + count,
        table.size(1),
        padding_idx=pad,
        device=table.device,
        dtype=table.dtype,
    )
    words = [i for i in range(len(table)) if i != pad]
    with torch.no_grad():
        new.weight[words] = table[words]
        new.weight[len(table) :] = table[words].mean(dim=0)
    return new.requires_grad_(embedding.weight.requires_grad)


@wrong(
    "leaves the rows of zeros out of the mean instead of the row of padding_idx, which need not be zero",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "looks for the padding row by its zeros",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx is not None:
        words = table[table.ne(0).any(dim=1)]
    rows = words.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )
