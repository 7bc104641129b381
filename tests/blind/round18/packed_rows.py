import torch

from blind import right, wrong

OWN = (
    "Let each token attend to all tokens of its own sentence: to earlier tokens, to "
    "later tokens and to itself."
)
NOTHING_ELSE = "Do not let it attend to anything else."
RESTART = "Count the positions from 0, and start again from 0 in each sentence."
NUMBER = (
    "Each sentence in a row has its own number, a whole number from 1 to a billion."
)
ANY_ORDER = "The numbers may come in any order, and different rows may use the same numbers."
ONLY_PADDING = (
    "Padding is always at the end of a row, and a row may consist of padding only."
)
PADDING = "Padding must not attend to anything, and no token may attend to padding."
PADDING_AT_0 = "Set the positions of padding to 0."
EXACT = "Positions and counts must be exact in every dtype."
INPUTS = "Do not change the inputs."


# ---------------------------------------------------------------- right


@right("a loop over the tokens of a row that carries the count of the sentence on")
def packed_rows(sentence):
    B, T = sentence.shape
    token = sentence != 0
    mask = (sentence[:, :, None] ^ sentence[:, None]).eq(0) & token[:, None]
    count, columns = torch.zeros_like(sentence[:, 0]), []
    for t in range(T):
        if t > 0:
            goes_on = token[:, t] & (sentence[:, t] == sentence[:, t - 1])
            count = torch.where(goes_on, count + 1, torch.zeros_like(count))
        columns.append(count)
    return mask, torch.stack(columns, dim=1)


@right("numbers the runs with a cumulative sum; a running maximum finds their starts")
def packed_rows(sentence):
    B, T = sentence.shape
    place = torch.arange(T, device=sentence.device).expand(B, T)
    starts = torch.ones_like(sentence, dtype=torch.bool)
    starts[:, 1:] = sentence.diff(dim=1) != 0
    run = starts.cumsum(dim=1)
    token = sentence > 0
    mask = run.unsqueeze(2) == run.unsqueeze(1)
    mask = mask & token.unsqueeze(2) & token.unsqueeze(1)
    first = torch.where(starts, place, torch.zeros_like(place)).cummax(dim=1).values
    return mask, (place - first) * token


@right("loops over the sentences of each row and fills square blocks")
def packed_rows(sentence):
    B, T = sentence.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool, device=sentence.device)
    positions = torch.zeros(B, T, dtype=torch.long, device=sentence.device)
    for b in range(B):
        numbers, counts = torch.unique_consecutive(sentence[b], return_counts=True)
        start = 0
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            block = slice(start, start + count)
            start += count
            if number != 0:
                mask[b, block, block] = True
                positions[b, block] = torch.arange(count, device=sentence.device)
    return mask, positions


@right("one-hot rows that say whose token it is: products give the mask, sums the count")
def packed_rows(sentence):
    masks, positions = [], []
    for row in sentence:
        numbers, index = torch.unique(row, return_inverse=True)
        member = torch.nn.functional.one_hot(index, len(numbers)) * (numbers != 0)
        masks.append(member.double() @ member.double().T > 0.5)
        earlier = member.cumsum(dim=0) - member
        positions.append((earlier * member).sum(dim=-1))
    return torch.stack(masks), torch.stack(positions)


# ---------------------------------------------------------------- wrong


def own_sentence(sentence):
    """Compute the mask rightly."""
    return (sentence[:, :, None] == sentence[:, None]) & (sentence != 0)[:, None]


def count_earlier(mask):
    """Count the positions rightly."""
    return mask.tril(-1).sum(dim=-1)


@wrong(
    "compares the numbers only, so that padding attends to padding",
    breaks=PADDING,
    name="padding forms a sentence of its own",
)
def packed_rows(sentence):
    mask = sentence[:, :, None] == sentence[:, None]
    return mask, count_earlier(own_sentence(sentence))


@wrong(
    "adds a causal mask: no token attends to later ones",
    breaks=OWN,
    name="later tokens are forbidden",
)
def packed_rows(sentence):
    mask = own_sentence(sentence)
    return mask.tril(), count_earlier(mask)


@wrong(
    "forbids the diagonal",
    breaks=OWN,
    name="no token attends to itself",
)
def packed_rows(sentence):
    mask = own_sentence(sentence)
    lower, upper = mask.tril(-1), mask.triu(1)
    return lower | upper, lower.sum(dim=-1)


@wrong(
    "counts the positions of padding, too",
    breaks=PADDING_AT_0,
    name="padding has positions",
)
def packed_rows(sentence):
    same = sentence[:, :, None] == sentence[:, None]
    return own_sentence(sentence), same.tril(-1).sum(dim=-1)


@wrong(
    "counts in uint8 to save memory, so that position 256 becomes 0",
    breaks=EXACT,
    name="counts overflow in long sentences",
)
def packed_rows(sentence):
    mask = own_sentence(sentence)
    return mask, mask.tril(-1).sum(dim=-1, dtype=torch.uint8).long()


@wrong(
    "compares the numbers in float32, which cannot tell 16777216 from 16777217",
    breaks=NUMBER,
    name="large sentence numbers are rounded",
)
def packed_rows(sentence):
    number = sentence.float()
    difference = number[:, :, None] - number[:, None]
    mask = (difference == 0) & (number != 0)[:, None]
    return mask, count_earlier(mask)


@wrong(
    "starts a sentence only where the number grows",
    breaks=ANY_ORDER,
    name="takes the numbers for ascending",
)
def packed_rows(sentence):
    grows = sentence.diff(dim=1, prepend=torch.zeros_like(sentence[:, :1])) > 0
    run = grows.cumsum(dim=1) * (sentence != 0)
    mask = own_sentence(run)
    return mask, count_earlier(mask)


@wrong(
    "looks for new sentences in the flattened table: a row that begins with the number "
    "at the end of the row before goes on counting",
    breaks=RESTART,
    name="counts on from one row to the next",
)
def packed_rows(sentence):
    flat = sentence.reshape(-1)
    _, counts = torch.unique_consecutive(flat, return_counts=True)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    positions = torch.arange(len(flat), device=flat.device) - first
    positions = positions.reshape(sentence.shape) * (sentence != 0)
    return own_sentence(sentence), positions


@wrong(
    "takes the first place of a row of padding for a token",
    breaks=ONLY_PADDING,
    name="forgets rows of padding only",
)
def packed_rows(sentence):
    place = torch.arange(sentence.size(1), device=sentence.device)
    last = (place * (sentence != 0)).argmax(dim=1, keepdim=True)
    token = place <= last
    mask = sentence[:, :, None] == sentence[:, None]
    mask = mask & token[:, None] & token[:, :, None]
    return mask, count_earlier(mask)


@wrong(
    "writes -1 over the padding in the caller's table",
    breaks=INPUTS,
    name="changes the table in place",
)
def packed_rows(sentence):
    sentence[sentence == 0] = -1
    mask = (sentence[:, :, None] == sentence[:, None]) & (sentence > 0)[:, None]
    return mask, count_earlier(mask)
