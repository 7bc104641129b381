import torch

from blind import right, wrong


@right("positions counted token by token in Python, mask from a comparison")
def packed_rows(sentence):
    rows = []
    for row in sentence.tolist():
        before, place, places = 0, 0, []
        for number in row:
            place = place + 1 if number == before else 0
            before = number
            places.append(place if number else 0)
        rows.append(places)
    positions = torch.tensor(rows, dtype=torch.long, device=sentence.device)
    same = torch.eq(sentence.unsqueeze(2), sentence.unsqueeze(1))
    return same.logical_and(sentence.unsqueeze(1).bool()), positions


@right("the running maximum of the places where a sentence starts")
def packed_rows(sentence):
    place = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.ones_like(sentence, dtype=torch.bool)
    starts[:, 1:] = sentence.diff(dim=1) != 0
    first = torch.where(starts, place, 0).cummax(dim=1).values
    token = sentence > 0
    mask = (sentence[:, :, None] - sentence[:, None, :] == 0) & token[:, :, None]
    return mask, (place - first) * token


@right("the diagonal of the mask's running count, minus the token itself")
def packed_rows(sentence):
    there = sentence.sign()
    alike = sentence[:, None].bitwise_xor(sentence[..., None]) == 0
    mask = alike & (there[:, :, None] * there[:, None]).bool()
    counts = mask.cumsum(dim=-1).diagonal(dim1=1, dim2=2)
    return mask, (counts - 1).clamp(min=0).contiguous()


@right("row by row with unique_consecutive, in a helper function")
def packed_rows(sentence):
    place = torch.arange(sentence.size(1), device=sentence.device)

    def one_row(row):
        _, run, counts = torch.unique_consecutive(
            row, return_inverse=True, return_counts=True
        )
        first = counts.cumsum(0) - counts
        mask = (run[:, None] == run) & (row != 0)
        return mask, (place - first[run]).masked_fill(row == 0, 0)

    masks, positions = zip(*[one_row(row) for row in sentence])
    return torch.stack(masks), torch.stack(positions)


@wrong(
    "compares the numbers only, so padding attends to padding",
    "Padding must not attend to anything, and no token may attend to padding.",
    "padding attends to padding",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    positions = mask.tril(-1).sum(dim=-1)
    return mask, positions.masked_fill(sentence == 0, 0)


@wrong(
    "the mask is causal: no token attends to later tokens of its sentence",
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to"
    " later tokens and to itself.",
    "causal mask",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = (mask & (sentence != 0)[:, None]).tril()
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "counts the positions of the row, without starting again in each sentence",
    "Count the positions from 0, and start again from 0 in each sentence.",
    "positions of the row",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    place = torch.arange(sentence.size(1), device=sentence.device)
    return mask, place * (sentence != 0)


@wrong(
    "compares the numbers in float32, which cannot tell 16777216 from 16777217: two"
    " sentences become one",
    "Each sentence in a row has its own number, a whole number from 1 to a billion.",
    "large sentence numbers rounded",
    subtle=True,
)
def packed_rows(sentence):
    number = sentence.float()
    apart = (number[:, :, None] - number[:, None, :]).abs()
    mask = (apart < 0.5) & (sentence != 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "a sentence starts where the number gets smaller, as in the example; [1, 1, 2, 2]"
    " gets the positions 0, 1, 2, 3",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "numbers assumed to fall",
    subtle=True,
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    place = torch.arange(sentence.size(1), device=sentence.device).expand_as(sentence)
    starts = torch.zeros_like(sentence, dtype=torch.bool)
    starts[:, 1:] = sentence[:, 1:] < sentence[:, :-1]
    first = (place * starts).cummax(dim=1).values
    return mask, (place - first) * (sentence != 0)


@wrong(
    "looks for the starts in the flattened table: if a row without padding ends with"
    " sentence 5 and the next row begins with its own sentence 5, the count goes on",
    "The numbers may come in any order, and different rows may use the same numbers.",
    "a sentence runs on into the next row",
    subtle=True,
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    flat = sentence.reshape(-1)
    place = torch.arange(len(flat), device=sentence.device)
    starts = torch.zeros_like(flat, dtype=torch.bool)
    starts[1:] = flat[1:] != flat[:-1]
    first = (place * starts).cummax(dim=0).values
    return mask, (place - first).view_as(sentence) * (sentence != 0)


@wrong(
    "counts in int8 to save memory: from the 129th token of a sentence on, the positions"
    " are negative",
    "Positions and counts, however, must be exact in every dtype.",
    "counts overflow in int8",
    subtle=True,
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1, dtype=torch.int8).long()


@wrong(
    "writes -1 over the padding of the caller's table; mask and positions are right",
    "Do not change the inputs.",
    "changes the table in place",
    subtle=True,
)
def packed_rows(sentence):
    sentence[sentence == 0] = -1
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence > 0)[:, None]
    return mask, mask.tril(-1).sum(dim=-1)


@wrong(
    "joins one arange per sentence: in a row of padding only, there is nothing to join,"
    " and torch.cat raises an error",
    "Padding is always at the end of a row, and a row may consist of padding only.",
    "a row of padding only raises an error",
    subtle=True,
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    positions = torch.zeros_like(sentence)
    for row, places in zip(sentence, positions):
        _, counts = torch.unique_consecutive(row[row != 0], return_counts=True)
        parts = [torch.arange(n, device=sentence.device) for n in counts.tolist()]
        joined = torch.cat(parts)
        places[: len(joined)] = joined
    return mask, positions


@wrong(
    "makes the places on the CPU, so a table on a GPU raises an error",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "places are always on the CPU",
    subtle=True,
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None, :]
    mask = mask & (sentence != 0)[:, None]
    place = torch.arange(sentence.size(1))
    first = mask.long().argmax(dim=-1)  # the first of the largest
    return mask, (place - first) * (sentence != 0)
