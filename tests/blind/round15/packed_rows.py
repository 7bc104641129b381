import torch

from blind import right, wrong

RESTART = "Count the positions from 0, and start again from 0 in each sentence."


@right("start of each sentence with cummax")
def packed_rows(sentence):
    real = sentence > 0
    place = torch.arange(sentence.size(1), device=sentence.device)
    new = torch.ones_like(real)
    new[:, 1:] = sentence[:, 1:] != sentence[:, :-1]
    start = (place * new).cummax(dim=1).values
    mask = (sentence[:, :, None] == sentence[:, None]) & real[:, None]
    return mask, (place - start) * real


@right("row by row: blocks on the diagonal")
def packed_rows(sentence):
    masks, positions = [], []
    for row in sentence:
        numbers, counts = torch.unique_consecutive(row, return_counts=True)
        runs = list(zip(numbers.tolist(), counts.tolist()))
        blocks = [row.new_full((count, count), int(n != 0)) for n, count in runs]
        masks.append(torch.block_diag(*blocks).bool())
        places = [
            torch.arange(count, device=row.device) * int(n != 0) for n, count in runs
        ]
        positions.append(torch.cat(places))
    return torch.stack(masks), torch.stack(positions)


@right("plain Python lists")
def packed_rows(sentence):
    mask, positions = [], []
    for row in sentence.tolist():
        mask.append([[q == k and q != 0 for k in row] for q in row])
        positions.append([t - row.index(n) if n else 0 for t, n in enumerate(row)])
    device = sentence.device
    return (
        torch.tensor(mask, dtype=torch.bool, device=device),
        torch.tensor(positions, dtype=torch.long, device=device),
    )


@right("running sum along the keys, read off the diagonal")
def packed_rows(sentence):
    difference = sentence.unsqueeze(2) - sentence.unsqueeze(1)
    mask = difference.eq(0).logical_and(sentence.ne(0).unsqueeze(2))
    up_to_here = mask.long().cumsum(dim=2).diagonal(dim1=1, dim2=2)
    return mask, (up_to_here - 1).clamp(min=0)


@wrong(
    "padding attends to padding",
    breaks="Padding must not attend to anything, and no token may attend to padding.",
    name="zeros compared as well",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None]
    positions = mask.tril(-1).sum(-1).masked_fill(sentence == 0, 0)
    return mask, positions


@wrong(
    "no token sees the later tokens of its sentence",
    breaks="Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself.",
    name="causal mask",
)
def packed_rows(sentence):
    same = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    return same.tril(), same.tril(-1).sum(-1)


@wrong(
    "positions in the row, not in the sentence",
    breaks=RESTART,
    name="positions do not start again",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    place = torch.arange(sentence.size(1), device=sentence.device)
    return mask, place.expand_as(sentence).masked_fill(sentence == 0, 0)


@wrong(
    "compares float32 numbers: neighbours above 16,777,216 are the same",
    breaks="Each sentence in a row has its own number, a whole number from 1 to a billion.",
    name="sentence numbers rounded",
)
def packed_rows(sentence):
    number = sentence.float()
    mask = (number[:, :, None] == number[:, None]) & (number > 0)[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "one counter per number for the whole batch",
    breaks="The numbers may come in any order, and different rows may use the same numbers.",
    name="counters shared by the rows",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    positions, seen = torch.zeros_like(sentence), {}
    for b, row in enumerate(sentence.tolist()):
        for t, number in enumerate(row):
            if number:
                positions[b, t] = seen.get(number, 0)
                seen[number] = seen.get(number, 0) + 1
    return mask, positions


@wrong(
    "a new sentence begins where the number becomes smaller, as in the example",
    breaks="The numbers may come in any order, and different rows may use the same numbers.",
    name="assumes falling numbers",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    place = torch.arange(sentence.size(1), device=sentence.device)
    new = torch.zeros_like(sentence)
    new[:, 1:] = (sentence[:, 1:] < sentence[:, :-1]).long()
    start = (place * new).cummax(dim=1).values
    return mask, (place - start).masked_fill(sentence == 0, 0)


@wrong(
    "counts in uint8: the 257th token gets position 0",
    breaks="Positions and counts must be exact in every dtype.",
    name="counter overflows in a long sentence",
)
def packed_rows(sentence):
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    return mask, mask.tril(-1).sum(-1, dtype=torch.uint8).long()


@wrong(
    "gives padding the number -1 in the caller's table",
    breaks="Do not change the inputs.",
    name="input changed",
)
def packed_rows(sentence):
    sentence.masked_fill_(sentence == 0, -1)
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    return mask, mask.tril(-1).sum(-1)


@wrong(
    "skips the smallest number, which is not 0 in a row without padding",
    breaks="Let each token attend to all tokens of its own sentence: to earlier tokens, to later tokens and to itself.",
    name="assumes that each row has padding",
)
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros_like(sentence)
    for b, row in enumerate(sentence):
        for number in row.unique()[1:]:
            own = row == number
            mask[b] |= own[:, None] & own
            positions[b, own] = torch.arange(int(own.sum()), device=row.device)
    return mask, positions


@wrong(
    "counts padding as if it were a sentence; right for one position of padding",
    breaks="Set the positions of padding to 0.",
    name="positions of padding",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None]
    return same & (sentence > 0)[:, None], same.tril(-1).sum(-1)
