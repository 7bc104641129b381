import torch

from blind import right, wrong


@right("a loop over sentences that cuts off the padding first")
def two_slots_loop(states, lengths):
    out = states.new_empty(states.size(0), 2, states.size(2))
    for b, n in enumerate(lengths.tolist()):
        sentence = states[b, :n]
        out[b, 0] = sentence[(n - 1) >> 1]
        out[b, 1] = sentence[-1]
    return out


@right("both positions as one index (B, 2), by take_along_dim")
def two_slots_take(states, lengths):
    last = (lengths - 1).to(states.device)
    index = torch.stack((last.div(2, rounding_mode="floor"), last), dim=-1)
    return torch.take_along_dim(states, index.unsqueeze(-1), 1)


@right("two slow readers: one walks at half the speed of the other")
def two_slots_tortoise(states, lengths):
    n = lengths.to(states.device)[:, None]
    middle, end = states[:, 0], states[:, 0]
    for s in range(1, states.size(1)):
        end = torch.where(n > s, states[:, s], end)
        if s % 2 == 0:
            middle = torch.where(n > s, states[:, s // 2], middle)
    return torch.stack([middle, end], dim=1)


@right("boolean masks; the middle is the last position with at most as many before it"
       " as behind")
def two_slots_count(states, lengths):
    n = lengths.to(states.device)[:, None]
    s = torch.arange(states.size(1), device=states.device)
    middle = (s <= n - 1 - s) & (s + 1 > n - 2 - s)
    end = s + 1 == n
    return torch.cat([states[middle][:, None], states[end][:, None]], dim=1)


@wrong(
    "half of the length, rounded down, is taken for the middle",
    breaks="The middle of a sentence of n tokens is the position (n - 1) / 2, rounded"
    " down.",
    name="n / 2 and not (n - 1) / 2",
    subtle=True,
)
def two_slots_half(states, lengths):
    rows = torch.arange(states.size(0))
    return torch.stack([states[rows, lengths // 2], states[rows, lengths - 1]], dim=1)


@wrong(
    "rounds (n - 1) / 2 to the nearest whole number, halves to even ones",
    breaks="the position (n - 1) / 2, rounded down",
    name="rounded, but not down",
    subtle=True,
)
def two_slots_round(states, lengths):
    rows = torch.arange(states.size(0))
    middle = torch.round((lengths - 1) / 2).long()
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "counts positions from 1 on: n // 2 - 1, which wraps to the last column at n = 1",
    breaks="Positions count from 0, so the middle of five tokens is position 2, the"
    " middle of four tokens is position 1, and the middle of a single token is"
    " position 0.",
    name="off by one for odd lengths",
    subtle=True,
)
def two_slots_minus_one(states, lengths):
    rows = torch.arange(states.size(0))
    middle = lengths // 2 - 1
    return torch.stack([states[rows, middle], states[rows, lengths - 1]], dim=1)


@wrong(
    "an even length has two middles: takes their mean, as a median does",
    breaks="The middle of a sentence of n tokens is the position (n - 1) / 2, rounded"
    " down.",
    name="the median, not the middle position",
    subtle=True,
)
def two_slots_median(states, lengths):
    rows = torch.arange(states.size(0))
    low, high = (lengths - 1) // 2, lengths // 2
    middle = (states[rows, low] + states[rows, high]) / 2
    return torch.stack([middle, states[rows, lengths - 1]], dim=1)


@wrong(
    "the middle of the batch's positions, the same for all sentences",
    breaks="The padding has no part in this",
    name="middle of the padded batch",
)
def two_slots_batch_middle(states, lengths):
    middle = states[:, (states.size(1) - 1) // 2]
    end = states[torch.arange(states.size(0)), lengths - 1]
    return torch.stack([middle, end], dim=1)


@wrong(
    "sets all middles above all ends and cuts that into pairs",
    breaks="(B, 2, E): the state in the middle first, then the state at the end.",
    name="view mixes the sentences",
    subtle=True,
)
def two_slots_view(states, lengths):
    b, _, e = states.shape
    rows = torch.arange(b)
    middle, end = states[rows, (lengths - 1) // 2], states[rows, lengths - 1]
    return torch.cat([middle, end]).view(b, 2, e)


@wrong(
    "a matrix of zeros and ones picks the two states",
    breaks="it may hold anything, even NaN, and none of it may get into the result",
    name="zero times NaN is NaN",
    subtle=True,
)
def two_slots_matmul(states, lengths):
    pick = torch.zeros(states.size(0), 2, states.size(1)).to(states)
    rows = torch.arange(states.size(0))
    pick[rows, 0, (lengths - 1) // 2] = 1
    pick[rows, 1, lengths - 1] = 1
    return pick @ states


@wrong(
    "computes the positions in place, in the lengths that came in",
    breaks="Leave what you are handed unchanged.",
    name="lengths changed in place",
    subtle=True,
)
def two_slots_in_place(states, lengths):
    rows = torch.arange(states.size(0))
    end = states[rows, lengths.sub_(1)]
    middle = states[rows, lengths // 2]
    return torch.stack([middle, end], dim=1)


@wrong(
    "a sentence of one token has no first half: its slot 0 is left at zeros",
    breaks="the middle of a single token is position 0",
    name="single token treated as empty half",
    subtle=True,
)
def two_slots_single(states, lengths):
    out = torch.zeros_like(states[:, :1]).repeat(1, 2, 1)
    for b, n in enumerate(lengths.tolist()):
        if n > 1:
            out[b, 0] = states[b, (n - 1) // 2]
        out[b, 1] = states[b, n - 1]
    return out


@wrong(
    "gathers with an index on the CPU",
    breaks="The lengths are on the CPU, and the states may be on a GPU.",
    name="index on the wrong device",
    subtle=True,
)
def two_slots_cpu_index(states, lengths):
    index = torch.stack([(lengths - 1) // 2, lengths - 1], dim=1)
    return states.gather(1, index[..., None].expand(-1, -1, states.size(-1)))
