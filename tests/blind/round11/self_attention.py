import math

import torch
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


@right("averages x first and applies the value projection to the averages")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        root = x.size(-1) ** 0.25
        query, key = self.query_proj(x) / root, self.key_proj(x) / root
        scores = torch.einsum("btd,bsd->bts", query, key)
        average, weights = attend(scores, x, mask)
        mapped = nn.functional.linear(average, self.value_proj.weight)
        total = weights.sum(dim=-1, keepdim=True)  # 0 where nothing may be attended to
        return mapped + total * self.value_proj.bias, weights


@right("a loop over the queries with a softmax of its own")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        size, length, dim = x.shape
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = mask.expand(size, length, length)
        contexts, weights = [], []
        for t in range(length):
            scores = (key * query[:, t, None]).sum(dim=-1) / math.sqrt(dim)
            scores = scores.masked_fill(~mask[:, t], torch.finfo(scores.dtype).min)
            row = scores.softmax(dim=-1) * mask[:, t]
            weights.append(row)
            contexts.append((row.unsqueeze(-1) * value).sum(dim=1))
        return torch.stack(contexts, dim=1), torch.stack(weights, dim=1)


@right("one joint projection from concatenated parameters, scores of the transposed product")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = (self.value_proj, self.key_proj, self.query_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        value, key, query = nn.functional.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.bmm(key, query.transpose(1, 2)).transpose(1, 2)
        return attend(scores.div(key.size(-1) ** 0.5), value, mask)


@right("exponentials by hand in float64, minus the largest allowed score")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    @staticmethod
    def _weigh(scores, mask):
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        top = scores.detach().amax(dim=-1, keepdim=True)
        top = torch.where(top == -math.inf, torch.zeros_like(top), top)
        powers = torch.exp(scores - top)
        # The largest power is 1, so the sum is at least 1 unless the row is empty.
        return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1)

    def forward(self, x, mask=None):
        query = self.query_proj(x).double() * (1 / math.sqrt(x.size(-1)))
        key, value = self.key_proj(x).double(), self.value_proj(x)
        weights = self._weigh(torch.matmul(query, key.mT), mask)
        contexts = torch.matmul(weights, value.double())
        return contexts.to(value.dtype), weights.to(value.dtype)


@wrong(
    "does not divide the scores by the square root of D",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "scores not scaled",
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
    "takes the keys as rows and the queries as columns, so queries and keys swap roles",
    "As a query, it is compared with all keys; as a key, it is compared with all queries; as a value, it becomes part of the contexts.",
    "queries and keys swapped",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = key @ query.mT / math.sqrt(x.size(-1))
        return attend(scores, value, mask)


@wrong(
    "uses x itself as the values, without the value projection",
    "Each role has its own learned linear map:",
    "values not projected",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key = self.query_proj(x), self.key_proj(x)
        return attend(query @ key.mT / math.sqrt(x.size(-1)), x, mask)


@wrong(
    "a position that may not attend to anything spreads its weights evenly",
    "If a position may not attend to anything, all its weights must be 0.",
    "fully masked rows get uniform weights",
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
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "indexes the mask by the sentence, so a mask (T, T) or (1, T, T) gives wrong rows or an error",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask without a batch axis not broadcast",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        pairs = [
            attend(scores[b], value[b], None if mask is None else mask[b])
            for b in range(x.size(0))
        ]
        return torch.stack([c for c, _ in pairs]), torch.stack([w for _, w in pairs])


@wrong(
    "softmax by hand without subtracting the maximum: large scores overflow to nan",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "softmax overflows for large scores",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        powers = torch.exp(query @ key.mT / math.sqrt(x.size(-1)))
        if mask is not None:
            powers = powers * mask
        total = powers.sum(dim=-1, keepdim=True)
        weights = powers / total.clamp(min=torch.finfo(total.dtype).tiny)
        return weights @ value, weights


@wrong(
    "returns float32 weights for bfloat16 vectors",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "weights of the wrong dtype",
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
        return contexts.to(x.dtype), weights


@wrong(
    "keeps the mask of an earlier call and uses it when a later call has none",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "mask remembered from an earlier call",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.mask = None

    def forward(self, x, mask=None):
        if mask is not None:
            self.mask = mask
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(query @ key.mT / math.sqrt(x.size(-1)), value, self.mask)


@wrong(
    "a mask that is False everywhere is treated like no mask at all",
    "If a position may not attend to anything, all its weights must be 0.",
    "an all-False mask is ignored",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        if mask is not None and not mask.any():
            mask = None
        query, key, value = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(query @ key.mT / math.sqrt(x.size(-1)), value, mask)


@wrong(
    "forbidden scores become -10000, which very negative allowed scores fall below, so weight goes to forbidden positions",
    "A padding mask forbids padding, and a causal mask forbids all later positions.",
    "mask by a constant that is not small enough",
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
            weights = weights * mask.any(dim=-1, keepdim=True)
        return weights @ self.value_proj(x), weights
