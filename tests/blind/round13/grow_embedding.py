import copy

import torch
from torch import nn

from blind import right, wrong


@right("an empty nn.Embedding filled with copy_, a boolean mask for the words, float64 mean")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    rows, dim = old.shape
    words = torch.ones(rows, dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    new = nn.Embedding(
        rows + count,
        dim,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    with torch.no_grad():
        new.weight[:rows].copy_(old)
        new.weight[rows:] = old[words].double().mean(dim=0).to(old.dtype)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@right("a deep copy of the old embedding that gets a longer weight and a new num_embeddings")
def grow_embedding(embedding, count):
    new = copy.deepcopy(embedding)
    with torch.no_grad():
        rows = list(embedding.weight.detach().clone())
        words = [row for i, row in enumerate(rows) if i != embedding.padding_idx]
        mean = torch.stack(words).mean(0)
        table = torch.stack(rows + [mean] * count)
    new.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    new.num_embeddings = len(table)
    return new


@right("pads the table with zero rows, and fills them with one einsum in float64")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    share = torch.ones(len(old), dtype=torch.float64, device=old.device)
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    share = share / share.sum()
    table = nn.functional.pad(old, (0, 0, 0, count)).clone()
    table[len(old) :] = torch.einsum("v,vd->d", share, old.double()).to(old.dtype)
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("adds the rows up in a loop, and hands the table to nn.Embedding as _weight")
def grow_embedding(embedding, count):
    old = embedding.weight.data
    total, words = torch.zeros_like(old[0], dtype=torch.float64), 0
    for i in range(embedding.num_embeddings):
        if embedding.padding_idx is None or i != embedding.padding_idx:
            total = total + old[i].double()
            words += 1
    table = old.new_empty(embedding.num_embeddings + count, embedding.embedding_dim)
    for i in range(len(table)):
        table[i] = old[i] if i < len(old) else total / words
    new = nn.Embedding(
        *table.shape, padding_idx=embedding.padding_idx, _weight=table
    )
    new.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong(
    "leaves the new rows as random numbers",
    "Set each new row to the mean of the old rows.",
    "new rows are random",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    extra = torch.randn(count, old.size(1), device=old.device).to(old.dtype)
    return nn.Embedding.from_pretrained(
        torch.cat([old, extra]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "takes the mean of all rows, that of the padding id included",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "padding row is in the mean",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    mean = old.mean(0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "puts the longer weight into the old embedding and returns that one",
    "embedding: an `nn.Embedding` with V rows; do not change it.",
    "changes the old embedding in place",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    keep = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[keep].mean(0, keepdim=True)
    embedding.weight = nn.Parameter(
        torch.cat([old, mean.expand(count, -1)]),
        requires_grad=embedding.weight.requires_grad,
    )
    embedding.num_embeddings += count
    return embedding


@wrong(
    "asks `if embedding.padding_idx`, which is false for padding_idx 0: row 0 is in the mean",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "padding_idx 0 taken for None",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = old
    if embedding.padding_idx:
        pad = embedding.padding_idx
        words = torch.cat([old[:pad], old[pad + 1 :]])
    mean = words.mean(0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "returns the old embedding itself if there is nothing to add",
    "The two embeddings must not share memory: a later change to one of them must not"
    " change the other.",
    "count 0 returns the same object",
    subtle=True,
)
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old = embedding.weight.detach()
    keep = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[keep].mean(0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "gives a deep copy a longer weight, and forgets its num_embeddings, which stays V",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype"
    " and on its device.",
    "num_embeddings is still the old number",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    keep = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[keep].mean(0, keepdim=True)
    new = copy.deepcopy(embedding)
    new.weight = nn.Parameter(
        torch.cat([old, mean.expand(count, -1)]),
        requires_grad=embedding.weight.requires_grad,
    )
    return new


@wrong(
    "sets the padding row of the new table to zero, although the old one (as BERT's) is not",
    "Take the V rows of the old embedding first, and add `count` new rows after them.",
    "padding row is set to zero",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    pad = embedding.padding_idx
    keep = [i for i in range(len(old)) if i != pad]
    mean = old[keep].mean(0, keepdim=True)
    table = torch.cat([old, mean.expand(count, -1)])
    if pad is not None:
        table[pad] = 0.0  # padding is always zero
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=pad
    )


@wrong(
    "sums all rows and divides by V - 1: right only if the padding row is zero",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "takes for granted that the padding row is zero",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = len(old) - (embedding.padding_idx is not None)
    mean = old.sum(0, keepdim=True) / words
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "always passes freeze=False: the new weight of a frozen embedding can be trained",
    "Give its weight the same `requires_grad`.",
    "a frozen embedding thaws",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    keep = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[keep].mean(0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=False,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "makes a new nn.Embedding of the default dtype and copies into it: a float64 or bfloat16"
    " embedding becomes float32",
    "The result must have the dtype of the vectors or parameters that it is computed from"
    " (float64, float32 or bfloat16), and must be on their device.",
    "the dtype is lost",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    keep = [i for i in range(len(old)) if i != embedding.padding_idx]
    new = nn.Embedding(
        len(old) + count,
        old.size(1),
        padding_idx=embedding.padding_idx,
        device=old.device,
    )
    with torch.no_grad():
        new.weight[: len(old)] = old
        new.weight[len(old) :] = old[keep].mean(0)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new
