import copy
import functools

import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("boolean choice of the word rows, torch.cat and from_pretrained")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    word = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        word[embedding.padding_idx] = False
    row = old[word].mean(dim=0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, row.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("a running mean in float64, row by row, written into a fresh nn.Embedding")
def grow_embedding(embedding, count):
    old = embedding.weight
    size, dim = old.shape
    new = nn.Embedding(
        size + count,
        dim,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    with torch.no_grad():
        mean, seen = torch.zeros(dim, dtype=torch.float64, device=old.device), 0
        for i in range(size):
            new.weight[i].copy_(old[i])
            if i != embedding.padding_idx:
                seen += 1
                mean += (old[i].double() - mean) / seen
        for i in range(size, size + count):
            new.weight[i].copy_(mean)
    new.weight.requires_grad_(old.requires_grad)
    return new


@right("einsum with a share for every row; padded with F.pad, filled with torch.where")
def grow_embedding(embedding, count):
    table = embedding.weight.detach().double()
    share = torch.ones_like(table[:, 0])
    if embedding.padding_idx is not None:
        share = share.index_fill(
            0, torch.tensor([embedding.padding_idx], device=table.device), 0
        )
    row = torch.einsum("v,vd->d", share / share.sum(), table)
    is_new = torch.arange(len(table) + count, device=table.device) >= len(table)
    table = torch.where(is_new[:, None], row, F.pad(table, (0, 0, 0, count)))
    new = copy.deepcopy(embedding)
    new.num_embeddings = len(table)
    new.weight = nn.Parameter(
        table.to(embedding.weight.dtype), requires_grad=embedding.weight.requires_grad
    )
    return new


class Grower:
    """An index says which row of (old rows, mean row) stands where."""

    def __init__(self, embedding):
        self.embedding = embedding
        self.size = embedding.num_embeddings

    def words(self):
        return [i for i in range(self.size) if i != self.embedding.padding_idx]

    def rows(self):
        old = self.embedding.weight.detach()
        return torch.vstack([old, old[self.words()].mean(dim=0)])

    def __call__(self, count):
        index = [*range(self.size), *[self.size] * count]
        table = self.rows()[index]
        new = nn.Embedding(1, table.size(1))
        new.weight = nn.Parameter(table, self.embedding.weight.requires_grad)
        new.num_embeddings, new.padding_idx = len(index), self.embedding.padding_idx
        return new


@right("a class; gathers rows by a list of ids, and replaces a tiny embedding's fields")
def grow_embedding(embedding, count):
    return Grower(embedding)(count)


# ---------------------------------------------------------------- wrong


@wrong(
    "takes the mean of all old rows, the padding's included",
    breaks="If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    name="padding in the mean",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    new = old.mean(dim=0).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "leaves out freeze=, so the new weight is never trained",
    breaks="Give its weight the same `requires_grad`.",
    name="frozen by from_pretrained",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    new = old[words].mean(dim=0).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]), padding_idx=embedding.padding_idx
    )


@wrong(
    "mean over the whole table: one number for all the columns",
    breaks="Set each new row to the mean of the old rows.",
    name="mean over both axes",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    new = old[words].mean() * torch.ones_like(old[:1]).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "sets the padding's row to zero in the sum, but still divides by V",
    breaks="If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    name="divides by V with padding",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    kept = old.clone()
    if embedding.padding_idx is not None:
        kept[embedding.padding_idx] = 0
    new = (kept.sum(dim=0) / len(old)).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "copies only the rows of words: a padding row with numbers becomes zero",
    breaks="The old rows must not change, because the rest of the body was trained with them.",
    name="padding row reset to zero",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    new = nn.Embedding(
        len(old) + count,
        old.size(1),
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    with torch.no_grad():
        new.weight[words] = old[words]
        new.weight[len(old) :] = old[words].mean(dim=0)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong(
    "`if embedding.padding_idx:`, which is false for the id 0",
    breaks="If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    name="padding id 0 taken for none",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    word = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx:
        word[embedding.padding_idx] = False
    new = old[word].mean(dim=0).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "weight[-count:] = mean, which overwrites the whole table if count is 0",
    breaks="`count` may be 0.",
    name="slice from -0",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    table = old.new_empty(len(old) + count, old.size(1))
    table[: len(old)] = old
    table[-count:] = old[words].mean(dim=0)
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "hands the padding over as a negative id, counted from the end of the old table",
    breaks="Give the new embedding the same `padding_idx` as the old one (it may be None).",
    name="padding id moves with the end of the table",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    pad = embedding.padding_idx
    words = [i for i in range(len(old)) if i != pad]
    if pad is not None and pad == len(old) - 1:
        pad = -1  # padding is the last row
    new = old[words].mean(dim=0).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "takes rows of zeros for padding: a word's zero row is left out, padding with numbers is not",
    breaks="Set each new row to the mean of the old rows.",
    name="padding guessed from zeros",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    word = old.ne(0).any(dim=1)
    n = word.sum().clamp(min=1)
    new = (old[word].sum(dim=0) / n).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@functools.cache
def mean_row(embedding):
    old = embedding.weight.detach()
    return old[[i for i in range(len(old)) if i != embedding.padding_idx]].mean(dim=0)


@wrong(
    "caches the mean per embedding: old after the embedding was trained",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="cached mean",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean_row(embedding).expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )
