from blind import right, wrong
import torch


@right('rows of the flattened batch')
def at_end(x, lengths):
    B, S, D = x.shape
    rows = torch.arange(B) * S + lengths.cpu().long() - 1
    return x.reshape(B * S, D).index_select(0, rows.to(x.device))


@right('gather along the positions')
def at_end(x, lengths):
    last = lengths.to(x.device, torch.long).sub(1)[:, None, None]
    return x.gather(1, last.expand(-1, 1, x.size(2)))[:, 0]


@right('a loop over the sentences')
def at_end(x, lengths):
    return torch.stack([sentence[:n][-1] for sentence, n in zip(x, lengths.tolist())])


@right('choice by a mask')
def at_end(x, lengths):
    here = torch.arange(1, x.size(1) + 1, device=x.device) == lengths.to(x.device)[:, None]
    return x[here]


@wrong('last column', breaks='For each sentence it picks the vector at position `lengths[b] - 1`.', name='last column', subtle=False)
def at_end(x, lengths):
    return x[:, -1]


@wrong('off by one', breaks='For each sentence it picks the vector at position `lengths[b] - 1`.', name='off by one', subtle=False)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.clamp(max=x.size(1) - 1)]


@wrong('all rows at all ends', breaks='(B, D): x[b, lengths[b] - 1].', name='slice in place of a list of rows', subtle=False)
def at_end(x, lengths):
    return x[:, lengths - 1]


@wrong('index left on the CPU: gather fails for vectors on a GPU', breaks='The lengths are on the CPU, as always in this course; the vectors may be on a GPU.', name='index on the wrong device', subtle=True)
def at_end(x, lengths):
    last = (lengths.cpu() - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last)[:, 0]


@wrong('zero times what stands on padding: nan or infinity there gets into the answer', breaks='(B, D): x[b, lengths[b] - 1].', name='padding multiplied by zero', subtle=True)
def at_end(x, lengths):
    here = torch.arange(x.size(1), device=x.device) == (lengths.to(x.device) - 1)[:, None]
    return torch.einsum("bs,bsd->bd", here.to(x.dtype), x)


@wrong('all axes of length one go', breaks='(B, D): x[b, lengths[b] - 1].', name='squeezed too much', subtle=True)
def at_end(x, lengths):
    last = (lengths.to(x.device) - 1)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, last).squeeze()


@wrong('end taken for the last vector that is not zero', breaks='For each sentence it picks the vector at position `lengths[b] - 1`.', name='lengths guessed from the vectors', subtle=True)
def at_end(x, lengths):
    seen = (x != 0).any(-1).long() * torch.arange(x.size(1), device=x.device)
    return x[torch.arange(x.size(0)), seen.argmax(1)]


@wrong('positions in 8 bits', breaks='For each sentence it picks the vector at position `lengths[b] - 1`.', name='integer overflow in long sentences', subtle=True)
def at_end(x, lengths):
    return x[torch.arange(x.size(0)), lengths.to(torch.int8).long() - 1]


@wrong("takes one from the caller's lengths", breaks='lengths: (B,), tokens in each sentence, at least one; on the CPU.', name='lengths changed in place', subtle=True)
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong('assumes the longest sentence first: others come out in another order', breaks='For each sentence it picks the vector at position `lengths[b] - 1`.', name='sorted, and not sorted back', subtle=True)
def at_end(x, lengths):
    lengths, order = lengths.sort(descending=True, stable=True)
    return x[order.to(x.device), lengths.to(x.device) - 1]
