import torch
from torch import nn

from blind import right, wrong


@right("running maximum of the places where a sentence starts; only the keys are checked for padding")
def packed_rows(sentence):
    B, T = sentence.shape
    place = torch.arange(T, device=sentence.device).expand(B, T)
    new = torch.ones_like(sentence, dtype=torch.bool)
    new[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    start = torch.where(new, place, 0).cummax(dim=1).values
    word = sentence.ne(0)
    # a padding query has the same number only as padding keys, which are excluded
    mask = torch.eq(sentence[..., None], sentence[:, None]) & word[:, None]
    return mask, (place - start) * word


@right("loops over rows and tokens in Python and builds the tensors at the end")
def packed_rows(sentence):
    B, T = sentence.shape
    rows = sentence.tolist()
    mask = torch.zeros(B, T, T, dtype=torch.bool)
    positions = torch.zeros(B, T, dtype=torch.long)
    for b, row in enumerate(rows):
        first = 0
        while first < T and row[first] != 0:
            last = first
            while last < T and row[last] == row[first]:
                last += 1
            mask[b, first:last, first:last] = True
            positions[b, first:last] = torch.arange(last - first)
            first = last
    return mask.to(sentence.device), positions.to(sentence.device)


@right("each token's start is the argmax of its row of the mask (the first True)")
def packed_rows(sentence):
    padding = sentence == 0
    same = sentence.unsqueeze(2) == sentence.unsqueeze(1)
    mask = same.masked_fill(padding.unsqueeze(2), False)
    starts = mask.to(torch.uint8).argmax(dim=2)
    counted = torch.arange(sentence.size(1), device=sentence.device) - starts
    return mask, counted.masked_fill(padding, 0)


@right("positions by a scan over the columns, the mask by comparing numbered segments")
def packed_rows(sentence, pad=0):
    columns = sentence.unbind(dim=1)
    position, segment = torch.zeros_like(columns[0]), torch.zeros_like(columns[0])
    positions, segments = [position], [segment]
    for before, now in zip(columns, columns[1:]):
        going_on = (now == before) & (now != pad)
        position = torch.where(going_on, position + 1, torch.zeros_like(position))
        segment = segment + (now != before).long()
        positions.append(position)
        segments.append(segment)
    segments = torch.stack(segments, 1)
    segments = torch.where(sentence == pad, -1, segments)
    mask = (segments[:, :, None] == segments[:, None, :]) & (segments >= 0)[:, :, None]
    return mask, torch.stack(positions, 1)


@wrong(
    "compares the numbers only, so padding attends to padding",
    "Padding must not attend to anything, and no token may attend to padding.",
    "padding attends to padding",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(-1) * (sentence != 0)
    return mask, positions


@wrong(
    "keeps only the lower triangle, so no token attends to later tokens of its sentence",
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself.",
    "the mask is causal",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    mask = (same & (sentence != 0)[:, :, None]).tril()
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "counts positions through the whole row and does not start again in each sentence",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "positions do not restart",
)
def packed_rows(sentence):
    word = sentence != 0
    same = sentence[:, :, None] == sentence[:, None, :]
    positions = torch.arange(sentence.size(1), device=sentence.device) * word
    return same & word[:, :, None], positions


@wrong(
    "finds the start of a sentence with searchsorted in the row, which assumes ascending numbers; a row such as 5 5 5 2 2 gets wrong positions",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "assumes ascending sentence numbers",
)
def packed_rows(sentence):
    word = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & word[:, :, None]
    last = torch.iinfo(torch.long).max
    rising = sentence.masked_fill(~word, last)  # padding is at the end
    starts = torch.searchsorted(rising, rising)
    places = torch.arange(sentence.size(1), device=sentence.device)
    return mask, torch.where(word, places - starts, 0)


@wrong(
    "writes the rows with a loop and takes the last token's place with nonzero().max(); a row of padding only raises",
    "Padding is always at the end of a row, and a row may consist of padding only.",
    "a row of padding only raises",
)
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for b in range(B):
        words = int(sentence[b].nonzero().max()) + 1
        row = sentence[b, :words]
        same = row[:, None] == row[None, :]
        mask[b, :words, :words] = same
        positions[b, :words] = same.tril(-1).sum(-1)
    return mask, positions


@wrong(
    "converts the numbers to float32 and subtracts them; neighbours above 2**24 such as 16777216 and 16777217 become one sentence",
    "Each sentence in a row has its own number, which can be any integer from 1 up.",
    "large sentence numbers are rounded",
)
def packed_rows(sentence):
    numbers = sentence.float()[..., None]
    apart = (numbers - numbers.mT).abs()
    mask = (apart < 0.5) & (numbers > 0.5)
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "replaces the zeros of the caller's table by different negative numbers, so that they are equal to nothing",
    "Do not change the inputs.",
    "changes the table in place",
)
def packed_rows(sentence):
    T = sentence.size(1)
    padding = sentence == 0
    fresh = -1 - torch.arange(T, device=sentence.device).expand_as(sentence)
    sentence[padding] = fresh[padding]
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & ~padding[:, :, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "flattens all rows into one before it looks for the starts; if a row ends with the number with which the next row begins, the positions go on into the next row",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "sentences run on into the next row",
)
def packed_rows(sentence):
    word = sentence != 0
    mask = (sentence[:, :, None] == sentence[:, None, :]) & word[:, :, None]
    flat = sentence.flatten()
    _, counts = flat.unique_consecutive(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    positions = torch.arange(flat.numel(), device=flat.device) - starts
    return mask, positions.view_as(sentence) * word


@wrong(
    "tests for padding by the sign of the product of two numbers; numbers from about 3 billion on overflow, and their tokens cannot attend to anything",
    "Each sentence in a row has its own number, which can be any integer from 1 up.",
    "product of sentence numbers overflows",
)
def packed_rows(sentence):
    queries, keys = sentence.unsqueeze(2), sentence.unsqueeze(1)
    mask = (queries == keys) & (queries * keys > 0)
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "counts positions in each run of equal numbers, and padding is such a run: its positions are 0, 1, 2 ...; with one position of padding, as in the lab's example, that is right",
    "Set the positions of padding to 0.",
    "padding is counted, too",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None, :]
    positions = same.tril(-1).sum(dim=-1)
    word = sentence.bool()
    return same & word[:, None, :] & word[:, :, None], positions
