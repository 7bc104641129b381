"""Answers to two_slots."""

import sys

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, wrong, wrong_edits
from answers.lab02_bottleneck.shared import at_end, some_lengths
from answers.lab04_alignment.shared import sizes
from answers.signs import CUT, DTYPE, EXCHANGED, NOTHING

from attention_course.rnn import reverse_padded
from nbjudge import edit
from nbjudge.question import Request


@wide("two_slots")
def any_states(g):
    for b, s, e, *_ in sizes(g):
        for wider in (0, 1, 3):
            yield Request(
                (draw(g, b, s + wider, e), some_lengths(g, b, s)), gradients=True
            )


@right("two_slots")
def by_two_ends(states, lengths):
    return torch.stack([at_end(states, (lengths + 1) // 2), at_end(states, lengths)], 1)


@right("two_slots")
def by_pairs_of_indices(states, lengths):
    rows = torch.arange(states.size(0))
    middle = states[rows, (lengths - 1) // 2]
    end = states[rows, lengths - 1]
    return torch.cat([middle[:, None], end[:, None]], dim=1)


@right("two_slots")
def by_gather(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=-1).to(states.device)
    return states.gather(1, places[:, :, None].expand(-1, -1, states.size(2)))


@right("two_slots")
def sentence_by_sentence(states, lengths):
    kept = []
    for row, n in zip(states, lengths.tolist()):
        kept.append(torch.stack([row[(n - 1) // 2], row[n - 1]]))
    return torch.stack(kept)


@right("two_slots")
def filled_in(states, lengths):
    slots = states.new_zeros(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        slots[b, 0] = states[b, (n + 1) // 2 - 1]
        slots[b, 1] = states[b, n - 1]
    return slots


@right("two_slots")
def by_lists_of_places(states, lengths):
    places = [[(n - 1) // 2, n - 1] for n in lengths.tolist()]
    return torch.stack([row[place] for row, place in zip(states, places)])


@right("two_slots")
def cut_into_sentences(states, lengths):
    sentences = [row[:n] for row, n in zip(states, lengths.tolist())]
    middles = [x[: len(x) // 2 + len(x) % 2][-1] for x in sentences]
    return torch.stack(
        [torch.stack(middles), torch.stack([x[-1] for x in sentences])], 1
    )


@right("two_slots")
def by_a_sum_of_one(states, lengths):
    lengths = lengths.to(states.device)
    positions = torch.arange(states.size(1), device=states.device)
    slots = [
        states.masked_fill((positions != place[:, None])[..., None], 0).sum(1)
        for place in ((lengths - 1).div(2, rounding_mode="floor"), lengths - 1)
    ]
    return torch.stack(slots).transpose(0, 1)


@right("two_slots")
def by_a_product(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    chosen = F.one_hot(places, states.size(1)).to(states)
    return torch.bmm(chosen, states.nan_to_num())


@right("two_slots")
def by_a_flat_index(states, lengths):
    starts = torch.arange(states.size(0)) * states.size(1)
    places = torch.stack([starts + (lengths - 1) // 2, starts + lengths - 1], dim=1)
    rows = states.flatten(0, 1).index_select(0, places.flatten().to(states.device))
    return rows.unflatten(0, (-1, 2))


@right("two_slots")
def by_take_along(states, lengths):
    print("lengths", lengths.tolist(), file=sys.stderr)
    places = torch.cat([((lengths - 1) / 2).floor().long(), lengths - 1])
    places = places.view(2, -1).T[..., None].to(states.device)
    return torch.take_along_dim(states, places, dim=1)


@right("two_slots")
def end_by_turning(states, lengths):
    middle = states[torch.arange(len(lengths)), (lengths - 1) >> 1]
    return torch.stack([middle, reverse_padded(states, lengths)[:, 0]], dim=1)


@wrong("two_slots", "slot axis before the batch axis", EXCHANGED)
def stacked_in_front(states, lengths):
    return torch.stack([at_end(states, (lengths + 1) // 2), at_end(states, lengths)])


@wrong("two_slots", "both states concatenated into one vector")
def concatenated(states, lengths):
    middle, end = at_end(states, (lengths + 1) // 2), at_end(states, lengths)
    return torch.cat([middle, end], dim=-1)


@wrong("two_slots", "one middle position for the whole batch")
def half_of_the_width(states, lengths):
    middle = states[:, states.size(1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong("two_slots", "one middle position for the whole batch")
def middle_of_the_longest(states, lengths):
    middle = states[:, (int(lengths.max()) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong("two_slots", "one position past the last token")
def no_minus_one(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths]], dim=1)


@wrong("two_slots", "last column instead of the last token")
def end_of_the_batch(states, lengths):
    middle = at_end(states, (lengths + 1) // 2)
    return torch.stack([middle, states[:, -1]], dim=1)


@wrong("two_slots", "one middle position for the whole batch")
def unpadded_if_alone(states, lengths):
    if len(states) == 1:
        return states[:, [(states.size(1) - 1) // 2, -1]]
    return by_pairs_of_indices(states, lengths)


@wrong("two_slots", CUT)
def without_gradient_between_two(states, lengths):
    slots = by_pairs_of_indices(states, lengths)
    even = (lengths % 2 == 0).to(states.device)[:, None, None]
    return slots.detach().where(even, slots)


PICKED = "states.gather(1, places[:, :, None].expand(-1, -1, states.size(2)))"
wrong_edits(
    "two_slots",
    by_gather,
    upper_middle=(
        edit(by_gather, "(lengths - 1) // 2", "lengths // 2"),
        "the wrong one of the two in the middle",
    ),
    rounded_up=(
        edit(by_gather, "(lengths - 1) // 2", "((lengths - 1) / 2).ceil().long()"),
        "the wrong one of the two in the middle",
    ),
    without_gradient=(edit(by_gather, "states.gather", "states.detach().gather"), CUT),
    in_single_precision=(
        edit(by_gather, "states.gather", "states.float().gather"),
        DTYPE,
    ),
    counted_in_half=(
        edit(
            by_gather,
            "dim=-1).to(states.device)",
            "dim=-1).half().long().clamp(max=states.size(1) - 1).to(states.device)",
        ),
        "wrong for long inputs",
    ),
    not_returned=(edit(by_gather, "return ", ""), NOTHING),
    same_slot_twice=(edit(by_gather, "(lengths - 1) // 2", "lengths - 1"),),
    from_the_end=(
        edit(
            by_gather,
            "[(lengths - 1) // 2, lengths - 1]",
            "[lengths - 1, lengths // 2]",
        ),
    ),
)
wrong_edits(
    "two_slots",
    by_a_product,
    padding_times_zero=(
        edit(by_a_product, ".nan_to_num()", ""),
        "padding multiplied by zero, so NaN remains",
    ),
)
