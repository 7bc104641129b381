import torch

from blind import right, wrong

CONCAT = "concatenate the pieces of each token, from the first head to the last."
TURN = "Turn (B, H, T, Dh) into (B, T, D)"
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."
GRADS = "Gradients must be right, too."
LENGTHS = "Your code must work for all lengths and all numbers of sentences from 1 up"
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
PRECISE = "Compute in the dtype of the inputs or in a more precise one: then rounding errors cost no points."
DOC = "Concatenate the pieces of each vector: (B, H, T, Dh) -> (B, T, D)."


@right("unbinds the heads and concatenates them")
def merge_heads(x):
    return torch.cat(x.unbind(1), dim=-1)


@right("flattens heads and entries while the tokens stand last")
def merge_heads(x):
    return x.mT.flatten(1, 2).mT


@right("product with a placement matrix (H, Dh, D) of zeros and ones")
def merge_heads(x):
    _, h, _, w = x.shape
    place = torch.eye(h * w, dtype=x.dtype, device=x.device).reshape(h, w, h * w)
    return torch.einsum("bhtw,hwd->btd", x, place)


@right("reads entry j of a token from head j // Dh, entry j % Dh, by indexing")
def merge_heads(x):
    j = torch.arange(x.size(1) * x.size(3), device=x.device)
    return x[:, j // x.size(3), :, j % x.size(3)].permute(1, 2, 0)


@wrong("reshapes without swapping the axes", breaks=CONCAT, name="reshape without the swap")
def merge_heads(x):
    b, h, t, w = x.shape
    return x.reshape(b, t, h * w)


@wrong("interleaves the heads: first the first entry of every head", breaks=CONCAT, name="heads interleaved")
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong("view after transpose: works for the result of split_heads, fails for a contiguous input", breaks=VIEW,
       name="view after transpose")
def merge_heads(x):
    b, h, t, w = x.shape
    return x.transpose(1, 2).view(b, t, h * w)


@wrong("takes the smaller of the two middle axes for the heads: wrong for more heads than tokens", breaks=TURN,
       name="axis of the heads guessed from its length")
def merge_heads(x):
    if x.size(1) <= x.size(2):
        x = x.transpose(1, 2)
    return x.flatten(2)


@wrong("for a single token, drops the axis of the tokens", breaks=TURN, name="token axis squeezed away")
def merge_heads(x):
    return x.transpose(1, 2).flatten(2).squeeze(1)


@wrong("for a single head, returns the four axes as they are", breaks=DOC, name="one head not merged")
def merge_heads(x):
    return x if x.size(1) == 1 else x.transpose(1, 2).flatten(2)


@wrong("concatenates the heads in the alphabetical order of their names: head 10 comes before head 2",
       breaks=CONCAT, name="heads in alphabetical order")
def merge_heads(x):
    heads = {str(h): piece for h, piece in enumerate(x.unbind(1))}
    return torch.cat([heads[name] for name in sorted(heads)], dim=-1)


@wrong("copies through .data, so no gradient flows", breaks=GRADS, name="gradient cut off by .data")
def merge_heads(x):
    return x.data.transpose(1, 2).flatten(2)


@wrong("goes through float32 and back: float64 loses digits", breaks=PRECISE, name="float64 rounded to float32")
def merge_heads(x):
    return x.float().transpose(1, 2).flatten(2).to(x.dtype)


SEEN = {}


@wrong("keeps results by memory address and shape: after the input has changed in place, returns the old result",
       breaks=CALLS, name="result kept by memory address")
def merge_heads(x):
    key = (x.data_ptr(), x.shape, x.stride(), x.dtype)
    if key not in SEEN or x.requires_grad:
        SEEN[key] = x.transpose(1, 2).flatten(2)
    return SEEN[key]
