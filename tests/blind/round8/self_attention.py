import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)


@right("loops over sentences and positions, softmax by hand over the allowed keys only")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        B, T, D = x.shape
        allowed = torch.ones(B, T, T, dtype=torch.bool, device=x.device)
        if mask is not None:
            allowed = allowed & mask
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        all_weights, all_contexts = [], []
        for b in range(B):
            rows = []
            for t in range(T):
                row = torch.zeros_like(q[b, :, 0])
                seen = allowed[b, t].nonzero()[:, 0]
                if len(seen):
                    e = (k[b, seen] @ q[b, t]) / math.sqrt(D)
                    e = (e - e.max()).exp()
                    row = row.index_copy(0, seen, e / e.sum())
                rows.append(row)
            rows = torch.stack(rows)
            all_weights.append(rows)
            all_contexts.append(rows @ v[b])
        return torch.stack(all_contexts), torch.stack(all_weights)


@right("einsum, -inf with torch.where, empty rows repaired before the softmax")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        q = self.query_proj(x) * x.size(-1) ** -0.5
        e = torch.einsum("btd,bsd->bts", q, self.key_proj(x))
        if mask is None:
            a = F.softmax(e, dim=2)
        else:
            mask = mask.to(x.device).expand(e.shape)
            some = mask.any(dim=2, keepdim=True)
            e = torch.where(mask | ~some, e, -math.inf)
            a = F.softmax(e, dim=2) * some
        return torch.einsum("bts,bsd->btd", a, self.value_proj(x)), a


@right("one product with the three stacked maps, then attend on a mask of full size")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.matmul(q, k.transpose(-1, -2)).div(math.sqrt(x.shape[-1]))
        if mask is not None:
            mask = torch.broadcast_to(mask, scores.shape)
        context, weights = attend(scores, v, mask)
        return context, weights


@right("log-sum-exp in place of a softmax, with an additional method")
class SelfAttention(Given):
    def weights(self, x, mask):
        e = self.query_proj(x).bmm(self.key_proj(x).mT) / math.sqrt(x.size(2))
        if mask is None:
            return (e - e.logsumexp(-1, keepdim=True)).exp()
        mask = mask.expand_as(e)
        low = torch.finfo(e.dtype).min
        top = e.detach().masked_fill(~mask, low).amax(-1, keepdim=True)
        parts = (e - top).masked_fill(~mask, -math.inf).exp()
        total = parts.sum(-1, keepdim=True)
        return parts / total.masked_fill(total == 0, 1)

    def forward(self, x, mask=None):
        a = self.weights(x, mask)
        return a.bmm(self.value_proj(x)), a


@wrong(
    "the scores are not divided by the root of D; wrong for every D above 1 with several keys",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "scores not scaled",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "the softmax runs over the queries, so rows do not sum to one for T > 1",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "softmax over the wrong axis",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=1)
        if mask is not None:
            weights = weights * mask
        return weights @ self.value_proj(x), weights


@wrong(
    "looks up x itself, value_proj is never used; wrong unless value_proj is the identity",
    r"q_t = W^Q x_t, \quad k_s = W^K x_s, \quad v_s = W^V x_s",
    "values are not projected",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        q, k = self.query_proj(x), self.key_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), x, mask)


@wrong(
    "-1e9 in place of a real mask: a row that may attend to nothing gets weights of 1/T",
    "A position that may attend to nothing has weights of 0.",
    "fully masked row becomes uniform",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "-inf everywhere gives NaN for a position that may attend to nothing (a padded sentence of a (B, T, T) mask)",
    "A position that may attend to nothing has weights of 0.",
    "NaN in fully masked rows",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return weights @ self.value_proj(x), weights


@wrong(
    "exponentials without subtracting the maximum: inf/inf = NaN for scores above 88",
    "Your code works for every length from one on, for large and for small numbers, in train mode and in eval mode.",
    "softmax overflows for large scores",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        weights = scores.exp()
        if mask is not None:
            weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
        return weights @ self.value_proj(x), weights


@wrong(
    "unpacks a mask of three axes and views it as (B, T, T): a causal mask (T, T) with B > 1 or a padding mask (B, 1, T) raises",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask must have full size",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        B, T, D = x.shape
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(D)
        if mask is not None:
            mask = mask.reshape(B, T, T)
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "a mask that forbids everything is taken for no mask at all: weights 1/T-like in place of 0 when no entry of the mask is True",
    "A position that may attend to nothing has weights of 0.",
    "all-False mask is ignored",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        if mask is None or not mask.any():
            return attend(scores, self.value_proj(x))
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "keeps the mask of the first call that had one and uses it whenever a later mask has the same shape; a second call with another mask is wrong",
    "mask: True = may attend, broadcastable to (B, T, T); None allows everything.",
    "mask of an earlier call is reused",
)
class SelfAttention(Given):
    seen = None

    def forward(self, x, mask=None):
        if mask is not None:
            if self.seen is None or self.seen.shape != mask.shape:
                self.seen = mask.clone()
            mask = self.seen
        scores = self.query_proj(x) @ self.key_proj(x).mT / math.sqrt(x.size(-1))
        return attend(scores, self.value_proj(x), mask)


@wrong(
    "before projecting, writes zeros into x at the positions that no query may see: the weights are right, but the caller's padding vectors are overwritten",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "padding of the input is overwritten",
)
class SelfAttention(Given):
    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        if mask is not None:
            used = mask.expand(x.size(0), x.size(1), x.size(1)).any(dim=1)
            x.data[~used] = 0
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)
