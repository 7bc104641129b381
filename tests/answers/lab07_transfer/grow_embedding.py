"""Answers to grow_embedding."""

import copy
from functools import partial

import torch
from answers.core import draw, right, right_edits, wide, wrong, wrong_edits
from answers.signs import DEVICE, DTYPE, IN_PLACE, NO_NAME, NOTHING, TAKEN_OUT
from torch import nn

from attention_labs.lab07_transfer.grow_embedding import grow_embedding
from nbjudge import Request, edit


@wide("grow_embedding")
def any_table(g):
    for number in range(40):
        rows, width = 2 + number % 7, 1 + number % 5
        padding = number % (rows + 1) - 1
        yield Request((draw(g, rows, width), padding, number % 3 == 0, number % 4))


change = partial(edit, grow_embedding)
MEAN = "old[words].mean(dim=0, keepdim=True).expand(count, -1)"
CAT = "torch.cat([old, new])"

right("grow_embedding")(grow_embedding)
right_edits(
    "grow_embedding",
    repeated=change(MEAN, "old[words].mean(0).repeat(count, 1)"),
    summed_and_divided=change(
        MEAN, "(old[words].sum(0) / len(words)).expand(count, -1)"
    ),
    stacked=change(CAT, "torch.cat([old] + [old[words].mean(0)[None]] * count)"),
    concatenated=change(CAT, "torch.vstack((old.clone(), new.clone()))"),
)


@right("grow_embedding")
def filled_row_by_row(embedding, count):
    old = embedding.weight
    made = nn.Embedding(
        len(old) + count,
        embedding.embedding_dim,
        padding_idx=embedding.padding_idx,
        device=old.device,
        dtype=old.dtype,
    )
    total, number = old.sum(dim=0), len(old)
    if embedding.padding_idx is not None:
        total, number = total - old[embedding.padding_idx], number - 1
    with torch.no_grad():
        made.weight[: len(old)] = old
        made.weight[len(old) :] = total / number
    made.weight.requires_grad_(old.requires_grad)
    return made


@right("grow_embedding")
def a_copy_with_another_table(embedding, count):
    grown = copy.deepcopy(embedding)
    old = grown.weight.data
    words = old
    if grown.padding_idx is not None:
        words = torch.cat([old[: grown.padding_idx], old[grown.padding_idx + 1 :]])
    rows = [old, *[words.mean(dim=0, keepdim=True)] * count]
    grown.weight = nn.Parameter(
        torch.cat(rows), requires_grad=embedding.weight.requires_grad
    )
    grown.num_embeddings += count
    return grown


@right("grow_embedding")
def weighted(embedding, count):
    old = embedding.weight.data
    share = torch.ones_like(old[:, 0])
    if embedding.padding_idx is not None:
        share[embedding.padding_idx] = 0
    mean = (share / share.sum()) @ old
    table = torch.empty(
        len(old) + count, old.size(1), dtype=old.dtype, device=old.device
    )
    table[: len(old)], table[len(old) :] = old, mean
    return nn.Embedding.from_pretrained(
        table,
        freeze=not embedding.weight.requires_grad,
        padding_idx=embedding.padding_idx,
    )


@right("grow_embedding")
def with_given_weight(embedding, count):
    table = embedding.weight.detach().clone()
    used = [row for i, row in enumerate(table) if i != embedding.padding_idx]
    for _ in range(count):
        table = torch.cat([table, torch.stack(used).mean(dim=0)[None]])
    made = nn.Embedding(*table.shape, padding_idx=embedding.padding_idx, _weight=table)
    made.requires_grad_(embedding.weight.requires_grad)
    return made


@right("grow_embedding")
def padded_below(embedding, count):
    old = embedding.weight.detach()
    grown = nn.functional.pad(old, (0, 0, 0, count))
    keep = torch.arange(len(old), device=old.device) != (
        -1 if embedding.padding_idx is None else embedding.padding_idx
    )
    mean = torch.where(keep[:, None], old, 0).sum(0) / keep.sum()
    grown[len(old) :] += mean.to(old.dtype)
    made = nn.Embedding.from_pretrained(grown, padding_idx=embedding.padding_idx)
    made.weight.requires_grad = embedding.weight.requires_grad
    return made


@wrong("grow_embedding", "the old embedding is changed or shares memory")
def the_same_object(embedding, count):
    embedding.weight = grow_embedding(embedding, count).weight
    embedding.num_embeddings += count
    return embedding


@wrong("grow_embedding", "the padding row is zero")
def padding_set_to_zero(embedding, count):
    grown = grow_embedding(embedding, count)
    if grown.padding_idx is not None:
        with torch.no_grad():
            grown.weight[grown.padding_idx] = 0
    return grown


@wrong("grow_embedding", DTYPE, "the new embedding is never frozen")
def made_and_filled(embedding, count):
    grown = grow_embedding(embedding, count)
    made = nn.Embedding(len(grown.weight), embedding.embedding_dim, grown.padding_idx)
    made.weight.data.copy_(grown.weight)
    return made


FORGOTTEN = "padding_idx is not passed on"
SHARE = "the padding counts in the mean"

wrong_edits(
    "grow_embedding",
    no_new_rows=(change(CAT, "old.clone()"), "wrong number of rows"),
    twice_as_many=(
        change("[old, new]", "[old, new, new]"),
        "wrong number of rows",
    ),
    means_of_all=(change("old[words]", "old"), SHARE),
    last_row_again=(
        change("old[words].mean(dim=0, keepdim=True)", "old[-1:]"),
        "wrong new rows",
    ),
    median=(
        change("mean(dim=0, keepdim=True)", "median(dim=0, keepdim=True).values"),
        "wrong new rows",
    ),
    along_the_other_axis=(
        change(MEAN, "old[words].mean(1)[:1, None].expand(count, old.size(1))"),
        "wrong new rows",
    ),
    scaled=(change(CAT, "torch.cat([old / 2, new])"), "the old rows are wrong"),
    in_single_precision=(change(CAT, "torch.cat([old, new]).float()"), DTYPE),
    on_the_cpu=(change(CAT, "torch.cat([old, new]).cpu()"), DEVICE, TAKEN_OUT),
    frozen_the_other_way=(
        change("not embedding.weight.requires_grad", "embedding.weight.requires_grad"),
        "a wrong padding_idx or requires_grad",
    ),
    padding_at_the_end=(
        change("padding_idx=padding", "padding_idx=padding and padding + count"),
        "a wrong padding_idx or requires_grad",
    ),
    padding_is_row_zero=(
        change("padding_idx=padding", "padding_idx=padding or 0"),
        "a wrong padding_idx or requires_grad",
    ),
    settings_forgotten=(
        change(", freeze=frozen, padding_idx=padding)", ")"),
        FORGOTTEN,
        "the new embedding is always frozen",
        "a wrong padding_idx or requires_grad",
    ),
    a_table=(
        change(
            "nn.Embedding.from_pretrained(weight, freeze=frozen, padding_idx=padding)",
            "weight",
        ),
        "the result is not an embedding",
    ),
    old_scaled_in_place=(
        change("new = ", "old *= 1.01\n    new = "),
        IN_PLACE,
        "off by a constant factor",
    ),
    longer_itself=(
        change(
            "weight, frozen =", "embedding.num_embeddings += count; weight, frozen ="
        ),
        "the old embedding is changed or shares memory",
    ),
    another_weight=(
        change(
            "return nn",
            "embedding.weight = nn.Parameter(old.clone(), not frozen)\n    return nn",
        ),
        "the old embedding is changed or shares memory",
    ),
    one_word_squeezed=(
        change(MEAN, "old[words].squeeze(0).mean(0).expand(count, old.size(1))"),
        "wrong new rows",
        "one mean over all entries",
    ),
    none_new_and_not_frozen=(
        change("freeze=frozen", "freeze=frozen and count > 0"),
        "the new embedding is never frozen",
    ),
    none_new_without_padding=(
        change("padding_idx=padding", "padding_idx=padding if count else None"),
        "padding_idx is not passed on",
    ),
    not_returned=(change("return ", ""), NOTHING),
    misnamed=(change("embedding.padding_idx", "embedding.padding_index"), NO_NAME),
)
