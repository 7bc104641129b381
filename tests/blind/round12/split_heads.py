import torch
from torch import nn

from blind import right, wrong


# ---------------------------------------------------------------- right answers


@right("a table of indices, one row of entries per head")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).view(num_heads, -1)  # (H, Dh)
    return x[:, :, entries].movedim(2, 1)


@right("transposes the matrices, splits their rows, transposes them back")
def split_heads(x, num_heads):
    return nn.Unflatten(1, (num_heads, x.size(2) // num_heads))(x.mT).mT


@right("unfold: a window of Dh entries that moves on by Dh")
def split_heads(x, num_heads):
    width = x.shape[-1] // num_heads
    return x.unfold(-1, width, width).transpose(1, 2)


@right("fills an empty tensor in a loop over the heads, from the last one")
def split_heads(x, num_heads):
    b, t, d = x.shape
    width = d // num_heads
    out = x.new_empty(b, num_heads, t, width)
    for head in reversed(range(num_heads)):
        out[:, head] = x.narrow(2, head * width, width)
    return out


# ---------------------------------------------------------------- wrong answers


@wrong(
    "a single reshape to (B, H, T, Dh), which mixes the tokens",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on.",
    "view alone mixes the tokens",
)
def split_heads(x, num_heads):
    b, t, d = x.shape
    return x.reshape(b, num_heads, t, d // num_heads)


@wrong(
    "leaves the heads behind the tokens: (B, T, H, Dh)",
    "Put the axis of the heads before the axis of the tokens, because `@` treats the"
    " last two axes as matrices.",
    "axes not swapped",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "splits the last axis into (Dh, H), so that head h gets every H-th entry",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on.",
    "entries dealt out in turn",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "puts the heads before the batch: (H, B, T, Dh)",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "heads before the batch",
)
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1))


@wrong(
    "concatenates the pieces along the batch, head by head, and views them as if they"
    " lay sentence by sentence: right for B = 1 only",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "batch and heads mixed",
)
def split_heads(x, num_heads):
    b, t, d = x.shape
    pieces = torch.cat(x.chunk(num_heads, dim=-1), dim=0)  # (H * B, T, Dh)
    return pieces.view(b, num_heads, t, d // num_heads)


@wrong(
    "returns x itself for one head, without the axis of the heads",
    "Split each vector into H pieces: (B, T, D) -> (B, H, T, Dh).",
    "no axis for a single head",
    subtle=True,
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "fills torch.zeros, which is float32 and on the CPU, whatever x is",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result always float32 on the CPU",
    subtle=True,
)
def split_heads(x, num_heads):
    b, t, d = x.shape
    width = d // num_heads
    out = torch.zeros(b, num_heads, t, width)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * width : (h + 1) * width]
    return out


@wrong(
    "works on x.data, so that no gradient flows back to x",
    "Gradients must be right, too.",
    "gradient cut off",
    subtle=True,
)
def split_heads(x, num_heads):
    return x.data.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "inserts the axis of the heads into the caller's x (unsqueeze_): afterwards x has"
    " the shape (B, 1, T, D)",
    "Do not change the inputs.",
    "changes the shape of x",
    subtle=True,
)
def split_heads(x, num_heads):
    x.unsqueeze_(1)  # (B, 1, T, D)
    return torch.cat(x.chunk(num_heads, dim=-1), dim=1)


_widths = {}


@wrong(
    "remembers Dh for each number of heads: a later call with another D gets the Dh of"
    " the earlier one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "width remembered from an earlier call",
    subtle=True,
)
def split_heads(x, num_heads):
    if num_heads not in _widths:
        _widths[num_heads] = x.size(-1) // num_heads
    return x.unflatten(-1, (-1, _widths[num_heads])).transpose(1, 2)
