import torch
import torch.nn.functional as F
from torch import nn
from blind import right, wrong

ROWS = "Take the V rows of the old embedding first, and add `count` new rows after them."
MEAN = "Set each new row to the mean of the old rows."
PAD = "If the embedding has a `padding_idx`, leave the row of this id out of the mean, because it belongs to no word."
GRAD = "Give its weight the same `requires_grad`."
MEMORY = "The two embeddings must not share memory: a later change to one of them must not change the other."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
CHANGE = "embedding: an `nn.Embedding` with V rows; do not change it."
NUM = "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype and on its device."


@right("a mask of the rows, from_pretrained")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    mean = table[words].mean(dim=0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([table, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("a new module, filled in place; mean in float64 of what lies around the padding row")
def grow_embedding(embedding, count):
    weight, pad = embedding.weight, embedding.padding_idx
    rows, dim = weight.shape
    new = nn.Embedding(
        rows + count, dim, padding_idx=pad, device=weight.device, dtype=weight.dtype
    )
    with torch.no_grad():
        exact = weight.double()
        rest = exact if pad is None else torch.cat([exact[:pad], exact[pad + 1 :]])
        new.weight[:rows] = weight
        new.weight[rows:] = (rest.sum(dim=0) / rest.size(0)).to(weight.dtype)
    return new.requires_grad_(weight.requires_grad)


@right("the mean as a product with a vector of shares, in float64")
def grow_embedding(embedding, count):
    old = embedding.weight.detach().to(torch.float64)
    share = old.new_ones(old.size(0))
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    share = share / share.sum()
    extra = torch.einsum("v,vd->d", share, old).repeat(count, 1)
    table = torch.vstack([old, extra]).to(embedding.weight.dtype)
    grown = nn.Embedding(
        table.size(0), table.size(1), padding_idx=embedding.padding_idx, _weight=table
    )
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


def _row_mean(table, skip):
    total, number = torch.zeros_like(table[0], dtype=torch.float64), 0
    for i, row in enumerate(table):
        if i != skip:
            total, number = total + row, number + 1
    return (total / number).to(table.dtype)


@right("a loop over the rows, F.pad makes the room")
def grow_embedding(embedding, count):
    table = embedding.weight.data
    larger = F.pad(table, (0, 0, 0, count)).clone()
    larger[table.shape[0] :] = _row_mean(table, embedding.padding_idx)
    result = nn.Embedding.from_pretrained(larger, padding_idx=embedding.padding_idx)
    result.weight.requires_grad_(embedding.weight.requires_grad)
    return result


@wrong("`if padding_idx` is false for the id 0, so its row is in the mean", breaks=PAD, name="padding_idx 0 taken for None")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx:
        words[embedding.padding_idx] = False
    mean = table[words].mean(dim=0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([table, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong("from_pretrained freezes the table unless it is told not to", breaks=GRAD, name="freeze left at its default")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[keep].mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]), padding_idx=embedding.padding_idx
    )


@wrong("with count 0 the new embedding is built on the old table itself", breaks=MEMORY, name="no copy if no row is added")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    if count > 0:
        keep = [i for i in range(len(table)) if i != embedding.padding_idx]
        new = table[keep].mean(dim=0).repeat(count, 1)
        table = torch.cat([table, new])
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong("sums all rows and divides by V - 1, which is right only if the padding row is zero", breaks=PAD, name="takes the padding row for zeros")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    words = len(table) - (embedding.padding_idx is not None)
    new = (table.sum(dim=0) / words).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong("the row of the padding id is set to zero in the new table", breaks=ROWS, name="resets the padding row")
def grow_embedding(embedding, count):
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = nn.Embedding(
        len(table) + count,
        table.size(1),
        padding_idx=pad,
        device=table.device,
        dtype=table.dtype,
    )
    with torch.no_grad():
        new.weight[keep] = table[keep]
        new.weight[len(table) :] = table[keep].mean(dim=0)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong("a new module is float32, whatever the old one was", breaks=DTYPE, name="dtype of the new module left at its default")
def grow_embedding(embedding, count):
    table, pad = embedding.weight.detach(), embedding.padding_idx
    keep = [i for i in range(len(table)) if i != pad]
    new = nn.Embedding(
        len(table) + count, table.size(1), padding_idx=pad, device=table.device
    )
    with torch.no_grad():
        new.weight[: len(table)] = table.to(new.weight.dtype)
        new.weight[len(table) :] = table[keep].mean(dim=0).to(new.weight.dtype)
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong("gives the old module the larger table and returns it", breaks=CHANGE, name="grows the old embedding in place")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[keep].mean(dim=0).repeat(count, 1)
    embedding.weight = nn.Parameter(
        torch.cat([table, new]), requires_grad=embedding.weight.requires_grad
    )
    embedding.num_embeddings += count
    return embedding


@wrong("swaps the weight of a new module of V rows, whose num_embeddings stays V", breaks=NUM, name="num_embeddings not updated")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = [i for i in range(len(table)) if i != embedding.padding_idx]
    extra = table[keep].mean(dim=0).repeat(count, 1)
    new = nn.Embedding(*table.shape, padding_idx=embedding.padding_idx)
    new.weight = nn.Parameter(
        torch.cat([table, extra]), requires_grad=embedding.weight.requires_grad
    )
    return new


@wrong("takes the mean of the rows after the padding row only", breaks=MEAN, name="padding taken for the first row")
def grow_embedding(embedding, count):
    table, pad = embedding.weight.detach(), embedding.padding_idx
    if pad is None:
        words = table
    elif pad == len(table) - 1:
        words = table[:pad]
    else:
        words = table[pad + 1 :]
    new = words.mean(dim=0).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong("puts the new rows before the old ones, so every old id gets another row", breaks=ROWS, name="new rows first")
def grow_embedding(embedding, count):
    table = embedding.weight.detach()
    keep = [i for i in range(len(table)) if i != embedding.padding_idx]
    new = table[keep].mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([new, table]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )
