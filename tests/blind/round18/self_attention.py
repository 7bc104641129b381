import math

import torch
import torch.nn.functional as F
from attention_course.attention import attend
from torch import nn

from blind import right, wrong

ROLES = (
    "Its query is compared with all keys, its key is compared with all queries, and "
    "its value becomes part of the contexts."
)
OWN_MAP = "Each role has its own learned linear map:"
SOFTMAX = (
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad"
)
MASK = "For each position, the mask says which positions it may attend to."
FORBIDS = (
    "A padding mask forbids padding, and a causal mask forbids all later positions."
)
BROADCAST = (
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
)
GRADIENTS = "Gradients must be right, too."
INPUTS = "Do not change the inputs."
OVERFLOW = "An exponential, however, may overflow."


# ---------------------------------------------------------------- right


@right("one fused projection with concatenated weights, einsum for the scores, attend")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([one.weight for one in maps])
        bias = torch.cat([one.bias for one in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(x.size(-1))
        return attend(scores, v, mask)


@right(
    "PyTorch's fused attention; an identity matrix beside the values makes it return "
    "the weights, too"
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        eye = torch.eye(T, dtype=v.dtype, device=v.device).expand(B, T, T)
        if mask is None:
            mask = torch.ones(1, 1, 1, dtype=torch.bool, device=x.device)
        mask = mask.expand(B, T, T)
        alive = mask.any(dim=-1, keepdim=True)
        both = F.scaled_dot_product_attention(
            q, k, torch.cat([v, eye], dim=-1), attn_mask=mask | ~alive
        )
        both = torch.where(alive, both, torch.zeros_like(both))
        return both[..., :D], both[..., D:]


@right("a loop over the keys with a running maximum and a running sum, in float64")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = (
            m(x).double() for m in (self.query_proj, self.key_proj, self.value_proj)
        )
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = mask.expand(B, T, T)
        zero = q.new_zeros(B, T)
        peak = torch.full_like(zero, torch.finfo(q.dtype).min)
        total, context, scores = zero, torch.zeros_like(v), []

        def part(score, peak, allowed):
            shifted = torch.where(allowed, score - peak, zero)
            return torch.where(allowed, shifted.exp(), zero)

        for s in range(T):
            score, allowed = (q * k[:, s : s + 1]).sum(-1) / D**0.5, mask[:, :, s]
            new = torch.where(allowed, torch.maximum(peak, score.detach()), peak)
            decay, here = (peak - new).exp(), part(score, new, allowed)
            total = total * decay + here
            context = context * decay[..., None] + here[..., None] * v[:, s : s + 1]
            peak = new
            scores.append(score)
        total = torch.where(total == 0, torch.ones_like(total), total)
        weights = [
            part(score, peak, mask[:, :, s]) / total for s, score in enumerate(scores)
        ]
        context = context / total[..., None]
        return context.to(x.dtype), torch.stack(weights, dim=-1).to(x.dtype)


@right("two loops: each query sees only the keys that it may attend to, in float64")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        if mask is None:
            mask = torch.ones(T, T, dtype=torch.bool, device=x.device)
        mask = mask.expand(B, T, T)
        contexts, weights = [], []
        for b in range(B):
            q, k, v = (
                m(x[b]).to(torch.float64)
                for m in (self.query_proj, self.key_proj, self.value_proj)
            )
            for t in range(T):
                keys = mask[b, t].nonzero().squeeze(1)
                shares = torch.softmax(k[keys] @ q[t] / math.sqrt(D), dim=0)
                weights.append(q.new_zeros(T).scatter(0, keys, shares))
                contexts.append(shares @ v[keys])
        contexts = torch.stack(contexts).unflatten(0, (B, T))
        weights = torch.stack(weights).unflatten(0, (B, T))
        return contexts.to(x.dtype), weights.to(x.dtype)


# ---------------------------------------------------------------- wrong


@wrong(
    "divides the scores by the square root of the length T",
    breaks=SOFTMAX,
    name="scaled by the length instead of the width",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(k.size(1)), v, mask)


@wrong(
    "takes the softmax over the queries (axis 1)",
    breaks=SOFTMAX,
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
            low = torch.finfo(scores.dtype).min
            scores = scores.masked_fill(~mask, low)
        weights = scores.softmax(dim=1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0)
        return weights @ v, weights


@wrong(
    "compares each key with all queries: row t holds k_t q_s",
    breaks=SOFTMAX,
    name="queries and keys swapped",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(k @ q.mT / math.sqrt(x.size(-1)), v, mask)


@wrong(
    "averages the vectors x themselves and never uses value_proj",
    breaks=OWN_MAP,
    name="values not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, x, mask)


@wrong(
    "takes the softmax over all positions and sets forbidden weights to 0 afterwards",
    breaks=MASK,
    name="masked after the softmax, without normalizing again",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        weights = (q @ k.mT / math.sqrt(x.size(-1))).softmax(dim=-1)
        if mask is not None:
            weights = weights * mask
        return weights @ v, weights


@wrong(
    "takes a mask of shape (T, T) for a padding mask (B, T) if B happens to equal T",
    breaks=BROADCAST,
    name="guesses the axes of the mask from their sizes",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is not None and mask.shape == (B, T):
            mask = mask[:, None]
        return attend(q @ k.mT / math.sqrt(D), v, mask)


@wrong(
    "adds log(mask) and repairs NaN after the softmax: the numbers are right, but the gradients are NaN "
    "if a position may not attend to anything",
    breaks=GRADIENTS,
    name="NaN gradients of fully masked rows",
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
            scores = scores + mask.to(scores.dtype).log()  # 0 or -inf
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights @ v, weights


@wrong(
    "opens fully masked rows in the caller's mask, so that the softmax is finite",
    breaks=INPUTS,
    name="changes the mask in place",
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
            weights = scores.softmax(dim=-1)
        else:
            dead = ~mask.any(dim=-1, keepdim=True)
            mask |= dead
            scores = scores.masked_fill(~mask, float("-inf"))
            weights = scores.softmax(dim=-1).masked_fill(dead, 0)
        return weights @ v, weights


@wrong(
    "computes the softmax with exp, without subtracting the maximum",
    breaks=OVERFLOW,
    name="exponentials overflow for large scores",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        exps = (q @ k.mT / math.sqrt(x.size(-1))).exp()
        if mask is not None:
            exps = exps.masked_fill(~mask, 0)
        total = exps.sum(dim=-1, keepdim=True)
        weights = exps / total.masked_fill(total == 0, 1)
        return weights @ v, weights


@wrong(
    "returns detached weights: a loss on the weights has no gradient",
    breaks=GRADIENTS,
    name="weights cut off from the graph",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        context, weights = attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)
        return context, weights.detach()
