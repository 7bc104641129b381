import torch
from blind import right, wrong

DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
INPUTS = "Do not change the inputs."
GRADIENTS = "Gradients must be right, too."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
EXACT = "Positions and counts must be exact in every dtype."

PICK = "For each sentence b, pick the vector at position `lengths[b] - 1`."
OWN = "We want the state that has read the whole sentence and nothing else, which is the state at the sentence's *own* last token."
NAN = "The padding may hold any values, even NaN, and must not influence the result."
SHAPE = "(B, D): x[b, lengths[b] - 1]."


@right('gather along the positions')
def at_end(x, lengths):
    index = (lengths - 1).to(x.device).reshape(-1, 1, 1).expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze(1)


@right('a list of vectors, stacked')
def at_end(x, lengths):
    return torch.stack([sentence[n - 1] for sentence, n in zip(x, lengths.tolist())])


@right('all other positions filled with zeros (masked_fill lets no NaN through, nor in the gradient), then a sum')
def at_end(x, lengths):
    last = (lengths - 1).to(x.device)
    elsewhere = torch.arange(x.size(1), device=x.device) != last[:, None]
    return x.masked_fill(elsewhere[..., None], 0).sum(1)


@right('one long list of positions, index_select')
def at_end(x, lengths):
    rows = torch.arange(x.size(0)) * x.size(1) + lengths - 1
    return x.flatten(0, 1).index_select(0, rows.to(x.device))


@wrong('takes the last column of the batch',
       breaks=OWN,
       name='last column of the batch')
def at_end(x, lengths):
    return x[:, -1]


@wrong('position lengths[b], and the last column where that lies outside',
       breaks=PICK,
       name='off by one')
def at_end(x, lengths):
    last = lengths.clamp(max=x.size(1) - 1)
    return x[torch.arange(x.size(0)), last]


@wrong('multiplies by a mask of zeros and ones, and NaN times zero is NaN',
       breaks=NAN,
       name='NaN times zero')
def at_end(x, lengths):
    last = (lengths - 1).to(x.device)
    chosen = torch.arange(x.size(1), device=x.device) == last[:, None]
    return (x * chosen[..., None].to(x.dtype)).sum(1)


@wrong('sorts the sentences by length, as for packing, and does not restore their order',
       breaks=PICK,
       name='order of the sentences not restored')
def at_end(x, lengths):
    lengths, order = lengths.sort(descending=True, stable=True)
    x = x[order.to(x.device)]
    return torch.stack([x[b, n - 1] for b, n in enumerate(lengths.tolist())])


@wrong('squeeze also removes the batch or the width if its length is one',
       breaks=SHAPE,
       name='squeeze removes too many axes')
def at_end(x, lengths):
    index = (lengths - 1).to(x.device)[:, None, None].expand(-1, 1, x.size(2))
    return x.gather(1, index).squeeze()


@wrong("subtracts one from the caller's lengths",
       breaks=INPUTS,
       name='lengths changed in place')
def at_end(x, lengths):
    lengths -= 1
    return x[torch.arange(x.size(0)), lengths]


@wrong('view of a tensor that may be transposed or a slice',
       breaks=VIEW,
       name='view of a tensor that is not contiguous')
def at_end(x, lengths):
    rows = torch.arange(x.size(0)) * x.size(1) + lengths - 1
    return x.view(-1, x.size(2))[rows]


@wrong('collects the vectors in a float32 tensor',
       breaks=DTYPE,
       name='float32 result')
def at_end(x, lengths):
    result = torch.zeros(x.size(0), x.size(2), device=x.device)
    for b, n in enumerate(lengths.tolist()):
        result[b] = x[b, n - 1]
    return result


@wrong('moves the lengths to the dtype of x as well: bfloat16 rounds positions above 256',
       breaks=EXACT,
       name='positions in bfloat16')
def at_end(x, lengths):
    last = (lengths.to(x) - 1).long()
    return x[torch.arange(x.size(0), device=x.device), last]


@wrong('makes a new tensor from Python numbers, so no gradient reaches x',
       breaks=GRADIENTS,
       name='gradient cut off')
def at_end(x, lengths):
    vectors = [x[b, n - 1].tolist() for b, n in enumerate(lengths.tolist())]
    return torch.tensor(vectors, dtype=x.dtype, device=x.device)
