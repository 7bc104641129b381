"""What answers of this lab share: lengths, masks, and a step of a decoder."""

import torch
from answers.core import draw
from answers.lab04_alignment.shared import draw_for, sizes
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nbjudge.question import Request

LAST_COLUMN = "final state taken from the last column"

# the lines that edits replace
END = "at_end(states, lengths)"
MASK = "padding_mask(lengths.to(source.device), source.size(1))"
MASK_BY_COMPARISON = (
    "~(torch.arange(source.size(1), device=source.device)"
    " >= lengths.to(source.device)[:, None, None])"
)


def some_lengths(g, batch, size):
    return torch.randint(1, size + 1, (batch,), generator=g).index_fill(
        0, torch.tensor(batch - 1), size
    )


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


def packed(rnn, x, lengths):
    tokens = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(
        rnn(tokens)[0], batch_first=True, total_length=x.size(1)
    )[0]


def any_step(g, decoder):
    for b, t, v, m, d, e, _ in sizes(g):
        inputs = (
            torch.randint(v, (b, t), generator=g),
            *(draw(g, b, d), draw(g, b, 1, e), draw(g, b, d)),
        )
        drawn = draw_for(g, decoder(v, m, d, e))
        yield Request(inputs, (v, m, d, e), drawn, gradients=True)
