from blind import right, wrong
import torch


@right('heads attached one behind the other')
def merge_heads(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


@right('permuted, then reshaped with explicit sizes')
def merge_heads(x):
    b, h, t, w = x.shape
    return x.permute(0, 2, 1, 3).reshape(b, t, h * w)


@right('an empty tensor filled head by head')
def merge_heads(x):
    heads, width = x.size(1), x.size(3)
    out = x.new_empty(x.size(0), x.size(2), heads * width)
    for h in range(heads):
        out[..., h * width : (h + 1) * width] = x[:, h]
    return out


@right('pairs (head, entry) brought to the front and to the back again')
def merge_heads(x):
    return x.movedim(-1, 2).flatten(1, 2).mT


@wrong('reshape without exchanging axes', breaks='all pieces of a token in a row.', name='view mixes up the tokens', subtle=False)
def merge_heads(x):
    return x.reshape(x.size(0), x.size(2), -1)


@wrong('entries of the heads alternate', breaks='all pieces of a token in a row.', name='heads innermost', subtle=False)
def merge_heads(x):
    return x.permute(0, 2, 3, 1).flatten(2)


@wrong('mean over the heads', breaks='(B, H, T, Dh) becomes (B, T, D)', name='heads averaged instead of joined', subtle=False)
def merge_heads(x):
    return x.mean(dim=1)


@wrong('takes the axes of length one off at the end', breaks='(B, H, T, Dh) becomes (B, T, D)', name='squeeze() takes B or T too', subtle=True)
def merge_heads(x):
    return x.transpose(1, 2).flatten(2).squeeze()


@wrong('view after the exchange', breaks='(B, H, T, Dh) becomes (B, T, D)', name='view fails unless x came from a split', subtle=True)
def merge_heads(x):
    return x.transpose(1, 2).view(x.size(0), x.size(2), x.size(1) * x.size(3))


@wrong('sentences joined before the axes are exchanged', breaks='(B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.', name='heads and sentences mixed when B > 1', subtle=True)
def merge_heads(x):
    b, h, t, w = x.shape
    return x.flatten(0, 1).transpose(0, 1).reshape(b, t, h * w)


@wrong('the longer of the two axes is taken for the positions', breaks='(B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.', name='axes guessed by size: wrong when T < H', subtle=True)
def merge_heads(x):
    if x.size(1) <= x.size(2):
        x = x.transpose(1, 2)
    return x.flatten(2)


@wrong('heads of width one: only an axis to drop', breaks='(B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.', name='axes not exchanged when Dh = 1', subtle=True)
def merge_heads(x):
    if x.size(-1) == 1:
        return x.squeeze(-1)
    return x.transpose(1, 2).flatten(2)


@wrong('joins the first eight heads', breaks='(B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.', name='a constant number of heads', subtle=True)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(min(x.size(1), 8))], dim=-1)


@wrong('one buffer per shape, used again by the next call', breaks='(B, H, T, Dh) becomes (B, T, D), all pieces of a token in a row.', name='the next call overwrites the last result', subtle=True)
def merge_heads(x, _buffers={}):
    b, h, t, w = x.shape
    out = _buffers.get((b, h, t, w, x.dtype, x.device))
    if out is None:
        out = _buffers[b, h, t, w, x.dtype, x.device] = x.detach().new_empty(b, t, h, w)
    out.detach_().copy_(x.transpose(1, 2))
    return out.flatten(2)
