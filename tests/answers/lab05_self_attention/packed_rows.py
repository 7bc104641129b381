"""Answers to packed_rows."""

from functools import partial

import torch
from answers.core import right, right_edits, wide, wrong_edits
from answers.signs import (
    DEVICE,
    EXCHANGED,
    IN_PLACE,
    NOTHING,
    ONE_AXIS,
    ORDER,
    TAKEN_OUT,
)

from attention_labs.lab05_self_attention.packed_rows import packed_rows
from nbjudge import Request, edit


@wide("packed_rows")
def any_rows(g):
    for tokens in range(1, 13):
        rows = []
        for _ in range(4):
            row = []
            while len(row) < tokens:
                row += [17 * len(row) % 23 + 1] * int(
                    torch.randint(1, 5, (), generator=g)
                )
            some = int(torch.randint(tokens + 1, (), generator=g))
            rows.append((row[:some] + [0] * tokens)[:tokens])
        yield Request((torch.tensor(rows),))


change = partial(edit, packed_rows)
SAME = "sentence[:, :, None] == sentence[:, None, :]"
REAL = "(sentence > 0)[:, None]"
PLACES = "mask.tril(-1).sum(-1)"

right("packed_rows")(packed_rows)
right_edits(
    "packed_rows",
    unsqueezed=change(SAME, "~sentence.unsqueeze(2).ne(sentence.unsqueeze(1))"),
    no_difference=change(SAME, "(sentence[..., None] - sentence[:, None]) == 0"),
    both_real=change(REAL, f"{REAL} & (sentence != 0)[:, :, None]"),
    product_of_both=change(
        f"same & {REAL}", "same & (sentence[:, :, None] * sentence[:, None] > 0)"
    ),
    padding_has_numbers_of_its_own=change(
        "same = ",
        "sentence = torch.where(sentence == 0, -1 - torch.arange("
        "sentence.size(1), device=sentence.device), sentence)\n    same = ",
    ),
    counted_along_the_row=change(
        PLACES, "(mask.cumsum(-1).diagonal(dim1=1, dim2=2) - 1).clamp(min=0)"
    ),
    from_the_first_token=change(
        PLACES,
        "torch.where(sentence > 0, torch.arange(sentence.size(1),"
        " device=sentence.device) - mask.int().argmax(-1), 0)",
    ),
)


@right("packed_rows")
def from_where_they_begin(sentence):
    t = torch.arange(sentence.size(1), device=sentence.device)
    begins = torch.ones_like(sentence, dtype=torch.bool)
    begins[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    first = torch.where(begins, t, 0).cummax(dim=1).values
    real = sentence > 0
    own = first[:, :, None] == first[:, None]
    return own & real[:, None] & real[..., None], (t - first) * real


@right("packed_rows")
def step_by_step(sentence):
    position = torch.zeros_like(sentence)
    for t in range(1, sentence.size(1)):
        goes_on = (sentence[:, t] == sentence[:, t - 1]) & (sentence[:, t] != 0)
        position[:, t] = (position[:, t - 1] + 1) * goes_on
    mask = torch.stack(
        [(sentence == one[:, None]) & (one > 0)[:, None] for one in sentence.unbind(1)],
        dim=1,
    )
    return mask, position


@right("packed_rows")
def row_after_row(sentence):
    masks, positions = [], []
    for row in sentence:
        mask = torch.outer(row, row).ne(0) & (row[None] == row[:, None])
        masks.append(mask)
        positions.append((mask.long().cumsum(0) - mask.long()).diagonal())
    return torch.stack(masks), torch.stack(positions)


@right("packed_rows")
def token_by_token(sentence):
    mask = torch.zeros(
        *sentence.shape, sentence.size(1), dtype=torch.bool, device=sentence.device
    )
    positions = torch.zeros_like(sentence)
    for b, row in enumerate(sentence.tolist()):
        for t, one in enumerate(row):
            if one:
                positions[b, t] = t - row.index(one)
                for s, other in enumerate(row):
                    mask[b, t, s] = one == other
    return mask, positions


SEEN = "a token attends beyond its sentence"
OTHER = "wrong positions"
NUMBERS = "the mask is not of dtype bool"

wrong_edits(
    "packed_rows",
    rows_of_padding_are_whole=(
        change(f"same & {REAL}", "same | (sentence == 0)[:, :, None]"),
        SEEN,
    ),
    all_real_tokens=(change(SAME, "(sentence > 0)[:, :, None]"), SEEN),
    sentences_in_order=(
        change(
            "return mask,",
            "return mask & (sentence.diff(dim=1, prepend="
            "sentence[:, :1]) >= 0)[:, None],",
        ),
        "part of the own sentence is forbidden",
    ),
    causal=(
        change("return mask,", "return mask & mask.tril(),"),
        "later tokens are forbidden",
    ),
    one_too_many=(change(PLACES, "mask.tril().sum(-1)"), "positions count from 1"),
    padding_is_at_minus_one=(
        change(PLACES, "mask.tril().sum(-1) - 1"),
        "padding has positions other than 0",
    ),
    positions_of_the_row=(
        change(PLACES, "torch.arange(sentence.size(1)).expand(sentence.shape)"),
        OTHER,
        DEVICE,
    ),
    positions_are_sentences=(
        change(PLACES, "sentence.diff(dim=1, prepend=sentence[:, :1]).ne(0).cumsum(1)"),
        OTHER,
    ),
    changes_at_every_rise=(
        change(
            "same = ",
            "sentence = sentence.cummax(dim=1).values * (sentence > 0)\n    same = ",
        ),
        SEEN,
    ),
    positions_are_floats=(
        change(PLACES, "mask.tril(-1).double().sum(-1)"),
        "positions of a wrong dtype",
    ),
    mask_of_floats=(change("return mask,", "return mask.float(),"), NUMBERS),
    scores_to_add=(
        change("return mask,", "return (~mask) * -1e9,"),
        NUMBERS,
    ),
    with_heads=(change("return mask,", "return mask[:, None],"), ONE_AXIS),
    one_mask_for_all=(change("return mask,", "return mask[0],"),),
    the_other_order=(
        change(f"return mask, {PLACES}", f"return {PLACES}, mask"),
        ORDER,
        NUMBERS,
    ),
    padding_marked_in_place=(
        change("same = ", "sentence[sentence == 0] = -1\n    same = "),
        IN_PLACE,
    ),
    mask_of_the_other_side=(
        change(REAL, "(sentence > 0)[:, :, None]")
        & change("mask.tril(-1).sum(-1)", "mask.tril(-1).sum(-2)"),
        OTHER,
        "positions count from the end",
    ),
    ones_for_the_loop=(
        change(
            PLACES,
            "torch.tensor([[row[:t].count(x) if x else 0 for t, x in"
            " enumerate(row)] for row in sentence.tolist()])",
        ),
        DEVICE,
        TAKEN_OUT,
    ),
    axes_turned=(
        change(
            "return mask, mask.tril(-1).sum(-1)",
            "return mask.permute(1, 2, 0), mask.tril(-1).sum(-1)",
        ),
        EXCHANGED,
    ),
    nothing_comes_back=(change("return ", ""), NOTHING),
    one_token_at_once=(
        change(
            "return",
            "if sentence.size(1) == 1:\n"
            "        return torch.ones_like(mask), torch.zeros_like(sentence)\n"
            "    return",
        ),
        SEEN,
    ),
    rows_a_thousand_apart=(
        change(
            PLACES,
            "(lambda x: ((x[:, None] == x) & mask.any(-1).flatten()).tril(-1).sum(-1)"
            ".view_as(sentence))((sentence + 1000 * torch.arange(len(sentence),"
            " device=sentence.device)[:, None]).flatten()) * mask.any(-1)",
        ),
        OTHER,
    ),
    last_three_digits=(
        change(SAME, "sentence[..., None] % 1000 == sentence[:, None] % 1000"),
        SEEN,
    ),
    numbers_in_int16=(
        change(SAME, "(sentence[..., None] - sentence[:, None]).short() == 0"),
        SEEN,
    ),
    below_a_billion=(
        change(REAL, "((sentence > 0) & (sentence < 10**9))[:, None]"),
        "part of the own sentence is forbidden",
    ),
    no_position_beyond_511=(change(PLACES, f"{PLACES}.clamp(max=511)"), OTHER),
)
