"""Answers to causal_mask."""

from functools import partial

import torch
from answers.core import right, right_edits, wide, wrong_edits
from answers.signs import NOTHING, ONE_AXIS, REQUIRED

from attention_course.masks import causal_mask
from nbjudge import Request, edit


@wide("causal_mask")
def any_size(g):
    for size in range(12):
        yield Request((size, None))
        yield Request((size, "meta"), device="meta")


change = partial(edit, causal_mask)
MASK = "torch.ones(size, size, dtype=torch.bool, device=device).tril()"
ONES = "torch.ones(size, size, device=device)"
RANGE = "torch.arange(size, device=device)"

right_edits(
    "causal_mask",
    ones_below=change("(size, size,", "((size, size),"),
    compared_positions=change(MASK, f"{RANGE}[:, None] >= {RANGE}[None, :]"),
    compared_with_less=change(MASK, f"{RANGE}.unsqueeze(0) <= {RANGE}.unsqueeze(1)"),
    not_above=change(MASK, f"~{ONES}.bool().triu(1)"),
    not_above_in_words=change(MASK, f"torch.triu({ONES}, diagonal=1) == 0"),
    numbers_made_true=change(MASK, f"torch.tril({ONES}).bool()"),
    numbers_compared=change(MASK, f"torch.tril({ONES}) > 0.5"),
    counted_from_the_diagonal=change(
        MASK, "torch.eye(size, device=device).cumsum(dim=0).bool()"
    ),
    stacked_rows=change(
        MASK,
        f"torch.stack([{RANGE} <= row for row in range(size)]) if size else"
        f" {RANGE}.bool()[None, :0].expand(0, 0)",
    ),
    differences=change(MASK, f"({RANGE}[:, None] - {RANGE}).ge(0)"),
)


@right("causal_mask")
def filled_by_indices(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    rows, columns = torch.tril_indices(size, size, device=device)
    mask[rows, columns] = True
    return mask


@right("causal_mask")
def filled_row_by_row(size, device=None):
    mask = torch.zeros(size, size, dtype=torch.bool, device=device)
    for t in range(size):
        mask[t, : t + 1] = True
    return mask


NUMBERS = "the mask is not of dtype bool"
OTHER = "a wrong triangle"

wrong_edits(
    "causal_mask",
    upper=(change("tril", "triu"), "upper triangle instead of the lower triangle"),
    strictly_before=(
        change("tril()", "tril(-1)"),
        "a position does not attend to itself",
    ),
    of_ones_and_zeros=(change("dtype=torch.bool, ", ""), NUMBERS),
    of_integers=(change("torch.bool", "torch.long"), NUMBERS),
    to_be_added=(
        change(MASK, "torch.full((size, size), float('-inf'), device=device).triu(1)"),
        NUMBERS,
    ),
    forbidden_is_true=(
        change("tril()", "triu(diagonal=1)"),
        "True and False swapped in the mask",
    ),
    with_a_batch=(change("ones(size", "ones(1, size"), ONE_AXIS),
    on_the_cpu=(
        change(", device=device", ""),
        "a tensor is on the wrong device",
    ),
    device_required=(change("device: torch.device | None = None", "device"), REQUIRED),
    forgets_to_return=(change("return ", ""), NOTHING),
    a_window=(change(".tril()", ".tril().triu(-2)"), OTHER),
    only_itself=(change(".tril()", ".tril().triu()"), OTHER),
    one_too_many=(change("(size, size,", "(size + 1, size + 1,"),),
)
