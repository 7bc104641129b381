import torch
from blind import bugs


def make(bug):
    def two_slots(states, lengths):
        n = lengths.to(states.device)
        rows = torch.arange(len(states), device=states.device)
        middle, end = (n - 1) // 2, n - 1
        if bug == "half of n":
            middle = (n // 2).clamp(max=states.size(1) - 1)
        if bug == "rounded up":
            middle = n // 2
        if bug == "rounded to the nearest even":
            middle = ((n - 1) / 2).round().long()
        if bug == "middle of the batch":
            middle = torch.full_like(n, (states.size(1) - 1) // 2)
        if bug == "end of the batch":
            end = torch.full_like(n, states.size(1) - 1)
        first, last = states[rows, middle], states[rows, end]
        if bug == "exchanged":
            first, last = last, first
        if bug == "concatenated in width":
            return torch.cat([first, last], -1)
        if bug == "slots in front":
            return torch.stack([first, last])
        if bug == "the mean of the first half":
            place = torch.arange(states.size(1), device=states.device)
            mask = (place <= middle[:, None])[..., None]
            first = states.masked_fill(~mask, 0).sum(1) / (middle + 1)[:, None]
        if bug == "the first state":
            first = states[:, 0]
        if bug == "by weights of 0 and 1":
            place = torch.arange(states.size(1), device=states.device)
            pick = torch.stack([place == middle[:, None], place == end[:, None]], 1)
            return pick.to(states.dtype) @ states
        if bug == "mean of the two in the middle":
            other = states[rows, n // 2]
            first = (first + other) / 2
        if bug == "one token has one slot":
            last = torch.where((n > 1)[:, None], last, torch.zeros_like(last))
        if bug == "middle from 1 on":
            first = states[rows, torch.where(n > 2, (n - 1) // 2, n - 1)]
        if bug == "half precision index":
            middle = ((n - 1).to(torch.bfloat16) / 2).floor().long()
            first = states[rows, middle]
        return torch.stack([first, last], 1)

    return two_slots


MIDDLE = "The middle of a sentence of n tokens is the position (n - 1) / 2, rounded down."
END = "Slot 1 holds the state at its end, at position `lengths[b] - 1`."
bugs(
    make,
    {
        "half of n": MIDDLE,
        "rounded up": MIDDLE,
        "rounded to the nearest even": MIDDLE,
        "middle of the batch": MIDDLE,
        "end of the batch": END,
        "exchanged": "Slot 0 holds the state in the middle",
        "concatenated in width": "(B, 2, E)",
        "slots in front": "(B, 2, E)",
        "the mean of the first half": "Slot 0 holds the state in the middle",
        "the first state": MIDDLE,
        "by weights of 0 and 1": "it may hold anything, even NaN, and none of it may get into the result",
        "mean of the two in the middle": MIDDLE,
        "one token has one slot": "the middle of a single token is position 0",
        "middle from 1 on": MIDDLE,
        "half precision index": MIDDLE,
    },
)
