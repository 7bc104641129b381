import torch

from blind import right, wrong

SHAPE = "Turn (B, T, D) into (B, H, T, Dh)."
PIECES = "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on."
AXES = "Put the axis of the heads before the axis of the tokens, because `@` treats the last two axes as matrices."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
GRADIENTS = "Gradients must be right, too."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


# ---------------------------------------------------------------- right answers


@right("sliding windows of width Dh and step Dh")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("a table of entry numbers, one row per head")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).view(num_heads, -1)
    return x.permute(0, 2, 1)[:, entries].permute(0, 1, 3, 2)


@right("splits the columns of the transpose")
def split_heads(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


@right("one head after the other, stacked")
def split_heads(x, num_heads):
    width = x.size(2) // num_heads
    heads = []
    for h in range(num_heads):
        heads.append(x[:, :, h * width : (h + 1) * width])
    return torch.stack(heads).transpose(0, 1).contiguous()


# ---------------------------------------------------------------- wrong answers


@wrong("a single reshape to the final shape", breaks=PIECES, name="mixes the tokens")
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "unflattens to (Dh, H): every H-th entry goes to a head",
    breaks=PIECES,
    name="interleaved heads",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong("forgets to swap the axes", breaks=AXES, name="(B, T, H, Dh)")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong(
    "transposes tokens and entries first, then reshapes",
    breaks=PIECES,
    name="each row of a head holds one entry of many tokens",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.transpose(1, 2).reshape(B, num_heads, T, D // num_heads)


@wrong(
    "sets the strides by hand, for a contiguous x",
    breaks=VIEW,
    name="reads other entries if x is a transpose or slice",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    if x.storage_offset() + x.numel() > x.untyped_storage().size() // x.element_size():
        x = x.contiguous()
    return x.as_strided((B, num_heads, T, width), (T * D, width, D, 1))


@wrong(
    "with one head, only inserts an axis, but at the front",
    breaks=SHAPE,
    name="(1, B, T, D) for H = 1",
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x[None]
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "looks for the axis of length H and moves it to the second place",
    breaks=LENGTHS,
    name="takes another axis of length H for the heads",
)
def split_heads(x, num_heads):
    pieces = x.unflatten(-1, (num_heads, -1))
    axis = list(pieces.shape).index(num_heads)
    return pieces.movedim(axis, 1)


@wrong(
    "fills a new tensor of the default dtype",
    breaks=DTYPE,
    name="always float32",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    out = torch.zeros(B, num_heads, T, width, device=x.device)
    for h in range(num_heads):
        out[:, h] = x[..., h * width : (h + 1) * width]
    return out


@wrong(
    "copies the data of each head into an empty tensor",
    breaks=GRADIENTS,
    name="copies .data, so no gradient flows",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    out = x.new_empty(B, num_heads, T, D // num_heads)
    for head, piece in zip(out.unbind(1), x.data.chunk(num_heads, dim=-1)):
        head.copy_(piece)
    return out


_done = {}


@wrong(
    "remembers its answers by the id of x",
    breaks=CALLS,
    name="an old answer for a tensor that has changed",
)
def split_heads(x, num_heads):
    key = id(x), tuple(x.shape), x.dtype, num_heads
    if key not in _done:
        _done[key] = x.unflatten(-1, (num_heads, -1)).transpose(1, 2).contiguous()
    return _done[key]
