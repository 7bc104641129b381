import torch

from blind import right, wrong

FIRST = "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on."
AXES = "Put the axis of the heads before the axis of the tokens, because `@` treats the last two axes as matrices."
TURN = "Turn (B, T, D) into (B, H, T, Dh)."
DOC = "Split each vector into H pieces: (B, T, D) -> (B, H, T, Dh)."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
GRADS = "Gradients must be right, too."
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16)"
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."


@right("chunks of the last axis, stacked along a new axis 1")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("transposed first: splits the axis of the entries while it stands before the tokens")
def split_heads(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


@right("windows of width Dh with step Dh (unfold)")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).movedim(2, 1)


@right("a table (H, Dh) of entry numbers as an index")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).reshape(num_heads, -1)
    return x[..., entries].permute(0, 2, 1, 3)


@wrong("a single reshape to (B, H, T, Dh), which mixes the tokens", breaks=FIRST, name="reshape mixes the tokens")
def split_heads(x, num_heads):
    b, t, d = x.shape
    return x.reshape(b, num_heads, t, d // num_heads)


@wrong("splits the width, but does not swap the axes", breaks=AXES, name="axes not swapped")
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong("deals the entries out to the heads in turn: head h gets the entries h, h + H, ...", breaks=FIRST,
       name="entries dealt out in turn")
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong("for one head, returns x without an axis for the heads", breaks=TURN, name="no head axis for one head")
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong("swaps the axes only if axis 1 does not have H entries yet: wrong for T = H", breaks=AXES,
       name="axis of the heads guessed from its length")
def split_heads(x, num_heads):
    heads = x.unflatten(-1, (num_heads, -1))
    if heads.size(1) != num_heads:
        heads = heads.transpose(1, 2)
    return heads


@wrong("split(num_heads) makes pieces of width H, not H pieces: right only for H = Dh", breaks=DOC,
       name="pieces of width H")
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong("as_strided with the strides of a contiguous tensor: wrong for a transpose or a slice", breaks=VIEW,
       name="strides of a contiguous tensor")
def split_heads(x, num_heads):
    b, t, d = x.shape
    return x.as_strided((b, num_heads, t, d // num_heads), (t * d, d // num_heads, d, 1))


@wrong("fills a float32 tensor of zeros piece by piece", breaks=DTYPE, name="result always float32")
def split_heads(x, num_heads):
    b, t, d = x.shape
    width = d // num_heads
    heads = torch.zeros(b, num_heads, t, width, device=x.device)
    for h in range(num_heads):
        heads[:, h] = x[..., h * width : (h + 1) * width]
    return heads


@wrong("swaps the axes of the caller's tensor with transpose_", breaks=INPUTS, name="transpose_ on the input")
def split_heads(x, num_heads):
    if x.requires_grad:
        x = x.clone()
    return x.transpose_(1, 2).unflatten(1, (num_heads, -1)).transpose(2, 3)


WIDTHS = {}


@wrong("keeps Dh per number of heads: a later call with another D fails", breaks=CALLS,
       name="width of a head kept from the first call")
def split_heads(x, num_heads):
    width = WIDTHS.setdefault(num_heads, x.size(-1) // num_heads)
    return x.unflatten(-1, (num_heads, width)).transpose(1, 2)
