from blind import right, wrong
import torch

_SEEN = {}


@right('cumulative sum of ones')
def padding_mask(lengths, size):
    ones = torch.ones(lengths.size(0), 1, size, dtype=torch.long, device=lengths.device)
    return ones.cumsum(-1) <= lengths.view(-1, 1, 1)


@right('rows of a triangular table, looked up by length')
def padding_mask(lengths, size):
    table = torch.ones(size + 1, size, dtype=torch.bool, device=lengths.device).tril(-1)
    return table[lengths.long()].unsqueeze(1)


@right('python lists')
def padding_mask(lengths, size):
    rows = [[[s < n for s in range(size)]] for n in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=lengths.device).reshape(len(lengths), 1, size)


@right('a mark where padding begins, and all before it')
def padding_mask(lengths, size):
    marks = torch.zeros(len(lengths), size + 1, dtype=torch.long, device=lengths.device)
    marks.scatter_(1, lengths.long()[:, None], 1)
    return ~marks.cumsum(1)[:, None, :size].bool()


@wrong('one position too many', breaks='`True` on the tokens of a sentence, `False` on its padding.', name='off by one', subtle=False)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) <= lengths[:, None])[:, None]


@wrong('no axis for queries', breaks='a mask has an axis for the queries, here of length one, as the same positions are allowed to all of them: (B, 1, S).', name='axis missing', subtle=False)
def padding_mask(lengths, size):
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@wrong('True on padding', breaks='`True` on the tokens of a sentence, `False` on its padding.', name='mask turned around', subtle=False)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[:, None]


@wrong('as long as the longest sentence, whatever size says', breaks='size: S, the length to which the batch was padded.', name='size ignored', subtle=True)
def padding_mask(lengths, size):
    return torch.arange(int(lengths.max()), device=lengths.device)[None, None] < lengths[:, None, None]


@wrong('bytes', breaks='(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.', name='wrong dtype', subtle=True)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None].to(torch.uint8)


@wrong('made on the CPU, and left there', breaks='(B, 1, S), of `torch.bool`, on the device of `lengths`: True = a token.', name='wrong device', subtle=True)
def padding_mask(lengths, size):
    return (torch.arange(size) < lengths.cpu()[:, None])[:, None]


@wrong('a sentence without tokens gets one', breaks='`True` on the tokens of a sentence, `False` on its padding.', name='length zero raised to one', subtle=True)
def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths.clamp(min=1)[:, None])[:, None]


@wrong('counts in 8 bits: wrong for long sentences', breaks='`True` on the tokens of a sentence, `False` on its padding.', name='integer overflow', subtle=True)
def padding_mask(lengths, size):
    positions = torch.arange(size, device=lengths.device).to(torch.int8)
    return (positions < lengths.to(torch.int8)[:, None])[:, None]


@wrong('a batch of one sentence is taken to have no padding', breaks='size: S, the length to which the batch was padded.', name='special case for one sentence', subtle=True)
def padding_mask(lengths, size):
    if len(lengths) == 1:
        return torch.ones(1, 1, size, dtype=torch.bool, device=lengths.device)
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]


@wrong('kept per shape: the second batch of a shape gets the mask of the first', breaks='`True` on the tokens of a sentence, `False` on its padding.', name='state kept between calls', subtle=True)
def padding_mask(lengths, size):
    key = len(lengths), size, str(lengths.device)
    if key not in _SEEN:
        _SEEN[key] = (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None]
    return _SEEN[key]
