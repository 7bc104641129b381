import torch

from blind import right, wrong


@right("unbinds the heads and concatenates them")
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=-1)


@right("permute and flatten")
def merge_heads(x):
    return x.permute(0, 2, 1, 3).flatten(start_dim=-2)


@right("token by token in Python, stacked")
def merge_heads(x):
    B, H, T, width = x.shape
    sentences = []
    for b in range(B):
        tokens = [torch.cat([x[b, h, t] for h in range(H)]) for t in range(T)]
        sentences.append(torch.stack(tokens))
    return torch.stack(sentences)


@right("looks up each entry's head and place in it with one advanced index")
def merge_heads(x):
    H, width = x.shape[1], x.shape[3]
    entry = torch.arange(H * width, device=x.device)
    head = entry.div(width, rounding_mode="floor")
    place = entry.remainder(width)
    return x.movedim(2, 1)[:, :, head, place]


@wrong(
    "reshapes without swapping the axes: mixes the tokens for H > 1 and T > 1",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "reshape without swapping axes mixes tokens",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.reshape(B, T, H * width)


@wrong(
    "the head is the fastest axis of the result: entries of the heads alternate; wrong for H > 1 and Dh > 1",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "entries of the heads alternate",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "swaps the heads with the width instead of the tokens, and reshapes; wrong for H > 1 and T > 1",
    "Merging is the inverse of splitting.",
    "wrong pair of axes swapped",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.transpose(1, 3).reshape(B, T, H * width)


@wrong(
    "view after the swap: works on what split_heads returns, raises on a contiguous x with H > 1 and T > 1, which attend returns",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "view fails after transpose",
)
def merge_heads(x):
    B, H, T, width = x.shape
    return x.transpose(1, 2).view(B, T, H * width)


@wrong(
    "a special case for one head squeezes all axes of length one: B = 1, T = 1 or Dh = 1 lose their axes too",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "squeeze removes more than the head axis",
)
def merge_heads(x):
    if x.size(1) == 1:
        return x.squeeze()
    return x.transpose(1, 2).flatten(2)


@wrong(
    "fills a tensor of the default dtype: bfloat16 or float64 heads give float32",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "result has default dtype and device",
)
def merge_heads(x):
    B, H, T, width = x.shape
    out = torch.empty(B, T, H * width)
    for h in range(H):
        out[:, :, h * width : (h + 1) * width] = x[:, h]
    return out


@wrong(
    "transpose_ swaps the axes of the caller's tensor",
    "Do not change the inputs.",
    "in-place transpose changes the input's shape",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "returns the tensor that x is a view of, where its size fits: right after split_heads, wrong for any other view, such as a transpose of (B, T, Dh, H)",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "returns the base of the view",
)
def merge_heads(x):
    B, H, T, width = x.shape
    if x._base is not None and x._base.numel() == x.numel():
        return x._base.reshape(B, T, H * width)  # undo the split
    return x.transpose(1, 2).reshape(B, T, H * width)


@wrong(
    "takes x for (B, T, H, Dh) if its second axis is the longer one: not swapped where H > T",
    "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last.",
    "guesses the layout from the sizes",
)
def merge_heads(x):
    if x.size(1) <= x.size(2):  # heads first
        x = x.transpose(1, 2)
    return x.flatten(2)


_buffers = {}


@wrong(
    "writes into one buffer for each shape: the result of an earlier call changes with the next call of the same shape",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "calls share one output buffer",
)
def merge_heads(x):
    B, H, T, width = x.shape
    key = (B, T, H, width, x.dtype, x.device)
    if x.requires_grad:
        return x.transpose(1, 2).flatten(2)
    if key not in _buffers:
        _buffers[key] = x.new_empty(B, T, H, width)
    return _buffers[key].copy_(x.transpose(1, 2)).flatten(2)
