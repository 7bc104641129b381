from blind import right, wrong
import torch


@right('chunks stacked on a new axis')
def split_heads(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right('windows of the last axis with unfold')
def split_heads(x, num_heads):
    width = x.shape[-1] // num_heads
    return x.unfold(2, width, width).permute(0, 2, 1, 3)


@right('a table of columns as index')
def split_heads(x, num_heads):
    columns = torch.arange(x.size(-1), device=x.device).view(num_heads, -1)
    return x[:, :, columns].movedim(2, 1)


@right('features first, then cut the front axis')
def split_heads(x, num_heads):
    features = x.movedim(-1, 0)
    return features.unflatten(0, (num_heads, -1)).permute(2, 0, 3, 1).contiguous()


@wrong('a single view to (B, H, T, Dh)', breaks="the first Dh entries of *each token's* vector are the first head's.", name='view mixes up the tokens', subtle=False)
def split_heads(x, num_heads):
    return x.reshape(x.size(0), num_heads, x.size(1), x.size(2) // num_heads)


@wrong('positions before heads', breaks='Heads come before positions, so that the last two axes are those that `@` multiplies.', name='axes not exchanged', subtle=False)
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1))


@wrong('every H-th entry belongs to a head', breaks="the first Dh entries of *each token's* vector are the first head's.", name='the last axis cut (Dh, H)', subtle=False)
def split_heads(x, num_heads):
    return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)


@wrong('pieces of width H in place of H pieces', breaks='Cut every vector into H pieces: (B, T, D) -> (B, H, T, Dh).', name='H and Dh exchanged, right when they are equal', subtle=True)
def split_heads(x, num_heads):
    return torch.stack(x.split(num_heads, dim=-1), dim=1)


@wrong('one head: nothing to do', breaks='(B, T, D) becomes (B, H, T, Dh)', name='no axis for the heads when H = 1', subtle=True)
def split_heads(x, num_heads):
    if num_heads == 1:
        return x
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong('looks for the axis of length H', breaks='(B, T, D) becomes (B, H, T, Dh)', name='axis found by its size, wrong when B or T is H', subtle=True)
def split_heads(x, num_heads):
    cut = x.unflatten(-1, (num_heads, -1))
    return cut.movedim(list(cut.shape).index(num_heads), 1)


@wrong('heads joined to the batch, then viewed as (B, H)', breaks="the first Dh entries of *each token's* vector are the first head's.", name='heads and sentences mixed when B > 1', subtle=True)
def split_heads(x, num_heads):
    b, t, d = x.shape
    return torch.cat(x.chunk(num_heads, dim=-1), dim=0).view(b, num_heads, t, d // num_heads)


@wrong('strides reckoned as if x lay in one piece', breaks="the first Dh entries of *each token's* vector are the first head's.", name='x taken for contiguous', subtle=True)
def split_heads(x, num_heads):
    b, t, d = x.shape
    w = d // num_heads
    return x.as_strided((b, num_heads, t, w), (t * d, w, d, 1))


@wrong('goes through at most 64 tokens', breaks='(B, T, D) becomes (B, H, T, Dh)', name='tokens beyond a constant length are zero', subtle=True)
def split_heads(x, num_heads):
    b, t, d = x.shape
    out = x.new_zeros(b, num_heads, t, d // num_heads)
    for i in range(min(t, 64)):
        out[:, :, i] = x[:, i].reshape(b, num_heads, -1)
    return out
