import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

# ---------------------------------------------------------------- right


@right("einsum, and a softmax by hand: subtract the maximum, exp, divide")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(x.size(-1))
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if mask is not None:
            allowed = allowed & mask
        low = torch.finfo(scores.dtype).min
        top = torch.where(allowed, scores, low).amax(-1, keepdim=True).detach()
        e = torch.where(allowed, (scores - top).masked_fill(~allowed, 0).exp(), 0.0)
        total = e.sum(-1, keepdim=True)
        weights = e / torch.where(total == 0, torch.ones_like(total), total)
        return torch.einsum("bts,bsd->btd", weights, v), weights


@right("one query after the other, in a loop over T")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        k, v = self.key_proj(x), self.value_proj(x)
        if mask is not None:
            mask = mask.expand(B, T, T)
        contexts, weights = [], []
        for t in range(T):
            q = self.query_proj(x[:, t : t + 1])
            score = (q * k).sum(-1)[:, None] * D**-0.5
            c, w = attend(score, v, None if mask is None else mask[:, t : t + 1])
            contexts.append(c)
            weights.append(w)
        return torch.cat(contexts, dim=1), torch.cat(weights, dim=1)


@right("one wide projection for all three, -inf, softmax, nan_to_num")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        wide = nn.functional.linear(
            x, torch.cat([m.weight for m in maps]), torch.cat([m.bias for m in maps])
        )
        q, k, v = wide.chunk(3, dim=-1)
        scores = (q / math.sqrt(q.size(-1))).bmm(k.transpose(1, 2))
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), float("-inf"))
        weights = scores.softmax(dim=2)
        if mask is not None:
            weights = weights.where(mask, torch.zeros_like(weights))
        return weights @ v, weights


@right("computes everything the other way round, keys by queries, and turns it at the end")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        root = math.sqrt(math.sqrt(x.shape[-1]))
        columns = (self.key_proj(x) / root) @ (self.query_proj(x) / root).mT
        if mask is None:
            weights = columns.softmax(dim=-2).mT
        else:
            full = mask.expand(x.shape[0], x.shape[1], x.shape[1]).mT
            columns = columns.masked_fill(~full, torch.finfo(x.dtype).min)
            weights = (columns.softmax(dim=-2) * full).mT
        return (self.value_proj(x).mT @ weights.mT).mT, weights


# ---------------------------------------------------------------- wrong


@wrong(
    "divides by the root of the number of tokens",
    breaks=r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}",
    name="scale by the length instead of the width",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT
        return attend(scores / math.sqrt(scores.size(-1)), v, mask)


@wrong(
    "fills with -1e9 and takes the softmax: a row without any key becomes uniform",
    breaks="A position that may ask none has weights of 0.",
    name="a finite fill makes an empty row uniform",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9 if x.dtype != torch.half else -6e4)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v, weights


@wrong(
    "the vectors themselves are the values",
    breaks=r"c_t = \sum_s \alpha_{ts} v_s",
    name="values not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), x, mask)


@wrong(
    "normalizes over the queries: softmax over axis 1",
    breaks=r"\alpha_{ts} = \mathrm{softmax}_s",
    name="softmax over the wrong axis",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=1).nan_to_num(0.0)
        return weights @ v, weights


@wrong(
    "softmax as exp over sum, without taking the maximum away: overflows",
    breaks="Your code works for every length from one on, for large numbers as for small ones",
    name="exp overflows",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        powers = torch.exp(q @ k.mT / math.sqrt(x.size(-1)))
        if mask is not None:
            powers = powers * mask
        total = powers.sum(dim=-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1)
        return weights @ v, weights


@wrong(
    "lets every position ask itself, so that no row is empty, by setting the diagonal of the caller's mask",
    breaks="What comes in stays as it is",
    name="the mask is changed in place, and each token sees itself",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is not None:
            if mask.size(-1) == mask.size(-2):
                mask.diagonal(dim1=-2, dim2=-1).fill_(True)
        return attend(scores, v, mask)


@wrong(
    "drops a tenth of the weights in train mode, as the Transformer paper does",
    breaks="Your code works for every length from one on, for large numbers as for small ones, in train mode and in eval mode.",
    name="dropout that nobody asked for",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        _, weights = attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)
        weights = nn.functional.dropout(weights, p=0.1, training=self.training)
        return weights @ v, weights


@wrong(
    "takes the softmax in float32 and returns those weights as they are",
    breaks="what goes out has its dtype and its device",
    name="weights come out in float32",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = (q @ k.mT / math.sqrt(x.size(-1))).float()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights.to(v.dtype) @ v, weights


@wrong(
    "keeps the last mask and uses it again when none is given",
    breaks="None allows everything.",
    name="the mask of the last call is remembered",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        if mask is not None:
            self.mask = mask
        mask = getattr(self, "mask", None)
        if mask is not None and mask.size(-1) != x.size(1):
            mask = None
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "looks for an empty row in the mask as a whole only: single empty rows become nan",
    breaks="A position that may ask none has weights of 0.",
    name="any() over the whole mask instead of each row",
    subtle=True,
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = q @ k.mT / math.sqrt(x.size(-1))
        if mask is None:
            weights = scores.softmax(-1)
        elif not mask.any():
            weights = torch.zeros_like(scores)
        else:
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return weights @ v, weights
