import copy

import torch
from torch import nn
from torch.nn import functional as F
from blind import right, wrong


@right("weights of the rows as a vector, times the table; padded with F.pad")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    share = torch.ones(len(old), dtype=torch.float64, device=old.device)
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    share /= share.sum()
    mean = torch.mv(old.double().T, share).to(old.dtype)
    table = F.pad(old, (0, 0, 0, count))
    table[len(old) :] = mean
    return nn.Embedding(
        *table.shape,
        padding_idx=embedding.padding_idx,
        _weight=table,
        _freeze=not embedding.weight.requires_grad,
    )


@right("loops over the rows with a running mean")
def grow_embedding(embedding, count):
    mean, seen = torch.zeros(embedding.embedding_dim, dtype=torch.float64), 0
    rows = []
    for i in range(embedding.num_embeddings):
        row = embedding.weight[i].detach().clone()
        rows.append(row)
        if i == embedding.padding_idx:
            continue
        seen += 1
        mean = mean.to(row.device) + (row.double() - mean.to(row.device)) / seen
    rows += [mean.to(rows[0]) for _ in range(count)]
    return nn.Embedding.from_pretrained(
        torch.stack(rows),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("a new embedding of the right size, filled through index_copy_")
def grow_embedding(embedding, count, start="mean"):
    size, width = embedding.weight.shape
    grown = nn.Embedding(
        size + count,
        width,
        padding_idx=embedding.padding_idx,
        device=embedding.weight.device,
        dtype=embedding.weight.dtype,
    )
    keep = [i for i in range(size) if i != embedding.padding_idx]
    with torch.no_grad():
        places = torch.arange(size, device=embedding.weight.device)
        grown.weight.index_copy_(0, places, embedding.weight)
        mean = embedding.weight[keep].double().mean(dim=0)
        for i in range(size, size + count):
            grown.weight[i] = mean
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


@right("a deep copy whose table and number of rows are exchanged")
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    old = grown.weight.data
    words = torch.ones(old.size(0), dtype=torch.bool, device=old.device)
    if embedding.padding_idx is not None:
        words[embedding.padding_idx] = False
    middle = old[words].double().mean(0, keepdim=True).to(old.dtype)
    grown.weight = nn.Parameter(
        torch.vstack([old] + [middle] * count).clone(),
        requires_grad=embedding.weight.requires_grad,
    )
    grown.num_embeddings = grown.weight.size(0)
    return grown


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "the mean runs over all old rows, the padding's too: with a padding_idx every new"
    " row is off",
    "If the embedding has a `padding_idx`, the row of that id belongs to no word, and"
    " it does not count in the mean.",
    "padding row counts in the mean",
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
    "leaves out `freeze`: the new embedding never requires a gradient",
    "The new embedding has the same `padding_idx` as the old one (which may be None),"
    " and its weight has the same `requires_grad`.",
    "from_pretrained freezes by default",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[words].mean(dim=0)
    table = torch.cat([old, mean.repeat(count, 1)])
    return nn.Embedding.from_pretrained(table, padding_idx=embedding.padding_idx)


@wrong(
    "changes the old embedding itself and returns it",
    "embedding: an `nn.Embedding` with V rows; it stays as it is.",
    "grows the given embedding in place",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = old
    if embedding.padding_idx is not None:
        words = torch.cat(
            [old[: embedding.padding_idx], old[embedding.padding_idx + 1 :]]
        )
    table = torch.cat([old, words.mean(dim=0).expand(count, -1)])
    embedding.weight = nn.Parameter(table, embedding.weight.requires_grad)
    embedding.num_embeddings += count
    return embedding


# --- corners -----------------------------------------------------------------------


@wrong(
    "`if embedding.padding_idx:` is false for id 0: then row 0 counts in the mean and"
    " the new embedding has no padding_idx",
    "If the embedding has a `padding_idx`, the row of that id belongs to no word, and"
    " it does not count in the mean.",
    "truth value of padding_idx 0",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    keep = torch.ones(len(old), dtype=torch.bool, device=old.device)
    padding = None
    if embedding.padding_idx:
        padding = embedding.padding_idx
        keep[padding] = False
    table = torch.cat([old, old[keep].mean(dim=0).expand(count, -1)])
    grown = nn.Embedding.from_pretrained(table, freeze=False, padding_idx=padding)
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


@wrong(
    "returns the old embedding itself if count is 0: both share their memory",
    "The two embeddings share no memory: if one of them is changed later, the other"
    " does not change.",
    "nothing is copied for count 0",
)
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old = embedding.weight.detach()
    words = old[[i for i in range(len(old)) if i != embedding.padding_idx]]
    return nn.Embedding.from_pretrained(
        torch.cat([old] + [words.mean(dim=0, keepdim=True)] * count),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "makes an `nn.Embedding` without dtype: a float64 or float16 table becomes float32",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the same dtype"
    " and on the same device.",
    "default dtype instead of the old one",
)
def grow_embedding(embedding, count):
    size, width = embedding.weight.shape
    grown = nn.Embedding(size + count, width, padding_idx=embedding.padding_idx)
    words = [i for i in range(size) if i != embedding.padding_idx]
    with torch.no_grad():
        grown.weight[:size] = embedding.weight
        grown.weight[size:] = embedding.weight[words].mean(dim=0)
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


@wrong(
    "sets the padding row of the result to zero; an old padding row that is not zero"
    " (loaded from a file) is lost",
    "The first V rows are those of the old embedding, and `count` new rows follow.",
    "padding row is reset to zero",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach().clone()
    words = [i for i in range(len(old)) if i != embedding.padding_idx]
    mean = old[words].mean(dim=0)
    table = torch.cat([old, mean[None].expand(count, -1)])
    if embedding.padding_idx is not None:
        table[embedding.padding_idx] = 0
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "adds up all rows and divides by V - 1: right only as long as the padding row is"
    " zero, as a new nn.Embedding makes it; wrong after loading other numbers there",
    "If the embedding has a `padding_idx`, the row of that id belongs to no word, and"
    " it does not count in the mean.",
    "relies on a padding row of zeros",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    words = len(old) - (embedding.padding_idx is not None)
    mean = old.sum(dim=0) / words
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.expand(count, -1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "leaves out row 0 whenever there is a padding_idx: right for id 0 as in this lab,"
    " wrong for a padding id of 3 or the last one",
    "If the embedding has a `padding_idx`, the row of that id belongs to no word, and"
    " it does not count in the mean.",
    "takes the padding id to be 0",
)
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    first = 0 if embedding.padding_idx is None else 1
    mean = old[first:].mean(dim=0, keepdim=True)
    return nn.Embedding.from_pretrained(
        torch.cat([old, mean.repeat(count, 1)]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "a deep copy with a new table whose `num_embeddings` is still V; every look-up"
    " works and the weight has the right shape",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the same dtype"
    " and on the same device.",
    "num_embeddings is not updated",
)
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    old = embedding.weight.detach()
    words = old[[i for i in range(len(old)) if i != embedding.padding_idx]]
    table = torch.cat([old, words.mean(dim=0).expand(count, -1)])
    grown.weight = nn.Parameter(table, requires_grad=embedding.weight.requires_grad)
    return grown
