import torch
from torch import nn

from blind import right, wrong

ROWS = "Take the V rows of the old embedding first, and add `count` new rows after them."
SHARE = "The two embeddings must not share memory: a later change to one of them must not change the other."
MEAN = "Set each new row to the mean of the old rows."
PADDING = "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word."
SAME = "Give the new embedding the same `padding_idx` as the old one (it may be None)."
GRAD = "Give its weight the same `requires_grad`."
KEEP = "embedding: an `nn.Embedding` with V rows; do not change it."
RETURNS = "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype and on its device."
OLD = "The old rows must not change, because the rest of the body was trained with them."


# wrong, plain


@wrong(
    "draws the new rows at random",
    MEAN,
    "new rows at random",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    new = torch.randn(count, old.size(1)).to(old)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "the row of the padding counts in the mean",
    PADDING,
    "padding in the mean",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    new = old.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "the new embedding has no padding_idx",
    SAME,
    "padding_idx lost",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=not embedding.weight.requires_grad
    )


@wrong(
    "lets the old embedding itself grow, and returns it",
    KEEP,
    "old embedding changed",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    embedding.weight = nn.Parameter(
        torch.cat([old, new]), requires_grad=embedding.weight.requires_grad
    )
    embedding.num_embeddings += count
    return embedding


# wrong, subtle


@wrong(
    "takes a padding_idx of 0 for none at all when it computes the mean",
    PADDING,
    "padding_idx 0 is falsy",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx:
        words[embedding.padding_idx] = False
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "returns the old embedding itself if there is nothing to add",
    SHARE,
    "count 0 shares memory",
    subtle=True,
)
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "takes the padding's row for zeros: sums all rows, and divides by V - 1",
    PADDING,
    "padding's row taken for zeros",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = len(old) - (embedding.padding_idx is not None)
    new = (old.sum(dim=0, keepdim=True) / words).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "the new weight always requires a gradient, also if the old one was frozen",
    GRAD,
    "requires_grad always True",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=False, padding_idx=embedding.padding_idx
    )


@wrong(
    "makes an embedding of the default dtype, and copies into it",
    RETURNS,
    "dtype of the old embedding lost",
    subtle=True,
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    grown = nn.Embedding(
        len(old) + count,
        old.size(1),
        padding_idx=embedding.padding_idx,
        device=old.device,
    )
    with torch.no_grad():
        grown.weight[: len(old)] = old
        grown.weight[len(old) :] = old[words].mean(dim=0)
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


@wrong(
    "sets the padding's row of the new table to zero",
    OLD,
    "padding's row set to zero",
    subtle=True,
)
def grow_embedding(embedding, count):
    old, padding = embedding.weight.detach(), embedding.padding_idx
    table = torch.cat([old, old[:1].expand(count, -1)])
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if padding is not None:
        words[padding] = False
        table[padding] = 0  # padding means nothing
    table[len(old) :] = old[words].mean(dim=0)
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=padding
    )


# right


@right("a product with a row of weights in float64, and copy_ into a new embedding")
def grow_embedding(embedding, count):
    size, dim = embedding.weight.shape
    with torch.no_grad():
        old = embedding.weight
        share = torch.ones(size, dtype=torch.float64, device=old.device)
        if embedding.padding_idx is not None:
            share[embedding.padding_idx] = 0
        mean = torch.einsum("v,vd->d", share / share.sum(), old.double())
        grown = nn.Embedding(
            size + count,
            dim,
            padding_idx=embedding.padding_idx,
            dtype=old.dtype,
            device=old.device,
        )
        grown.weight[:size].copy_(old)
        grown.weight[size:].copy_(mean.to(old.dtype))
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


@right("a list of rows, one after the other, stacked at the end")
def grow_embedding(embedding, count):
    rows = list(embedding.weight.detach().clone())
    words = [row for i, row in enumerate(rows) if i != embedding.padding_idx]
    mean = torch.stack(words).mean(dim=0)
    for _ in range(count):
        rows.append(mean)
    return nn.Embedding.from_pretrained(
        torch.stack(rows),
        padding_idx=embedding.padding_idx,
        freeze=not embedding.weight.requires_grad,
    )


@right("an index of old rows for a longer table, the new rows put in afterwards")
def grow_embedding(embedding, count):
    old = embedding.weight.data
    size, padding = embedding.num_embeddings, embedding.padding_idx
    table = old[torch.arange(size + count, device=old.device).clamp(max=size - 1)]
    ids = torch.arange(size, device=old.device)
    if padding is not None:
        ids = torch.cat((ids[:padding], ids[padding + 1 :]))
    table[size:] = old.index_select(0, ids).to(torch.float64).mean(0).to(old.dtype)
    grown = nn.Embedding(size + count, old.size(1), padding_idx=padding, _weight=table)
    return grown.requires_grad_(embedding.weight.requires_grad)


@right("pads a table in float64 with rows of zeros, and adds the mean to them")
def grow_embedding(embedding, count):
    table = embedding.weight.detach().to(torch.float64, copy=True)
    kept = table if embedding.padding_idx is None else torch.cat(
        [table[: embedding.padding_idx], table[embedding.padding_idx + 1 :]]
    )
    mean = kept.mul(1 / kept.size(0)).sum(dim=0)
    whole = nn.functional.pad(table, (0, 0, 0, count))
    whole[table.size(0) :] += mean
    grown = nn.Embedding(*whole.shape, padding_idx=embedding.padding_idx).to(
        device=embedding.weight.device, dtype=embedding.weight.dtype
    )
    grown.weight = nn.Parameter(whole.to(embedding.weight.dtype, copy=True))
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown
