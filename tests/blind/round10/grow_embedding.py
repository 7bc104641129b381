import copy

import torch
from blind import right, wrong
from torch import nn


@right("makes an nn.Embedding of the new size and writes the rows into it under no_grad")
def grow_embedding(embedding, count):
    V, D = embedding.weight.shape
    words = [row for row in range(V) if row != embedding.padding_idx]
    grown = nn.Embedding(
        V + count,
        D,
        padding_idx=embedding.padding_idx,
        device=embedding.weight.device,
        dtype=embedding.weight.dtype,
    )
    with torch.no_grad():
        grown.weight[:V] = embedding.weight
        grown.weight[V:] = embedding.weight[words].mean(dim=0)
    grown.weight.requires_grad_(embedding.weight.requires_grad)
    return grown


@right("a list of row vectors, stacked again; the mean is a product with equal shares")
def grow_embedding(embedding, count):
    old = embedding.weight.detach()
    rows = list(old.unbind())
    words = rows.copy()
    if embedding.padding_idx is not None:
        del words[embedding.padding_idx]
    share = old.new_full((len(words),), 1.0, dtype=torch.float64) / len(words)
    mean = (share @ torch.stack(words).double()).to(old.dtype)
    table = torch.stack(rows + [mean] * count)
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("a deep copy of the old embedding that gets a longer parameter and a new length")
def grow_embedding(embedding, count, start=None):
    grown = copy.deepcopy(embedding)
    table = embedding.weight.detach()
    if start is None:
        pad = embedding.padding_idx
        words = [i for i in range(len(table)) if i != pad]
        words = table.index_select(0, torch.tensor(words, device=table.device))
        start = words.mean(dim=0)
    grown.weight = nn.Parameter(
        torch.cat((table, start.repeat(count, 1))),
        requires_grad=embedding.weight.requires_grad,
    )
    grown.num_embeddings = len(grown.weight)
    return grown


@right("a subclass of nn.Embedding with a class method; the mean adds row by row in float64")
def grow_embedding(embedding, count):
    class GrownEmbedding(nn.Embedding):
        @classmethod
        def of(cls, other):
            total, words = 0.0, 0
            for row, vector in enumerate(other.weight.detach()):
                if row != other.padding_idx:
                    total, words = total + vector.double(), words + 1
            table = other.weight.detach().clone()
            for _ in range(count):
                mean = (total / words).to(table.dtype)
                table = torch.vstack((table, mean))
            self = cls(*table.shape, other.padding_idx, _weight=table)
            self.weight.requires_grad = other.weight.requires_grad
            return self

    return GrownEmbedding.of(embedding)


@wrong(
    "the row of padding_idx counts in the mean: wrong for an embedding with a padding_idx,"
    " unless that row happens to equal the mean",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "Padding counts in the mean",
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
    "from_pretrained without `freeze`: the new weight never requires a gradient, also where"
    " the old one does",
    "Give its weight the same `requires_grad`.",
    "New embedding is always frozen",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.arange(len(old), device=old.device) != (-1 if pad is None else pad)
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(torch.cat([old, new]), padding_idx=pad)


@wrong(
    "does not hand the padding_idx on: the new embedding has none, so its padding row gets"
    " gradients",
    "Give the new embedding the same `padding_idx` as the old one (it may be None).",
    "padding_idx is lost",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.arange(len(old), device=old.device) != (-1 if pad is None else pad)
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=not embedding.weight.requires_grad
    )


@wrong(
    "`if embedding.padding_idx` takes a padding_idx of 0 for none: row 0 counts in the mean"
    " then",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "padding_idx 0 is taken for None",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = old
    if pad:
        words = torch.cat([old[:pad], old[pad + 1 :]])
    new = words.mean(dim=0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "returns the old embedding itself for count 0, so a change to one is a change to the"
    " other",
    "The two embeddings must not share memory: a later change to one of them must not"
    " change the other.",
    "Returns the old embedding for count 0",
)
def grow_embedding(embedding, count):
    if count == 0:
        return embedding
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.arange(len(old), device=old.device) != (-1 if pad is None else pad)
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "the new embedding is made with the default dtype and device: float32 on the CPU, also"
    " where the old one is bfloat16, float64 or on a GPU",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype"
    " and on its device.",
    "Default dtype and device",
)
def grow_embedding(embedding, count):
    V, D = embedding.weight.shape
    pad = embedding.padding_idx
    words = [i for i in range(V) if i != pad]
    grown = nn.Embedding(V + count, D, padding_idx=pad)
    with torch.no_grad():
        grown.weight[:V] = embedding.weight
        grown.weight[V:] = embedding.weight[words].mean(dim=0)
    grown.weight.requires_grad = embedding.weight.requires_grad
    return grown


@wrong(
    "freeze=False always: an embedding that was frozen can be trained once it has grown",
    "Give its weight the same `requires_grad`.",
    "A frozen embedding becomes trainable",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.arange(len(old), device=old.device) != (-1 if pad is None else pad)
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]), freeze=False, padding_idx=pad
    )


@wrong(
    "takes the rows after the padding row for the words: right for padding_idx 0 or None,"
    " wrong for any other, and NaN if the padding row is the last",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "Rows before the padding row are left out",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    first_word = 0 if pad is None else pad + 1
    new = old[first_word:].mean(dim=0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "adds up all rows and divides by the number of words, as if the padding row were zero:"
    " it is in a fresh nn.Embedding, but not in one whose padding row was set",
    "If the embedding has a `padding_idx`, leave the row of this id out of the mean,"
    " because it belongs to no word.",
    "Relies on a padding row of zeros",
)
def grow_embedding(embedding, count):
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = len(old) - (pad is not None)
    new = (old.sum(dim=0, keepdim=True) / words).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([old, new]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=pad,
    )


@wrong(
    "gives a copy of the old embedding a longer weight, but its num_embeddings is still V,"
    " for every count above 0",
    "An `nn.Embedding` with V + count rows (its `num_embeddings`), of the old one's dtype"
    " and on its device.",
    "num_embeddings is out of date",
)
def grow_embedding(embedding, count):
    grown = copy.deepcopy(embedding)
    old, pad = embedding.weight.detach(), embedding.padding_idx
    words = torch.arange(len(old), device=old.device) != (-1 if pad is None else pad)
    new = old[words].mean(dim=0, keepdim=True).expand(count, -1)
    grown.weight = nn.Parameter(
        torch.cat([old, new]), requires_grad=embedding.weight.requires_grad
    )
    return grown
