import torch
from blind import right, wrong

INPUTS = "Do not change the inputs."
EXACT = "Positions and counts must be exact in every dtype."

ORDER = "Slot 0 holds the state in the middle of the sentence."
MIDDLE = "The middle of a sentence of n tokens is position (n - 1) / 2, rounded down."
NAN = "The padding may hold any values, even NaN, and must not influence the result."
SHAPE = "(B, 2, E): the state in the middle first, then the state at the end."
CPU = "The lengths are on the CPU, but the states may be on a GPU."


def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths - 1]


@right('one gather for both slots')
def two_slots(states, lengths):
    ends = lengths.sub(1)
    places = torch.stack([ends >> 1, ends], dim=1).to(states.device)
    return states.gather(1, places[..., None].expand(-1, -1, states.size(-1)))


@right('a loop in Python')
def two_slots(states, lengths):
    slots = []
    for sentence, n in zip(states, lengths.tolist()):
        slots += [sentence[(n - 1) // 2], sentence[n - 1]]
    return torch.stack(slots).unflatten(0, (-1, 2))


@right('at_end of half the sentence, rounded up, is the middle')
def two_slots(states, lengths):
    half = torch.div(lengths + 1, 2, rounding_mode="floor")
    return torch.cat([at_end(states, n).unsqueeze(1) for n in (half, lengths)], dim=1)


@right('masks for both slots, the rest filled with zeros, and a sum')
def two_slots(states, lengths):
    positions = torch.arange(states.size(1), device=states.device)

    def only(where):
        other = positions != where.to(states.device)[:, None]
        return states.masked_fill(other[..., None], 0).sum(1, keepdim=True)

    return torch.cat((only((lengths - 1) // 2), only(lengths - 1)), dim=1)


@wrong('n // 2 as the middle: one too far for an even number of tokens',
       breaks=MIDDLE,
       name='middle rounded up')
def two_slots(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths - 1]], dim=1)


@wrong('the middle of the padded batch',
       breaks=MIDDLE,
       name='middle of the batch')
def two_slots(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong('passes the middle position to at_end, which subtracts one more',
       breaks=MIDDLE,
       name='position passed as a length')
def two_slots(states, lengths):
    middle = at_end(states, (lengths - 1) // 2)
    return torch.stack([middle, at_end(states, lengths)], dim=1)


@wrong('round() goes to the even neighbour: 1.5 becomes 2, but 0.5 becomes 0',
       breaks=MIDDLE,
       name='rounds to even')
def two_slots(states, lengths):
    middle = ((lengths - 1) / 2).round().long()
    return torch.stack([at_end(states, middle + 1), at_end(states, lengths)], dim=1)


@wrong('stacks along axis 0 and reshapes, which mixes the sentences of a batch',
       breaks=SHAPE,
       name='reshape mixes the sentences')
def two_slots(states, lengths):
    both = torch.stack([at_end(states, (lengths + 1) // 2), at_end(states, lengths)])
    return both.reshape(states.size(0), 2, states.size(2))


@wrong('multiplies by one-hot rows: NaN in the padding spreads',
       breaks=NAN,
       name='NaN times zero')
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1).to(states.device)
    chosen = places[..., None] == torch.arange(states.size(1), device=states.device)
    return chosen.to(states.dtype) @ states


@wrong('positions in the dtype of the states: bfloat16 rounds them above 256',
       breaks=EXACT,
       name='positions in bfloat16')
def two_slots(states, lengths):
    n = lengths.to(states)
    places = torch.stack([((n - 1) / 2).floor(), n - 1], dim=1).long()
    rows = torch.arange(states.size(0), device=states.device)[:, None]
    return states[rows, places]


@wrong('a sentence of one token has zeros in slot 0',
       breaks=ORDER,
       name='no middle for one token')
def two_slots(states, lengths):
    slots = states.new_zeros(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        if n > 1:
            slots[b, 0] = states[b, (n - 1) // 2]
        slots[b, 1] = states[b, n - 1]
    return slots


@wrong("halves the caller's lengths",
       breaks=INPUTS,
       name='lengths changed in place')
def two_slots(states, lengths):
    end = at_end(states, lengths)
    lengths += 1
    lengths //= 2
    return torch.stack([at_end(states, lengths), end], dim=1)


@wrong('gather with an index that stays on the CPU',
       breaks=CPU,
       name='index on the CPU')
def two_slots(states, lengths):
    places = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    return states.gather(1, places[..., None].expand(-1, -1, states.size(2)))
