import torch

from blind import right, wrong

PIECES = "The first Dh entries of *each token's* vector go to the first head, the next Dh entries to the second head, and so on."
SHAPE = "Turn (B, T, D) into (B, H, T, Dh)."


@right("chunks of the last axis, stacked on a new axis 1")
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("windows of the last axis with unfold")
def split_heads(x, num_heads):
    width = x.size(-1) // num_heads
    return x.unfold(-1, width, width).permute(0, 2, 1, 3)


@right("a table of indices into the last axis")
def split_heads(x, num_heads):
    entries = torch.arange(x.size(-1), device=x.device).reshape(num_heads, -1)
    return x[..., entries].movedim(2, 1)


@right("view, which can always split an axis, whatever the strides")
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.view(B, T, num_heads, D // num_heads).swapaxes(1, 2)


@wrong(
    "a single reshape to the final shape",
    breaks=PIECES,
    name="tokens mixed by a single reshape",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "head h gets the entries h, h + H, h + 2H, ...",
    breaks=PIECES,
    name="heads interleaved",
)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong(
    "computes strides from the shape",
    breaks="An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory.",
    name="relies on a contiguous input",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    return x.as_strided((B, num_heads, T, width), (T * D, width, D, 1))


@wrong(
    "transposes first, reshapes afterwards; right for Dh = 1 or T = 1",
    breaks=PIECES,
    name="splits the axes in the wrong order",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    return x.mT.reshape(B, num_heads, T, D // num_heads)


@wrong(
    "split(H) makes pieces of width H, not H pieces; right where H equals Dh",
    breaks=SHAPE,
    name="number and width of the pieces confused",
)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong(
    "one head: nothing to split",
    breaks=SHAPE,
    name="head axis missing for one head",
)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "puts the heads into the batch, head by head, and unfolds it sentence by sentence; right for B = 1",
    breaks=PIECES,
    name="sentences and heads mixed",
)
def split_heads(x, num_heads):
    folded = torch.cat(x.chunk(num_heads, dim=-1), dim=0)
    return folded.unflatten(0, (x.size(0), num_heads))


@wrong(
    "cuts the graph, because nothing is learned here",
    breaks="Gradients must be right, too.",
    name="no gradient",
)
@torch.no_grad()
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "fills a buffer of the default dtype",
    breaks="The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device.",
    name="always float32",
)
def split_heads(x, num_heads):
    B, T, D = x.shape
    width = D // num_heads
    out = torch.empty(B, num_heads, T, width, device=x.device)
    for h in range(num_heads):
        out[:, h] = x[..., h * width : (h + 1) * width]
    return out


_ENTRIES = {}


@wrong(
    "keeps its table of indices by width, not by number of heads",
    breaks="The result of a call must not depend on earlier calls or on other objects of the same class.",
    name="number of heads of an earlier call",
)
def split_heads(x, num_heads):
    D = x.size(-1)
    if D not in _ENTRIES:
        _ENTRIES[D] = torch.arange(D).reshape(num_heads, -1)
    return x[..., _ENTRIES[D].to(x.device)].transpose(1, 2)
