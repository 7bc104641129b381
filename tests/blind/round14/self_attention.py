import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

CHANGE = "Do not change the inputs."
DTYPE = (
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device."
)
ALL = (
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode."
)
GRAD = "Gradients must be right, too."
PRECISE = (
    "Compute in the dtype of the inputs or in a more precise one: then rounding errors"
    " cost no points."
)
EXACT = "Positions and counts must be exact in every dtype."
STATE = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
SCALE = r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad"
BLOCKED = "If a position may not attend to anything, all its weights must be 0."
MASK = "For each position, the mask says which positions it may attend to."
ROLE = "Each role has its own learned linear map:"


@right("projects with weights cast to at least float32, einsum, softmax by hand")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        wide = torch.promote_types(x.dtype, torch.float32)
        query, key, value = (
            F.linear(x.to(wide), layer.weight.to(wide), layer.bias.to(wide))
            for layer in (self.query_proj, self.key_proj, self.value_proj)
        )
        scores = torch.einsum("btd,bsd->bts", query, key) / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        top = scores.detach().amax(-1, keepdim=True)
        top = top.clamp(min=torch.finfo(wide).min)
        powers = (scores - top).exp()
        total = powers.sum(-1, keepdim=True)
        weights = powers / total.masked_fill(total == 0, 1.0)
        contexts = torch.einsum("bts,bsd->btd", weights, value)
        return contexts.to(x.dtype), weights.to(x.dtype)


@right("one big projection from concatenated weights, one sentence at a time")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        layers = (self.value_proj, self.query_proj, self.key_proj)
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        value, query, key = F.linear(x, weight, bias).chunk(3, dim=-1)
        if mask is not None:
            mask = mask.expand(x.size(0), x.size(1), x.size(1))
        results = []
        for b in range(x.size(0)):
            one = slice(b, b + 1)
            scores = query[one] @ key[one].mT * x.size(-1) ** -0.5
            allowed = None if mask is None else mask[one]
            results.append(attend(scores, value[one], allowed))
        contexts, weights = zip(*results)
        return torch.cat(contexts), torch.cat(weights)


@right("walks over the keys one by one and sums up the exponentials")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        query = self.query_proj(x).to(wide) / math.sqrt(dim)
        key, value = self.key_proj(x).to(wide), self.value_proj(x).to(wide)
        if mask is None:
            mask = torch.ones(1, 1, dtype=torch.bool, device=x.device)
        mask = mask.expand(batch, length, length)
        low = torch.full((), -math.inf, dtype=wide, device=x.device)
        columns = []
        for s in range(length):
            score = (query * key[:, s : s + 1]).sum(-1)
            columns.append(torch.where(mask[:, :, s], score, low))
        top = torch.full_like(columns[0], torch.finfo(wide).min).detach()
        for column in columns:
            top = torch.maximum(top, column.detach())
        total, context, powers = 0, 0, []
        for s, column in enumerate(columns):
            power = (column - top).exp()
            powers.append(power)
            total = total + power
            context = context + power[..., None] * value[:, s : s + 1]
        total = torch.where(total == 0, torch.ones_like(total), total)[..., None]
        weights = torch.stack(powers, dim=-1) / total
        return (context / total).to(x.dtype), weights.to(x.dtype)


@right("log-sum-exp after the shift; blocked rows attend to all and are erased")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        key_first = self.key_proj(x) @ self.query_proj(x).mT  # (B, S, T)
        scores = key_first.mT / math.sqrt(self.key_proj.out_features)
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = scores.to(wide)
        if mask is not None:
            reachable = mask | ~mask.any(dim=-1, keepdim=True)
            scores = scores.masked_fill(~reachable, -math.inf)
        scores = scores - scores.detach().amax(dim=-1, keepdim=True)
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        weights = weights.to(x.dtype)
        return torch.bmm(weights, self.value_proj(x)), weights


@wrong(
    "does not divide the scores by the square root of D",
    SCALE,
    "scores are not scaled",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "takes the softmax over the queries instead of the keys",
    SCALE,
    "softmax over the wrong axis",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(x.dtype).min)
        weights = scores.softmax(dim=1)
        if mask is not None:
            weights = weights * mask
        return weights @ self.value_proj(x), weights


@wrong(
    "uses the vectors themselves as values, without value_proj",
    ROLE,
    "values are not projected",
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
    "fills forbidden scores with -inf, so a row without any allowed position is nan",
    BLOCKED,
    "nan for a fully masked row",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "adds -inf to forbidden scores and repairs nan afterwards: the weights are right,"
    " but the gradients are nan if a row is fully masked",
    GRAD,
    "nan gradients from fully masked rows",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores + scores.new_zeros(mask.shape).masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights @ self.value_proj(x), weights


@wrong(
    "fills forbidden scores with -10000, which is not low enough if the allowed scores"
    " are lower still",
    MASK,
    "finite mask value too close to scores",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            weights = scores.masked_fill(~mask, -1e4).softmax(dim=-1)
            weights = weights.masked_fill(~mask, 0.0)
        return weights @ self.value_proj(x), weights


@wrong(
    "takes the softmax over all keys first, then erases forbidden weights and"
    " normalises: if a forbidden score is far above the allowed ones, nothing is left",
    ALL,
    "masks after softmax, weights underflow",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights * mask
            total = weights.sum(dim=-1, keepdim=True)
            weights = weights / total.masked_fill(total == 0, 1)
        return weights @ self.value_proj(x), weights


@wrong(
    "opens the rows of the caller's mask that are fully masked, so that softmax finds"
    " something, and erases their weights at the end",
    CHANGE,
    "mask changed in place",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is None:
            return attend(scores, self.value_proj(x), None)
        empty = ~mask.any(dim=-1, keepdim=True)
        if empty.any():
            mask |= empty
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        weights = weights.masked_fill(empty, 0.0)
        return weights @ self.value_proj(x), weights


@wrong(
    "computes scores and softmax in float32 even for float64 vectors",
    PRECISE,
    "float64 computed in float32",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query.float() @ key.float().mT / math.sqrt(x.size(-1))
        contexts, weights = attend(scores, value.float(), mask)
        return contexts.to(x.dtype), weights.to(x.dtype)


@wrong(
    "returns detached weights, so a loss on the weights gives no gradients",
    GRAD,
    "weights cut off from the gradient",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        contexts, weights = attend(scores, self.value_proj(x), mask)
        return contexts, weights.detach()
