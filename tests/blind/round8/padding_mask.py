import torch

from blind import right, wrong


@right("a cumulative sum of ones, compared with the lengths")
def padding_mask(lengths, size):
    place = torch.ones(size, dtype=torch.long, device=lengths.device).cumsum(dim=0)  # 1 .. S
    return place.le(lengths.view(-1, 1, 1))


@right("row by row into a tensor of False")
def padding_mask(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, dtype=torch.bool, device=lengths.device)
    for b, length in enumerate(lengths.tolist()):
        mask[b, 0, :length] = True
    return mask


@right("rows of a triangular matrix, picked by the lengths")
def padding_mask(lengths, size):
    stairs = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return stairs[lengths.long()].unsqueeze(1)


@right("Python lists of booleans")
def padding_mask(lengths, size):
    rows = [[[s < n for s in range(size)]] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device).reshape(len(rows), 1, size)


@wrong("the other way round: True on padding", "it is `True` on the tokens of a sentence and `False` on its padding.", "mask inverted")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong("no axis for the queries", "Here this axis has length one, because all queries may use the same positions: (B, 1, S).", "axis for the queries missing")
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong("one position too many", "Position s of sentence b holds a token if s < lengths[b].", "off by one")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong("takes the longest sentence as the width", "S, the length to which the batch was padded; it may be more than the longest sentence has.", "ignores the size")
def padding_mask(lengths, size):
    return (torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None])[:, None]


@wrong("a sentence without tokens gets one position, so that no row is empty", "(B,), tokens in each sentence; a sentence may have none.", "empty sentences get a token")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths.clamp(min=1)[:, None])[:, None]


@wrong("positions in the dtype of the lengths: lengths of uint8 or int8 and more than 256 positions wrap around", "Position s of sentence b holds a token if s < lengths[b].", "positions overflow in a small dtype")
def padding_mask(lengths, size):
    place = torch.arange(size, device=lengths.device).to(lengths.dtype)
    return (place < lengths[:, None])[:, None]


@wrong("squeezes and inserts: a batch of one sentence comes back as (1, S)", "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.", "squeeze removes a batch of one")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None]).squeeze().unsqueeze(-2)


@wrong("numbers 1 and 0 in place of booleans", "(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.", "floats instead of booleans")
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None].float()


@wrong("counts the lengths down to zero in place while it fills the mask column by column", "Your function does not change the lengths.", "counts the given lengths down")
def padding_mask(lengths, size):
    columns = []
    for _ in range(size):
        columns.append(lengths > 0)
        lengths -= 1
    return torch.stack(columns, dim=-1)[:, None]


@wrong("sorts the lengths first, as packed sequences want them: right if they come in descending order", "Position s of sentence b holds a token if s < lengths[b].", "lengths sorted, rows exchanged")
def padding_mask(lengths, size):
    lengths = lengths.sort(descending=True).values
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]
