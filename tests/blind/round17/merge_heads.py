import torch

from blind import right, wrong

SHAPE = "Turn (B, H, T, Dh) into (B, T, D): concatenate the pieces of each token, from the first head to the last."
INVERSE = "Merging is the inverse of splitting."
ONE = "Once the heads have attended, each token needs a single vector again."
INPUTS = "Do not change the inputs."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up, for large and for small numbers, in train mode and in eval mode."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."


# ---------------------------------------------------------------- right answers


@right("a cat of the unbound heads")
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right("writes each head into its columns of a new tensor")
def merge_heads(x):
    B, H, T, Dh = x.shape
    out = x.new_zeros(B, T, H * Dh)
    for h in range(H):
        out[..., h * Dh : (h + 1) * Dh] = x[:, h]
    return out


@right("flattens the columns of the transposed heads and transposes back")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


@right("one gather: for each entry of D, the number of its head and its place there")
def merge_heads(x):
    entry = torch.arange(x.size(1) * x.size(3), device=x.device)
    head = torch.div(entry, x.size(3), rounding_mode="floor")
    return x.transpose(1, 2)[:, :, head, entry % x.size(3)]


# ---------------------------------------------------------------- wrong answers


@wrong("a single reshape", breaks=INVERSE, name="mixes the tokens")
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.reshape(B, T, H * Dh)


@wrong(
    "puts the heads last before it flattens",
    breaks=SHAPE,
    name="interleaves the pieces",
)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong(
    "brings the tokens to the front and flattens (T, B, H, Dh)",
    breaks=ONE,
    name="mixes tokens and sentences",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    return x.permute(2, 0, 1, 3).reshape(B, T, H * Dh)


@wrong(
    "joins heads in pairs until one is left, and puts an odd one in front",
    breaks="concatenate the pieces of each token, from the first head to the last.",
    name="wrong order if a head is left over",
)
def merge_heads(x):
    parts = list(x.unbind(1))
    while len(parts) > 1:
        odd = [parts.pop()] if len(parts) % 2 else []
        pairs = zip(parts[::2], parts[1::2])
        parts = odd + [torch.cat(pair, dim=-1) for pair in pairs]
    return parts[0]


@wrong(
    "names the heads and sorts the names, so head10 comes before head2",
    breaks="from the first head to the last.",
    name="alphabetical order of the heads",
)
def merge_heads(x):
    named = {f"head{h}": x[:, h] for h in range(x.size(1))}
    return torch.cat([named[name] for name in sorted(named)], dim=-1)


@wrong(
    "sets the strides for a contiguous x",
    breaks=VIEW,
    name="wrong after split_heads, whose result is a transpose",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    if x.storage_offset() + x.numel() > x.untyped_storage().size() // x.element_size():
        x = x.contiguous()
    rows = x.as_strided((B, T, H, Dh), (H * T * Dh, Dh, T * Dh, 1))
    return rows.flatten(2)


@wrong(
    "swaps the axes of the caller's tensor in place",
    breaks=INPUTS,
    name="transpose_ with an underscore",
)
def merge_heads(x):
    return x.transpose_(1, 2).flatten(2)


@wrong(
    "with one head, squeezes all axes of length one",
    breaks=LENGTHS,
    name="loses the axis of a single sentence or token",
)
def merge_heads(x):
    if x.size(1) == 1:
        return x.squeeze()
    return x.transpose(1, 2).flatten(2)


@wrong(
    "goes through float32",
    breaks=PRECISE,
    name="float64 loses half of its digits",
)
def merge_heads(x):
    merged = torch.cat([head.float() for head in x.unbind(1)], dim=-1)
    return merged.to(x.dtype)


_order = {}


@wrong(
    "keeps the order of the entries for each (T, D), whatever H is",
    breaks=CALLS,
    name="order made for another number of heads",
)
def merge_heads(x):
    B, H, T, Dh = x.shape
    key = T, H * Dh
    if key not in _order:
        places = torch.arange(H * T * Dh, device=x.device).view(H, T, Dh)
        _order[key] = places.transpose(0, 1).flatten()
    return x.flatten(1)[:, _order[key].to(x.device)].view(B, T, H * Dh)
