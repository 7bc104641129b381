import torch

from blind import right, wrong


@right("chunks of the last axis, stacked on a new axis of heads")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("a table of column numbers, (H, Dh), looked up in the last axis")
def split_heads(x, num_heads):
    columns = torch.arange(x.size(-1), device=x.device).reshape(num_heads, -1)
    return x[:, :, columns].permute(0, 2, 1, 3)


@right("the axis of the width goes before the tokens first and is split there")
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    by_entry = x.transpose(1, 2)  # (B, D, T)
    return by_entry.reshape(batch, num_heads, dim // num_heads, length).mT


@right("loops over sentences and heads with narrow, in a helper function")
def split_heads(x, num_heads):
    width = x.shape[-1] // num_heads

    def pieces(vectors):  # (T, D)
        return torch.stack(
            [vectors.narrow(1, h * width, width) for h in range(num_heads)]
        )

    return torch.stack([pieces(vectors) for vectors in x.unbind(0)])


@wrong(
    "a single view to the right shape, which mixes the tokens",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on.",
    "view straight to (B, H, T, Dh)",
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    return x.reshape(batch, num_heads, length, dim // num_heads)


@wrong(
    "does not swap the axes: the result is (B, T, H, Dh)",
    "Put the axis of the heads before the axis of the tokens, because `@` treats the"
    " last two axes as matrices.",
    "forgot to swap two axes",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "deals the entries out in turn: head h gets the entries h, h + H, h + 2H, ...",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on.",
    "splits into (Dh, H), not (H, Dh)",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "remembers the width of a head per number of heads: after a call with D = 8 and"
    " H = 2, a call with D = 12 and H = 2 raises an error",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers Dh of an earlier call",
    subtle=True,
)
def split_heads(x, num_heads, widths={}):
    width = widths.setdefault(num_heads, x.size(-1) // num_heads)
    return x.unflatten(-1, (num_heads, width)).transpose(1, 2)


@wrong(
    "a view that joins sentences and tokens first: it raises an error for vectors that"
    " do not lie one after the other, such as y.transpose(0, 1) or y[:, 1:]",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "view needs contiguous vectors",
    subtle=True,
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    rows = x.view(batch * length, num_heads, width)
    return rows.view(batch, length, num_heads, width).transpose(1, 2)


@wrong(
    "with a single head, returns x itself, without an axis of heads",
    "Turn (B, T, D) into (B, H, T, Dh).",
    "no axis of heads if H = 1",
    subtle=True,
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "writes the pieces into a tensor of zeros of the default dtype: bfloat16 and float64"
    " vectors come out as float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "result is always float32",
    subtle=True,
)
def split_heads(x, num_heads):
    batch, length, dim = x.shape
    width = dim // num_heads
    out = torch.zeros(batch, num_heads, length, width, device=x.device)
    for h in range(num_heads):
        out[:, h] = x[:, :, h * width : (h + 1) * width]
    return out


@wrong(
    "takes x.data, which cuts off the gradient",
    "Gradients must be right, too.",
    "no gradient",
    subtle=True,
)
def split_heads(x, num_heads):
    return x.data.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "swaps two axes of x in place: the result is right, but the caller's x is (B, D, T)"
    " afterwards",
    "Do not change the inputs.",
    "transpose_ changes x",
    subtle=True,
)
def split_heads(x, num_heads):
    x.transpose_(1, 2)
    return x.unflatten(1, (num_heads, -1)).transpose(2, 3)


@wrong(
    "calls split with the number of pieces where it wants their width: right only where"
    " H = Dh, such as D = 16 and H = 4",
    "The first Dh entries of *each token's* vector go to the first head, the next Dh"
    " entries to the second head, and so on.",
    "H and Dh confused",
    subtle=True,
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)
