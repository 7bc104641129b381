import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

DEAD = "If a position may not attend to anything, all its weights must be 0."
MASK = "For each position, the mask says which positions it may attend to."
SOFTMAX = r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad"
ROLES = "Each role has its own learned linear map:"
SHAPE = "mask: True = may attend, broadcastable to (B, T, T); None allows everything."
GRADS = "Gradients must be right, too."
NUMBERS = "for large and for small numbers"
DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16)"
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
VIEW = "An input may be a view of another tensor, such as a transpose or a slice, so do not rely on its layout in memory."


class Given(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def scored(self, x):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return q @ k.mT / math.sqrt(x.size(-1)), v


@right("one fused projection with concatenated parameters, then chunk; scaled queries")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        maps = (self.query_proj, self.key_proj, self.value_proj)
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.einsum("btd,bsd->bts", q * x.size(-1) ** -0.5, k)
        return attend(scores, v, mask)


@right("scaled_dot_product_attention with the identity as values gives the weights; "
       "rows without any key are opened first and set to 0 afterwards")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        b, t, _ = x.shape
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        eye = torch.eye(t, dtype=x.dtype, device=x.device).expand(b, t, t)
        if mask is None:
            weights = F.scaled_dot_product_attention(q, k, eye)
        else:
            mask = mask.expand(b, t, t)
            dead = ~mask.any(-1, keepdim=True)
            weights = F.scaled_dot_product_attention(q, k, eye, attn_mask=mask | dead)
            weights = weights.masked_fill(dead, 0)
        return weights @ v, weights


@right("scores as one bilinear form of [x, 1], everything in float64, rounded at the end")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        def whole(m):
            return torch.cat([m.weight, m.bias[:, None]], dim=1).double()

        one = F.pad(x.double(), (0, 1), value=1.0)
        form = whole(self.query_proj).T @ whole(self.key_proj)
        scores = one @ form @ one.mT / math.sqrt(x.size(-1))
        contexts, weights = attend(scores, one @ whole(self.value_proj).T, mask)
        return contexts.to(x.dtype), weights.to(x.dtype)


@right("exp(score - logsumexp) by hand in float64, forbidden weights zeroed afterwards")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        scores = scores.double()
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min / 4)
        weights = (low - low.logsumexp(-1, keepdim=True)).exp().masked_fill(~mask, 0)
        return (weights @ v.double()).to(x.dtype), weights.to(x.dtype)


@wrong("divides the scores by D, not by its square root", breaks=SOFTMAX, name="scores divided by D")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / x.size(-1), v, mask)


@wrong("averages the vectors x instead of the projected values", breaks=ROLES, name="value_proj forgotten")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, _ = self.scored(x)
        return attend(scores, x, mask)


@wrong("fills forbidden scores with -1e9 and takes a softmax: a position that may not attend to "
       "anything gets uniform weights", breaks=DEAD, name="uniform weights for a closed row")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(-1)
        return weights @ v, weights


@wrong("adds -inf to forbidden scores and repairs NaN with nan_to_num: the values are right, but with a "
       "closed row all gradients are NaN", breaks=GRADS, name="NaN gradients behind nan_to_num")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        return weights @ v, weights


@wrong("adds -10000 to forbidden scores: with large vectors a forbidden position still wins",
       breaks=NUMBERS, name="finite penalty for forbidden positions")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if mask is None:
            return attend(scores, v, None)
        weights = (scores - 1e4 * (~mask).to(x.dtype)).softmax(-1) * mask.any(-1, keepdim=True)
        return weights @ v, weights


@wrong("exp without subtracting the maximum: large scores overflow to inf / inf = NaN",
       breaks=NUMBERS, name="naive exponentials")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        e = scores.exp()
        if mask is not None:
            e = e.masked_fill(~mask, 0)
        total = e.sum(-1, keepdim=True)
        weights = e / torch.where(total > 0, total, torch.ones_like(total))
        return weights @ v, weights


@wrong("lets every position attend to itself, so that no row is empty: wrong where the mask forbids the "
       "diagonal", breaks=MASK, name="diagonal always allowed")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if mask is not None:
            mask = mask | torch.eye(x.size(1), dtype=torch.bool, device=x.device)
        return attend(scores, v, mask)


@wrong("computes the softmax in float32 and returns these weights: float32 weights for bfloat16 vectors",
       breaks=DTYPE, name="weights left in float32")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if scores.dtype == torch.bfloat16:
            contexts, weights = attend(scores.float(), v.float(), mask)
            return contexts.to(x.dtype), weights
        return attend(scores, v, mask)


@wrong("without a mask, uses the mask of the last call", breaks=CALLS, name="mask remembered from an earlier call")
class SelfAttention(Given):
    last = None

    def forward(self, x, mask=None):
        scores, v = self.scored(x)
        if mask is not None:
            self.last = mask
        elif self.last is not None and self.last.shape[-1] == x.size(1):
            mask = self.last
        return attend(scores, v, mask)


@wrong("flattens x with view, which fails for a transposed x", breaks=VIEW, name="view of an input that is not contiguous")
class SelfAttention(Given):
    def forward(self, x, mask=None):
        b, t, d = x.shape
        rows = x.view(b * t, d)
        q, k, v = (p(rows).view(b, t, d) for p in (self.query_proj, self.key_proj, self.value_proj))
        return attend(q @ k.mT / math.sqrt(d), v, mask)
