import copy

import torch
import torch.nn.functional as F
from blind import right, wrong
from torch import nn

FIRST = "Take the V rows of the old embedding first, and add `count` new rows after them."
MEAN = "Set each new row to the mean of the old rows."
OUT = "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word."
PAD = "Give the new embedding the same `padding_idx` as the old one (it may be None)."
GRAD = "Give its weight the same `requires_grad`."
MEMORY = "The two embeddings must not share memory: a later change to one of them must not change the other."
OLD = "embedding: an `nn.Embedding` with V rows; do not change it."
ROWS = "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's"
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."


def words(embedding):
    """The rows of words."""
    table = embedding.weight.detach()
    keep = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx is not None:
        keep[embedding.padding_idx] = False
    return table[keep]


def make(table, old):
    return nn.Embedding.from_pretrained(table, freeze=not old.weight.requires_grad, padding_idx=old.padding_idx)


@right("makes an ordinary new embedding and writes both parts into it")
def grow_embedding(embedding, count):
    old = embedding.weight
    new = nn.Embedding(
        len(old) + count, old.shape[1], padding_idx=embedding.padding_idx, device=old.device, dtype=old.dtype
    )
    with torch.no_grad():
        new.weight[: len(old)] = old
        if count:
            new.weight[len(old) :] = words(embedding).double().mean(0).to(old.dtype)
    new.weight.requires_grad_(old.requires_grad)
    return new


@right("the mean is a product with a row of weights 1 / n, 0 for padding")
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    share = old.new_ones(len(old), dtype=torch.float64)
    if pad is not None:
        share[pad] = 0
    mean = (share / share.sum()) @ old.double()
    table = torch.cat([old, mean.to(old.dtype).expand(count, -1)])
    new = nn.Embedding(*table.shape, padding_idx=pad, _weight=table)
    new.weight.requires_grad = embedding.weight.requires_grad
    return new


@right("looks all rows up, by id, in a table whose last row is the mean")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    size, pad = len(old), embedding.padding_idx
    ids = [i for i in range(size) if i != pad]
    mean = old[ids].mean(dim=0, keepdim=True)
    chosen = torch.arange(size + count, device=old.device).clamp(max=size)
    return make(F.embedding(chosen, torch.cat([old, mean])), embedding)


@right("pads the table with rows of zeros and adds the mean to them; mean as a difference of sums in float64")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    others = old.double()
    if embedding.padding_idx is not None:
        at = embedding.padding_idx
        others = torch.cat([others[:at], others[at + 1 :]])
    table = F.pad(old.clone(), (0, 0, 0, count))
    table[old.shape[0] :] += (others.sum(0) / others.shape[0]).to(old.dtype)
    new = make(table, embedding)
    return new


@wrong("the padding row is part of the mean", breaks=OUT, name="padding in the mean")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    return make(torch.cat([old, old.mean(0).expand(count, -1)]), embedding)


@wrong("from_pretrained without freeze: the weight never requires a gradient", breaks=GRAD, name="frozen by from_pretrained")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    mean = words(embedding).mean(0)
    return nn.Embedding.from_pretrained(torch.cat([old, mean.expand(count, -1)]), padding_idx=embedding.padding_idx)


@wrong("returns the old embedding itself if count is 0", breaks=MEMORY, name="no copy for count 0")
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old = embedding.weight.detach()
    return make(torch.cat([old, words(embedding).mean(0).expand(count, -1)]), embedding)


@wrong("asks `if embedding.padding_idx`, so the padding id 0 counts as none and its row is in the mean", breaks=OUT, name="padding id 0 is false")
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    rows = torch.cat([old[:pad], old[pad + 1 :]]) if pad else old
    return make(torch.cat([old, rows.mean(0).expand(count, -1)]), embedding)


@wrong("sums all rows and divides by their number less one: assumes that the padding row is zero, which it need not be", breaks=OUT, name="assumes a zero padding row")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    number = len(old) - (embedding.padding_idx is not None)
    mean = old.sum(0) / number
    return make(torch.cat([old, mean.expand(count, -1)]), embedding)


@wrong("sets the padding row of the new table to zero, though the old one holds other numbers", breaks=FIRST, name="resets the padding row")
def grow_embedding(embedding, count):
    table = torch.cat([embedding.weight.detach(), words(embedding).mean(0).expand(count, -1)])
    new = make(table, embedding)
    new.weight.requires_grad_(False)
    if new.padding_idx is not None:
        new.weight[new.padding_idx] = 0
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong("a deep copy with a longer weight, whose num_embeddings is still V", breaks=ROWS, name="num_embeddings is not updated")
def grow_embedding(embedding, count):
    new = copy.deepcopy(embedding)
    old = embedding.weight.detach()
    table = torch.cat([old, words(embedding).mean(0).expand(count, -1)])
    new.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    return new


@wrong("leaves out of the mean every row that is all zero, even that of a word", breaks=MEAN, name="zero rows left out of the mean")
def grow_embedding(embedding, count):
    old, rows = embedding.weight.detach(), words(embedding)
    used = rows[(rows != 0).any(dim=1)]
    mean = used.mean(0) if len(used) else rows.mean(0)
    return make(torch.cat([old, mean.expand(count, -1)]), embedding)


@wrong("appends the rows to the old embedding's own weight and returns a copy of it: the old one grows, too", breaks=OLD, name="grows the old embedding")
def grow_embedding(embedding, count):
    with torch.no_grad():
        embedding.weight.data = torch.cat([embedding.weight.data, words(embedding).mean(0).expand(count, -1)])
    embedding.num_embeddings += count
    return copy.deepcopy(embedding)


@wrong("the new embedding has no padding_idx, so the padding row is trained", breaks=PAD, name="padding_idx forgotten")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    table = torch.cat([old, words(embedding).mean(0).expand(count, -1)])
    return nn.Embedding.from_pretrained(table, freeze=not embedding.weight.requires_grad)
