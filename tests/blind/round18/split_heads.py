import torch

from blind import right, wrong

PIECES = (
    "The first Dh entries of *each token's* vector go to the first head, the next Dh "
    "entries to the second head, and so on."
)
TURN = "Turn (B, T, D) into (B, H, T, Dh)."
BEFORE = (
    "Put the axis of the heads before the axis of the tokens, because `@` treats the "
    "last two axes as matrices."
)
H_PIECES = (
    "The three projections stay as they are: each projected vector of width D is split "
    "into H pieces, and head h gets piece h."
)
LAYOUT = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do "
    "not rely on its layout in memory."
)
CALLS = (
    "The result of a call must not depend on earlier calls or on other objects of the "
    "same class."
)
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed "
    "from (float64, float32 or bfloat16), and must be on their device."
)


# ---------------------------------------------------------------- right


@right("cuts the last axis into chunks and stacks them along a new axis 1")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("multiplies by a one-hot tensor (H, D, Dh) in an einsum")
def split_heads(x, num_heads):
    D = x.size(-1)
    pick = torch.eye(D, dtype=x.dtype, device=x.device)
    pick = pick.reshape(D, num_heads, D // num_heads)
    return torch.einsum("btd,dhk->bhtk", x, pick)


@right("loops over heads and tokens and fills an empty tensor")
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    result = x.new_empty(B, num_heads, T, width)
    for head in range(num_heads):
        for t in range(T):
            result[:, head, t] = x[:, t, head * width : (head + 1) * width]
    return result


@right("puts the width before the tokens, looks entries up in a table, transposes back")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).reshape(num_heads, -1)
    return x.transpose(1, 2)[:, entries].transpose(2, 3)


# ---------------------------------------------------------------- wrong


@wrong(
    "a single view to (B, H, T, Dh)",
    breaks=PIECES,
    name="mixes the tokens",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "head h gets the entries h, h + H, h + 2H, ...",
    breaks=PIECES,
    name="deals the entries out to the heads in turn",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "leaves the heads behind the tokens: (B, T, H, Dh)",
    breaks=BEFORE,
    name="forgets to swap the axes",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "moves the tokens to the end: (B, H, Dh, T)",
    breaks=TURN,
    name="each head's matrix is transposed",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)


@wrong(
    "makes pieces of width num_heads, so that D / H heads come out",
    breaks=H_PIECES,
    name="confuses the number of heads with their width",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).transpose(1, 2)


@wrong(
    "computes the strides of a contiguous tensor and relies on them",
    breaks=LAYOUT,
    name="reads a view's memory as if it were contiguous",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    return torch.as_strided(x, (B, num_heads, T, width), (T * D, width, D, 1))


@wrong(
    "swaps the axes only if the shape is not right yet, that is, not if T = H",
    breaks=PIECES,
    name="decides by the shape whether to swap",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    pieces = x.unflatten(-1, (num_heads, D // num_heads))
    if pieces.shape != (B, num_heads, T, D // num_heads):
        pieces = pieces.transpose(1, 2)
    return pieces


@wrong(
    "returns x unchanged, with three axes, if there is only one head",
    breaks=TURN,
    name="no axis for a single head",
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


ENTRIES_OF_HEADS = {}


@wrong(
    "keeps the table of each head's entries for a width D, whatever H is next time",
    breaks=CALLS,
    name="a cache forgets the number of heads",
)
def split_heads(x, num_heads):
    D = x.size(-1)
    if D not in ENTRIES_OF_HEADS:
        ENTRIES_OF_HEADS[D] = torch.arange(D).reshape(num_heads, -1)
    return x[..., ENTRIES_OF_HEADS[D].to(x.device)].transpose(1, 2)


@wrong(
    "copies the pieces into torch.zeros, which is always float32",
    breaks=DTYPE,
    name="result in the default dtype",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    result = torch.zeros(B, num_heads, T, width, device=x.device)
    for head in range(num_heads):
        result[:, head] = x[:, :, head * width : (head + 1) * width]
    return result
