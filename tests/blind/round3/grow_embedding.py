import copy

import torch
from torch import nn
from torch.nn import functional as F

from blind import right, wrong

# ---------------------------------------------------------------- right


@right("Allocates an nn.Embedding and fills it row by row in a loop")
def row_by_row(embedding, count):
    V, D = embedding.weight.shape
    new = nn.Embedding(
        V + count,
        D,
        padding_idx=embedding.padding_idx,
        dtype=embedding.weight.dtype,
        device=embedding.weight.device,
    )
    words = [v for v in range(V) if v != embedding.padding_idx]
    with torch.no_grad():
        mean = torch.stack([embedding.weight[v] for v in words]).mean(0)
        for v in range(V + count):
            new.weight[v] = embedding.weight[v] if v < V else mean
    return new.requires_grad_(embedding.weight.requires_grad)


@right("Weights 1/n in an einsum, F.pad for the room, and a mask that chooses")
def pad_and_einsum(embedding, count):
    table = embedding.weight.data
    share = torch.ones(len(table), dtype=torch.float64, device=table.device)
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    share = share / share.sum()
    mean = torch.einsum("v,vd->d", share, table.double()).to(table.dtype)
    big = F.pad(table, (0, 0, 0, count))
    late = torch.arange(len(big), device=table.device) >= len(table)
    big = torch.where(late[:, None], mean, big)
    return nn.Embedding.from_pretrained(
        big, freeze=not embedding.weight.requires_grad, padding_idx=embedding.padding_idx
    )


@right("A deep copy that gets a new parameter and a new number of rows")
def deepcopy_and_swap(embedding, count):
    new = copy.deepcopy(embedding)
    with torch.no_grad():
        ids = torch.arange(embedding.num_embeddings, device=embedding.weight.device)
        if embedding.padding_idx is not None:
            ids = ids[ids != embedding.padding_idx]
        mean = embedding.weight.index_select(0, ids).mean(dim=0, keepdim=True)
        rows = torch.vstack([embedding.weight, *[mean] * count])
    new.weight = nn.Parameter(rows.clone(), embedding.weight.requires_grad)
    new.num_embeddings += count
    return new


@right("Loads a state dict into an embedding that was made on the meta device")
def through_state_dict(embedding, count):
    state = {}
    for name, table in embedding.state_dict().items():
        words = torch.cat(
            [table[:0]]
            + [table[i : i + 1] for i in range(len(table)) if i != embedding.padding_idx]
        )
        state[name] = torch.cat((table, words.mean(0).repeat(count, 1)), dim=0)
    new = nn.Embedding(
        embedding.num_embeddings + count,
        embedding.embedding_dim,
        embedding.padding_idx,
        device="meta",
        dtype=embedding.weight.dtype,
    )
    for p, q in zip(new.parameters(), embedding.parameters()):
        p.requires_grad = q.requires_grad
    new.load_state_dict(state, assign=True)
    return new


# ---------------------------------------------------------------- wrong


@wrong(
    "`if embedding.padding_idx:` takes id 0 for no padding at all",
    breaks="If the embedding has a `padding_idx`, the row of that id belongs to no word, and it does not count in the mean.",
    name="padding_idx 0 is falsy",
    subtle=True,
)
def falsy_zero(embedding, count):
    table = embedding.weight.detach()
    words = table
    if embedding.padding_idx:
        words = torch.cat([table[: embedding.padding_idx], table[embedding.padding_idx + 1 :]])
    rows = words.mean(0, keepdim=True).expand(count, -1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "divides the sum of all rows by V - 1, as if the padding's row were zero",
    breaks="the row of that id belongs to no word, and it does not count in the mean",
    name="takes the padding's row to be zero",
    subtle=True,
)
def pad_is_zero(embedding, count):
    table = embedding.weight.detach()
    n = len(table) - (embedding.padding_idx is not None)
    rows = (table.sum(0) / n).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "finds the padding as the rows that are all zero, and leaves them out; a word may be zero, the padding need not",
    breaks="Each new row is the mean of the old rows.",
    name="zero rows taken for padding",
    subtle=True,
)
def zero_rows_out(embedding, count):
    table = embedding.weight.detach()
    mean = table[table.abs().sum(1) > 0].mean(0)
    new = nn.Embedding(
        len(table) + count,
        table.size(1),
        padding_idx=embedding.padding_idx,
        device=table.device,
        dtype=table.dtype,
    )
    with torch.no_grad():
        new.weight[: len(table)] = table
        new.weight[len(table) :] = mean
    new.weight.requires_grad_(embedding.weight.requires_grad)
    return new


@wrong(
    "hands back the old embedding if there is nothing to add",
    breaks="The two share no memory: whoever changes one of them later does not change the other.",
    name="the same module for count 0",
    subtle=True,
)
def nothing_to_do(embedding, count):
    if count == 0:
        return embedding
    table = embedding.weight.detach()
    keep = torch.ones(len(table), dtype=torch.bool, device=table.device)
    if embedding.padding_idx is not None:
        keep[embedding.padding_idx] = False
    rows = table[keep].mean(0, keepdim=True).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]),
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@wrong(
    "from_pretrained without freeze: the new weight is frozen",
    breaks="The new embedding has the same `padding_idx` as the old one (which may be None), and its weight has the same `requires_grad`.",
    name="from_pretrained freezes",
)
def frozen_by_default(embedding, count):
    table = embedding.weight.detach()
    ids = [i for i in range(len(table)) if i != embedding.padding_idx]
    rows = table[ids].mean(0).repeat(count, 1)
    return nn.Embedding.from_pretrained(
        torch.cat([table, rows]), padding_idx=embedding.padding_idx
    )


@wrong(
    "always asks for gradients, also where the old embedding was frozen",
    breaks="and its weight has the same `requires_grad`",
    name="unfreezes a frozen table",
    subtle=True,
)
def always_trains(embedding, count):
    new = nn.Embedding(
        embedding.num_embeddings + count, embedding.embedding_dim, embedding.padding_idx
    ).to(embedding.weight)
    V = embedding.num_embeddings
    keep = [i for i in range(V) if i != embedding.padding_idx]
    with torch.no_grad():
        new.weight[:V].copy_(embedding.weight)
        new.weight[V:].copy_(embedding.weight[keep].mean(0))
    return new


@wrong(
    "the new embedding is made in the default dtype, and the numbers are rounded into it",
    breaks="An `nn.Embedding` with V + count rows, of the same dtype and on the same device.",
    name="default dtype",
    subtle=True,
)
def default_dtype(embedding, count):
    old = embedding.weight.detach()
    new = nn.Embedding(len(old) + count, old.size(1), padding_idx=embedding.padding_idx)
    words = old
    if embedding.padding_idx is not None:
        words = old[torch.arange(len(old), device=old.device) != embedding.padding_idx]
    with torch.no_grad():
        new.weight[: len(old)] = old
        new.weight[len(old) :] = words.mean(0)
    new.weight.requires_grad = embedding.weight.requires_grad
    return new.to(old.device)


@wrong(
    "the mean leaves the padding out, but the new embedding forgets which id it is",
    breaks="The new embedding has the same `padding_idx` as the old one (which may be None)",
    name="padding_idx lost",
)
def padding_lost(embedding, count):
    table = embedding.weight.detach()
    words = [row for i, row in enumerate(table) if i != embedding.padding_idx]
    mean = torch.stack(words).mean(0)
    return nn.Embedding.from_pretrained(
        torch.vstack([table] + [mean] * count), freeze=not embedding.weight.requires_grad
    )


@wrong(
    "copies the rows of the words, and leaves the padding's row as the zeros that nn.Embedding puts there",
    breaks="The first V rows are those of the old embedding, and `count` new rows follow.",
    name="the padding's row is wiped",
    subtle=True,
)
def padding_wiped(embedding, count):
    V, D = embedding.weight.shape
    weight = embedding.weight.detach()
    new = nn.Embedding(
        V + count, D, embedding.padding_idx, device=weight.device, dtype=weight.dtype
    )
    words = torch.tensor(
        [i for i in range(V) if i != embedding.padding_idx], device=weight.device
    )
    with torch.no_grad():
        new.weight[words] = weight[words]
        new.weight[V:] = weight[words].mean(0)
    return new.requires_grad_(embedding.weight.requires_grad)


@wrong(
    "switches the gradient of the old embedding off to be able to copy, and does not switch it on again",
    breaks="embedding: an `nn.Embedding` with V rows; it stays as it is.",
    name="freezes the embedding it was handed",
    subtle=True,
)
def freezes_the_old(embedding, count):
    trained = embedding.weight.requires_grad
    table = embedding.weight.requires_grad_(False)
    keep = torch.arange(len(table), device=table.device)
    if embedding.padding_idx is not None:
        keep = keep[keep != embedding.padding_idx]
    rows = table[keep].mean(0, keepdim=True).expand(count, table.size(1))
    return nn.Embedding.from_pretrained(
        torch.cat((table, rows)), freeze=not trained, padding_idx=embedding.padding_idx
    )
