import copy

import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong


@right("a deep copy whose table and number of rows are replaced")
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    table = embedding.weight.detach()
    words = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    mean = table[words].mean(dim=0, keepdim=True)
    grown.weight = nn.Parameter(
        torch.cat([table, mean.repeat(count, 1)]),
        requires_grad=embedding.weight.requires_grad,
    )
    grown.num_embeddings = len(table) + count
    return grown


@right("an empty embedding of the right size that is filled row by row")
def grow_embedding(embedding, count):
    old = embedding.weight
    grown = nn.Embedding(
        embedding.num_embeddings + count,
        embedding.embedding_dim,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    with torch.no_grad():
        mean = old[words].mean(dim=0)
        for i in range(len(grown.weight)):
            grown.weight[i] = old[i] if i < len(old) else mean
    grown.weight.requires_grad_(old.requires_grad)
    return grown


@right("F.pad makes room for the new rows, which are then written into it")
@torch.no_grad()
def grow_embedding(embedding, count, *, padding=None):
    padding = embedding.padding_idx if padding is None else padding
    table = F.pad(embedding.weight, (0, 0, 0, count)).clone()
    size = embedding.num_embeddings
    if padding is None:
        words = table[:size]
    else:
        words = torch.cat((table[:padding], table[padding + 1 : size]))
    table[size:] = words.mean(0)
    grown = nn.Embedding.from_pretrained(table, freeze=True, padding_idx=padding)
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


@right("the mean as weighted sum in float64, rounded once")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = torch.arange(table.size(0), device=table.device)
    if embedding.padding_idx is not None:
        keep = keep[keep != embedding.padding_idx]
    total = table.index_select(0, keep).double() / keep.numel()
    new = total.sum(dim=0).to(table.dtype).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.vstack([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "takes the mean of all rows, also of the padding row",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "padding row counted in the mean",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    new = table.mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "leaves freeze at its default, so the new weight never requires a gradient",
    "Give its weight the same `requires_grad`.",
    "from_pretrained freezes the new table",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx is not None:
        p = embedding.padding_idx
        words = torch.cat([table[:p], table[p + 1 :]])
    new = words.mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]), padding_idx=embedding.padding_idx
    )


@wrong(
    "puts the longer table into the old embedding and returns that",
    "embedding: an `nn.Embedding` with V rows; do not change it.",
    "old embedding changed in place",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[words].mean(dim=0).repeat(count, 1)
    embedding.weight = nn.Parameter(
        torch.cat([table, new]), requires_grad=embedding.weight.requires_grad
    )
    embedding.num_embeddings += count
    return embedding


@wrong(
    "tests padding_idx for truth, so a padding_idx of 0 is taken for none: its row counts in the mean",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word.",
    "padding_idx 0 treated as None",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx:
        p = embedding.padding_idx
        words = torch.cat([table[:p], table[p + 1 :]])
    new = words.mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "returns the old embedding itself when count is 0",
    "The two embeddings must not share memory: a later change to one of them must not change the other.",
    "same object returned for count 0",
)
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    table = embedding.weight.detach()
    words = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[words].mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "makes a new nn.Embedding without dtype and device: float32 on the CPU for a bfloat16 or float64 table",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype and on its device.",
    "dtype and device of the old table lost",
)
def grow_embedding(embedding, count):
    size, dim = embedding.weight.shape
    grown = nn.Embedding(size + count, dim, padding_idx=embedding.padding_idx)
    words = [i for i in range(size) if i != embedding.padding_idx]
    with torch.no_grad():
        grown.weight[:size] = embedding.weight
        grown.weight[size:] = embedding.weight[words].mean(dim=0)
    return grown.requires_grad_(embedding.weight.requires_grad)


@wrong(
    "sets the padding row to zero, also if the old one was not zero",
    "Take the V rows of the old embedding first, and add `count` new rows after them.",
    "padding row overwritten with zeros",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[words].mean(dim=0).repeat(count, 1)
    grown = nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )
    if grown.padding_idx is not None:
        grown.weight.data[grown.padding_idx].zero_()
    return grown


@wrong(
    "subtracts the padding row from the sum of all rows: if this row is huge (or infinite), the words are lost in rounding",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "padding row subtracted instead of left out",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    total, number = table.sum(dim=0), len(table)
    if embedding.padding_idx is not None:
        total = total - table[embedding.padding_idx]
        number -= 1
    new = (total / number).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "takes every row of zeros for padding: wrong if a word's row is zero, or if the padding row is not",
    "Set each new row to the mean of the old rows.",
    "padding guessed from rows of zeros",
)
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = table[table.ne(0).any(dim=1)]
    if len(words) == 0:
        words = table
    new = words.mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "deep copy with a new weight, but num_embeddings still says V",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype and on its device.",
    "num_embeddings not updated",
)
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    table = embedding.weight.detach()
    words = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[words].mean(dim=0).repeat(count, 1)
    grown.weight = nn.Parameter(torch.cat([table, new]))
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown
