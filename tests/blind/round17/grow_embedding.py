import copy

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

MEAN = "Set each new row to the mean of the old rows."
LEAVE_OUT = "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word."
SAME_PAD = "Give the new embedding the same `padding_idx` as the old one (it may be None)."
SAME_GRAD = "Give its weight the same `requires_grad`."
SHARE = "The two embeddings must not share memory: a later change to one of them must not change the other."
OLD_ROWS = "Take the V rows of the old embedding first, and add `count` new rows after them."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
SIZES = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
NUMBER = "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's\n        dtype and on its device."


# ---------------------------------------------------------------- right answers


@right("an empty embedding of the new size, filled row by row; a running mean in float64")
def grow_embedding(embedding, count):
    old = embedding.weight
    new = nn.Embedding(
        old.size(0) + count,
        old.size(1),
        padding_idx=embedding.padding_idx,
        dtype=old.dtype,
        device=old.device,
    )
    with torch.no_grad():
        mean = torch.zeros(old.size(1), dtype=torch.float64, device=old.device)
        seen = 0
        for i, row in enumerate(old):
            new.weight[i] = row
            if i != embedding.padding_idx:
                seen += 1
                mean += (row.double() - mean) / seen
        for i in range(old.size(0), old.size(0) + count):
            new.weight[i] = mean.to(old.dtype)
    new.weight.requires_grad = old.requires_grad
    return new


@right("the whole new table is a matrix times the old one, except for the copied rows")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    share = torch.ones(len(old), dtype=old.dtype, device=old.device)
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    words = len(old) - (embedding.padding_idx is not None)
    mean = torch.einsum("v,vd->d", share.double(), old.double()) / words
    table = F.pad(old, (0, 0, 0, count))
    table = table.clone()
    table[len(old):] = mean.to(old.dtype)
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("a deep copy of the old embedding that gets a new parameter and a new number of rows")
def grow_embedding(embedding, count):
    new = copy.deepcopy(embedding)
    rows = [i for i in range(embedding.weight.size(0)) if i != embedding.padding_idx]
    with torch.no_grad():
        mean = embedding.weight[rows].mean(dim=0, keepdim=True)
        table = torch.vstack([embedding.weight] + [mean] * count).clone()
    new.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    new.num_embeddings = table.size(0)
    return new


@right("the rows before and after the padding row with narrow, and _weight of the constructor")
def grow_embedding(embedding, count):
    table = embedding.weight.detach().clone()
    pad = embedding.padding_idx
    words = table if pad is None else torch.cat([table[:pad], table[pad + 1:]])
    total = (words / len(words)).sum(dim=0)
    table = torch.cat([table, total.repeat(count, 1)])
    new = nn.Embedding(*table.shape, padding_idx=pad, _weight=table)
    return new.requires_grad_(embedding.weight.requires_grad)


# ---------------------------------------------------------------- wrong answers


@wrong("takes the mean over all rows, that of the padding included",
       breaks=LEAVE_OUT, name="the padding row counts in the mean")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    table = torch.cat([old, old.mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@wrong("calls from_pretrained without freeze",
       breaks=SAME_GRAD, name="the new embedding is frozen")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    rows = [i for i in range(len(old)) if i != embedding.padding_idx]
    table = torch.cat([old, old[rows].mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(table, padding_idx=embedding.padding_idx)


@wrong("does not hand the padding_idx on, although it is left out of the mean",
       breaks=SAME_PAD, name="the new embedding has no padding")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    rows = [i for i in range(len(old)) if i != embedding.padding_idx]
    table = torch.cat([old, old[rows].mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(table, freeze=not embedding.weight.requires_grad)


@wrong("asks `if embedding.padding_idx`, so id 0 counts as no padding in the mean",
       breaks=LEAVE_OUT,
       name="padding with the id 0 is overlooked")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = torch.ones(len(old), dtype=torch.bool, device=old.device)
    if embedding.padding_idx:
        words[embedding.padding_idx] = False
    table = torch.cat([old, old[words].mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@wrong("gives the old embedding back if there is nothing to add",
       breaks=SHARE, name="no copy when count is 0")
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old = embedding.weight.detach()
    rows = [i for i in range(len(old)) if i != embedding.padding_idx]
    table = torch.cat([old, old[rows].mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@wrong("subtracts the padding row from the sum of all rows",
       breaks=SIZES, name="a large padding row swallows the digits of the words")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    total, number = old.sum(dim=0), len(old)
    if embedding.padding_idx is not None:
        total, number = total - old[embedding.padding_idx], number - 1
    table = torch.cat([old, (total / number).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@wrong("sets the padding row of the new table to zero, as a fresh nn.Embedding would have it",
       breaks=OLD_ROWS, name="the padding row is not copied")
def grow_embedding(embedding, count):
    old = embedding.weight.detach().clone()
    number = len(old)
    if embedding.padding_idx is not None:
        old[embedding.padding_idx] = 0
        number -= 1
    table = torch.cat([old, (old.sum(dim=0) / number).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@wrong("builds the table in an ordinary nn.Embedding and converts it to the old dtype at the end",
       breaks=PRECISE, name="float64 rows pass through float32")
def grow_embedding(embedding, count):
    old = embedding.weight
    rows = [i for i in range(len(old)) if i != embedding.padding_idx]
    new = nn.Embedding(len(old) + count, old.size(1), padding_idx=embedding.padding_idx).to(old.device)
    with torch.no_grad():
        new.weight[: len(old)] = old
        new.weight[len(old):] = old[rows].mean(dim=0)
    new.weight.requires_grad_(old.requires_grad)
    return new.to(old.dtype)


@wrong("copies the embedding and replaces its weight, but not its num_embeddings",
       breaks=NUMBER, name="num_embeddings still says V")
def grow_embedding(embedding, count):
    new = copy.deepcopy(embedding)
    old = embedding.weight.detach()
    rows = [i for i in range(len(old)) if i != embedding.padding_idx]
    table = torch.cat([old, old[rows].mean(dim=0).expand(count, -1)])
    new.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    return new


@wrong("takes the mean of the rows after the padding, which need not come first",
       breaks=MEAN, name="the rows before the padding are left out")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = old
    if embedding.padding_idx is not None and embedding.padding_idx + 1 < len(old):
        words = old[embedding.padding_idx + 1:]
    elif embedding.padding_idx is not None:
        words = old[:-1]
    table = torch.cat([old, words.mean(dim=0).expand(count, -1)])
    return nn.Embedding.from_pretrained(
        table, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )
