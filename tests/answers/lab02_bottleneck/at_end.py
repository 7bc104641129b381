"""Answers to at_end."""

import sys

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, wrong
from answers.lab02_bottleneck.networks import some_lengths
from answers.lab04_alignment.shared import sizes
from answers.signs import CUT, DTYPE, NOTHING, ONE_AXIS

from attention_course.rnn import reverse_padded
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
    return (chosen[..., None] * x).sum(1)


@right("at_end")
def by_a_product(x, lengths):
    chosen = (
        F.one_hot(lengths.to(x.device) - 1, x.size(1)) if not x.is_meta else x[:, :, 0]
    )
    return torch.einsum("bs,bsd->bd", chosen.to(x.dtype), x)


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
    return torch.bmm(ends.unsqueeze(1), x).squeeze(1)


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


@wrong("at_end", "the last column")
def in_the_last_column(x, lengths):
    return x[:, x.shape[1] - 1, :]


@wrong("at_end", "one position too far")
def no_minus_one(x, lengths):
    return x[torch.arange(x.size(0)), lengths]


@wrong("at_end", "one position too far")
def gathered_too_far(x, lengths):
    return x.gather(1, lengths.to(x.device)[:, None, None].expand(-1, 1, x.size(-1)))[
        :, 0
    ]


@wrong("at_end", "every sentence at every end")
def all_ends(x, lengths):
    return x.index_select(1, lengths.to(x.device) - 1)


@wrong("at_end", ONE_AXIS)
def axis_left(x, lengths):
    return x.gather(
        1, (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(-1))
    )


@wrong("at_end", "one number of every vector")
def one_number(x, lengths):
    return x.gather(1, (lengths.to(x.device) - 1)[:, None, None])[:, 0]


@wrong("at_end", CUT)
def without_gradient(x, lengths):
    return x.detach()[torch.arange(x.size(0)), lengths - 1]


@wrong("at_end", "the sum or the mean of a sentence")
def mean_of_tokens(x, lengths):
    return torch.stack(
        [row[:length].mean(0) for row, length in zip(x, lengths.tolist())]
    )


@wrong("at_end", "the longest sentence's end for all", "the last column")
def longest_end(x, lengths):
    return x[:, int(lengths.max()) - 1]


@wrong("at_end", "the first sentence stands for all")
def first_sentence(x, lengths):
    return x[0, lengths - 1]


@wrong("at_end", NOTHING)
def not_returned(x, lengths):
    x[torch.arange(x.size(0)), lengths - 1]


@wrong("at_end", "the first vector")
def at_the_start(x, lengths):
    return reverse_padded(x, lengths)[torch.arange(len(x)), lengths - 1]


@wrong("at_end", DTYPE)
def in_single_precision(x, lengths):
    return x.float()[torch.arange(x.size(0)), lengths - 1]
