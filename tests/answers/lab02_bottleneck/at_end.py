"""Answers to at_end."""

import sys

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, wrong, wrong_edits
from answers.lab02_bottleneck.shared import some_lengths
from answers.lab04_alignment.shared import sizes
from answers.signs import CUT, DTYPE, NAN, NOTHING, ONE_AXIS

from attention_course.rnn import reverse_padded
from nbjudge import edit
from nbjudge.question import Request


@wide("at_end")
def any_vectors(g):
    for b, s, d, *_ in sizes(g):
        yield Request((draw(g, b, s, d), some_lengths(g, b, s)), gradients=True)
        yield Request((draw(g, b, s + 2, d), some_lengths(g, b, s)), gradients=True)


@right("at_end")
def by_two_indices(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right("at_end")
def by_gather(x, lengths):
    index = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(-1))
    return x.gather(1, index).squeeze(1)


@right("at_end")
def one_by_one(x, lengths):
    return torch.stack([row[length - 1] for row, length in zip(x, lengths.tolist())])


@right("at_end")
def cut_then_last(x, lengths):
    return torch.cat(
        [x[b : b + 1, :length][:, -1] for b, length in enumerate(lengths.tolist())]
    )


@right("at_end")
def by_a_sum_of_one(x, lengths):
    chosen = (
        torch.arange(x.size(1), device=x.device) == lengths.to(x.device)[:, None] - 1
    )
    return x.masked_fill(~chosen[..., None], 0).sum(1)


@right("at_end")
def by_a_product(x, lengths):
    chosen = (
        F.one_hot(lengths.to(x.device) - 1, x.size(1)) if not x.is_meta else x[:, :, 0]
    ).to(x.dtype)
    return torch.einsum("bs,bsd->bd", chosen, x.masked_fill(chosen[..., None] == 0, 0))


@right("at_end")
def by_a_flat_index(x, lengths):
    places = torch.arange(x.size(0)) * x.size(1) + lengths - 1
    return x.reshape(-1, x.size(-1)).index_select(0, places.to(x.device))


@right("at_end")
def by_take_along(x, lengths):
    return torch.take_along_dim(x, lengths.to(x.device).view(-1, 1, 1) - 1, dim=1)[:, 0]


@right("at_end")
def by_bmm(x, lengths):
    ends = (
        torch.arange(1, x.size(1) + 1, device=x.device)
        == lengths.to(x.device).unsqueeze(1)
    ).to(x.dtype)
    return torch.bmm(ends.unsqueeze(1), x.nan_to_num()).squeeze(1)


@right("at_end")
def after_turning(x, lengths):
    return reverse_padded(x, lengths)[:, 0]


@right("at_end")
def filled_in(x, lengths):
    found = x.new_empty(x.size(0), x.size(2))
    for b in range(x.size(0)):
        found[b] = x[b, int(lengths[b]) - 1]
    return found


@right("at_end")
def by_difference_of_sums(x, lengths):
    print("lengths", lengths.tolist(), file=sys.stderr)
    positions = torch.arange(x.size(1), device=x.device)[None, :, None]
    ends = lengths.to(x.device)[:, None, None]
    return x.where(positions + 1 == ends, 0).sum(dim=1)


@right("at_end")
def fetched_and_brought_back(x, lengths):
    time_first = x.cpu().transpose(0, 1)
    return time_first[lengths - 1, torch.arange(x.size(0))].to(x.device)


@wrong("at_end")
def last_that_is_not_zero(x, lengths):
    positions = torch.arange(x.size(1), device=x.device)
    tokens = positions < lengths.to(x.device)[:, None]
    last = ((x != 0).any(-1) & tokens) * positions
    return x[torch.arange(x.size(0), device=x.device), last.argmax(1)]


PICKED = "x[torch.arange(x.size(0)), lengths - 1]"

wrong_edits(
    "at_end",
    by_two_indices,
    in_the_last_column=(
        edit(by_two_indices, PICKED, "x[:, x.shape[1] - 1, :]"),
        "last column instead of the last token",
    ),
    no_minus_one=(edit(by_two_indices, " - 1", ""), "one position past the last token"),
    all_ends=(
        edit(by_two_indices, PICKED, "x.index_select(1, lengths.to(x.device) - 1)"),
        "every sentence is indexed with all lengths",
    ),
    without_gradient=(edit(by_two_indices, "x[", "x.detach()["), CUT),
    longest_end=(
        edit(by_two_indices, PICKED, "x[:, int(lengths.max()) - 1]"),
        "the longest sentence's end for all",
        "last column instead of the last token",
    ),
    first_sentence=(edit(by_two_indices, "torch.arange(x.size(0))", "0"),),
    not_returned=(edit(by_two_indices, "return x", "x"), NOTHING),
    at_the_start=(
        edit(by_two_indices, "x[", "reverse_padded(x, lengths)["),
        "the first vector instead of the last",
    ),
    in_single_precision=(edit(by_two_indices, "x[", "x.float()["), DTYPE),
    through_single_precision=(
        edit(by_two_indices, PICKED, f"x.float(){PICKED[1:]}.to(x.dtype)"),
        "wrong for zeros or large numbers",
    ),
    fetched=(edit(by_two_indices, "x[", "x.cpu()["),),
    unpadded_if_alone=(
        edit(by_two_indices, PICKED, f"x[:, -1] if len(x) == 1 else {PICKED}"),
        "wrong for an axis of length one",
    ),
    one_token_each=(
        edit(
            by_two_indices, PICKED, f"x.squeeze(1) if lengths.max() == 1 else {PICKED}"
        ),
    ),
    counted_in_half=(
        edit(
            by_two_indices,
            "lengths - 1",
            "(lengths.half() - 1).long().clamp(max=x.size(1) - 1)",
        ),
        "wrong for long inputs",
    ),
)
wrong_edits(
    "at_end",
    by_a_sum_of_one,
    padding_times_zero=(
        edit(
            by_a_sum_of_one,
            "x.masked_fill(~chosen[..., None], 0)",
            "(chosen[..., None] * x)",
        ),
        "padding multiplied by zero, so NaN remains",
    ),
    one_infinity_remains=(
        edit(
            by_a_sum_of_one,
            "x.masked_fill(~chosen[..., None], 0)",
            "(chosen[..., None] * x.masked_fill(x.isnan() | (x == torch.inf), 0))",
        ),
        NAN,
    ),
    largest_of_the_others=(
        edit(
            by_a_sum_of_one,
            "x.masked_fill(~chosen[..., None], 0).sum(1)",
            "x.masked_fill(~chosen[..., None], -1e9).amax(1)",
        ),
        "wrong for zeros or large numbers",
    ),
)
wrong_edits(
    "at_end",
    by_gather,
    gathered_too_far=(
        edit(by_gather, " - 1)", ")"),
        "one position past the last token",
    ),
    axis_left=(edit(by_gather, ".squeeze(1)", ""), ONE_AXIS),
    one_number=(
        edit(by_gather, ".expand(-1, 1, x.size(-1))", ""),
        "only the first entry of each vector",
    ),
)
wrong_edits(
    "at_end",
    one_by_one,
    mean_of_tokens=(
        edit(one_by_one, "row[length - 1]", "row[:length].mean(0)"),
        "vectors are summed or averaged",
    ),
)
