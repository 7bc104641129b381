"""Answers to padding_mask."""

import sys

import torch
from answers.core import right, wide, wrong
from answers.lab01_preprocessing.texts import draw
from answers.signs import DEVICE, FITS, NOTHING, TAKEN_OUT

from nbjudge.question import Request


@wide("padding_mask")
def any_lengths(g):
    for batch, size in ((1, 1), (1, 4), (3, 1), (4, 6), (2, 9)):
        for lowest in (0, 1):
            yield Request((draw(g, batch, low=lowest, high=size + 1), size))


@right("padding_mask")
def compared(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]


@right("padding_mask")
def unsqueezed(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.lt(positions.view(1, 1, size), lengths.view(-1, 1, 1))


@right("padding_mask")
def not_padding(lengths, size):
    return ~(
        torch.arange(size, device=lengths.device)[None, None]
        >= lengths.unsqueeze(1).unsqueeze(2)
    )


@right("padding_mask")
def expanded(lengths, size):
    positions = torch.arange(size, device=lengths.device).expand(len(lengths), size)
    return torch.stack([positions < lengths.unsqueeze(-1)], dim=1)


@right("padding_mask")
def by_counting(lengths, size):
    ones = torch.ones(len(lengths), 1, size, dtype=torch.long, device=lengths.device)
    return ones.cumsum(-1) <= lengths[:, None, None]


@right("padding_mask")
def by_difference(lengths, size):
    return (
        lengths[:, None, None] - torch.arange(1, size + 1, device=lengths.device)
    ).sign() >= 0


@right("padding_mask")
def by_rows_of_a_triangle(lengths, size):
    triangle = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(
        -1
    )
    return triangle[lengths][:, None]


@right("padding_mask")
def sentence_by_sentence(lengths, size):
    positions = torch.arange(size, device=lengths.device)
    return torch.stack([(positions < length)[None] for length in lengths])


@right("padding_mask")
def by_outer(lengths, size):
    places = torch.arange(size, device=lengths.device)
    return (
        torch.cat([torch.less(places, lengths.reshape(-1, 1))])
        .reshape(-1, 1, size)
        .bool()
    )


@right("padding_mask")
def by_where(lengths, size):
    places = torch.arange(size, device=lengths.device)[None]
    yes = torch.ones((), dtype=torch.bool, device=lengths.device)
    return torch.where(places < lengths[:, None], yes, ~yes).unsqueeze(-2)


@right("padding_mask")
def warned(lengths, size):
    print("lengths", tuple(lengths.shape), file=sys.stderr)
    return torch.gt(
        lengths[:, None], torch.arange(size, device=lengths.device)
    ).unsqueeze(1)


@wrong("padding_mask", "mask the wrong way around")
def true_is_padding(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None]).unsqueeze(1)


@wrong("padding_mask", "one position of padding counted as a token")
def up_to_the_length(lengths, size):
    return ~(torch.arange(size, device=lengths.device) > lengths[:, None])[:, None]


@wrong(
    "padding_mask",
    "the axis of the queries is missing",
    "an axis of length one too many or too few",
)
def two_axes(lengths, size):
    return (
        torch.arange(size, device=lengths.device).expand(len(lengths), -1)
        < lengths[:, None]
    )


@wrong("padding_mask", "the width is taken from the longest sentence")
def own_width(lengths, size):
    return (torch.arange(lengths.max(), device=lengths.device) < lengths[:, None])[
        :, None
    ]


@wrong("padding_mask", "numbers, where True and False are meant")
def zeros_and_ones(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[
        :, None
    ].float()


@wrong("padding_mask", DEVICE)
def on_the_cpu(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None]


@wrong("padding_mask", DEVICE, TAKEN_OUT)
def by_loop(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool)
    for number, length in enumerate(lengths.tolist()):
        mask[number, 0, :length] = True
    return mask


@wrong("padding_mask", FITS)
def no_axis_for_the_batch(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths)[:, None]


@wrong(
    "padding_mask", "axes exchanged", "an axis of length one too many or too few", FITS
)
def query_axis_last(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, :, None]


@wrong("padding_mask", "axes exchanged")
def sentences_last(lengths, size):
    return (torch.arange(size, device=lengths.device)[:, None] < lengths)[:, None]


@wrong("padding_mask", "the first token missed out")
def counts_from_one(lengths, size):
    return (torch.arange(1, size + 1, device=lengths.device) < lengths[:, None])[
        :, None
    ]


@wrong("padding_mask", NOTHING)
def forgot_to_return(lengths, size):
    mask = torch.arange(size, device=lengths.device) < lengths[:, None]
    mask = mask[:, None]


@wrong("padding_mask", "an input is changed in place")
def lengths_counted_down(lengths, size):
    lengths -= 1
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong("padding_mask", "one sentence stands for all")
def of_the_first_sentence(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[0])[None, None]


@wrong("padding_mask", "a row for every query")
def square(lengths, size):
    return compared(lengths, size).expand(-1, size, -1)
