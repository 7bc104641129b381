"""Answers to causal_mask."""

import torch
from answers.core import right, wide, wrong
from answers.signs import NOTHING, ONE_AXIS, REQUIRED

from nbjudge.question import Request


@wide("causal_mask")
def any_size(g):
    for size in range(1, 12):
        yield Request((torch.empty(size, 0),))
        yield Request((torch.empty(size, 0),), device="meta")


@right("causal_mask")
def ones_below(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@right("causal_mask")
def compared_positions(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] >= t[None, :]


@right("causal_mask")
def compared_with_less(size, device=None):
    t = torch.arange(size, device=device)
    return t.unsqueeze(0) <= t.unsqueeze(1)


@right("causal_mask")
def not_above(size, device=None):
    return ~torch.ones(size, size, device=device).bool().triu(1)


@right("causal_mask")
def not_above_in_words(size, device=None):
    return torch.triu(torch.ones((size, size), device=device), diagonal=1) == 0


@right("causal_mask")
def numbers_made_true(size, device=None):
    return torch.tril(torch.ones(size, size, device=device)).bool()


@right("causal_mask")
def numbers_compared(size, device=None):
    return torch.tril(torch.ones(size, size, device=device)) > 0.5


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


@right("causal_mask")
def counted_from_the_diagonal(size, device=None):
    return torch.eye(size, device=device).cumsum(dim=0).bool()


@right("causal_mask")
def stacked_rows(size, device=None):
    t = torch.arange(size, device=device)
    return torch.stack([t <= row for row in range(size)])


@right("causal_mask")
def differences(size, device=None):
    t = torch.arange(size, device=device)
    return (t[:, None] - t).ge(0)


@wrong("causal_mask", "the upper triangle")
def upper(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] <= t


@wrong("causal_mask", "a position does not see itself")
def strictly_before(size, device=None):
    t = torch.arange(size, device=device)
    return t[:, None] > t


@wrong("causal_mask", "a mask of numbers")
def of_ones_and_zeros(size, device=None):
    return torch.ones(size, size, device=device).tril()


@wrong("causal_mask", "a mask of numbers")
def of_integers(size, device=None):
    return torch.ones(size, size, dtype=torch.long, device=device).tril()


@wrong("causal_mask", "a mask of numbers")
def to_be_added(size, device=None):
    return torch.full((size, size), float("-inf"), device=device).triu(1)


@wrong("causal_mask", "the mask inside out")
def forbidden_is_true(size, device=None):
    return torch.ones(size, size, dtype=torch.bool, device=device).triu(diagonal=1)


@wrong("causal_mask", ONE_AXIS)
def with_a_batch(size, device=None):
    return torch.ones(1, size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", "a tensor made on the default device")
def on_the_cpu(size, device=None):
    return torch.ones(size, size, dtype=torch.bool).tril()


@wrong("causal_mask", REQUIRED)
def device_required(size, device):
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", NOTHING)
def forgets_to_return(size, device=None):
    torch.ones(size, size, dtype=torch.bool, device=device).tril()


@wrong("causal_mask", "another triangle")
def a_window(size, device=None):
    t = torch.arange(size, device=device)
    return ((t[:, None] - t) >= 0) & ((t[:, None] - t) <= 2)


@wrong("causal_mask", "another triangle")
def only_itself(size, device=None):
    return torch.eye(size, dtype=torch.bool, device=device)


@wrong("causal_mask")
def one_too_many(size, device=None):
    return torch.ones(size + 1, size + 1, dtype=torch.bool, device=device).tril()
