import torch
from blind import bugs


def make(bug):
    def at_end(x, lengths):
        rows = torch.arange(x.size(0), device=x.device)
        last = lengths.to(x.device) - 1
        if bug == "the last column":
            return x[:, -1]
        if bug == "one too late":
            return x[rows, (last + 1).clamp(max=x.size(1) - 1)]
        if bug == "by a sum over a mask":
            place = torch.arange(x.size(1), device=x.device) == last[:, None]
            return (x * place[..., None]).sum(1)
        if bug == "the same place for all":
            return x[:, int(last.max())]
        if bug == "an axis too many":
            return x[rows, last][:, None]
        if bug == "wrong way round by take_along_dim":
            return x.flip(1)[rows, x.size(1) - lengths.to(x.device) - 1]
        if bug == "lengths on the device":
            return x[torch.arange(len(x)), lengths - 1].float()
        if bug == "padding set to zero in place":
            for row, n in zip(x, lengths.tolist()):
                row[n:] = 0
            return x[rows, last]
        if bug == "without gradient":
            return x.detach()[rows, last]
        if bug == "last vector that is not zero":
            token = (x != 0).any(-1)
            last = token.size(1) - 1 - token.flip(1).long().argmax(1)
            return x[rows, last]
        if bug == "lengths changed":
            lengths -= 1
            return x[rows, lengths.to(x.device)]
        return x[rows, last]

    return at_end


PICK = "For each sentence it picks the vector at position `lengths[b] - 1`."
PAD = "The padding may hold anything, even NaN, and none of it may get into the result."
bugs(
    make,
    {
        "the last column": PICK,
        "one too late": PICK,
        "by a sum over a mask": PAD,
        "the same place for all": PICK,
        "an axis too many": "(B, D)",
        "wrong way round by take_along_dim": PICK,
        "lengths on the device": "what goes out has its dtype",
        "padding set to zero in place": "What comes in stays as it is",
        "without gradient": PICK,
        "last vector that is not zero": PAD,
        "lengths changed": "What comes in stays as it is",
    },
)
