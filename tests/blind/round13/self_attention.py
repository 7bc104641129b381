import math

import torch
from torch import nn

from attention_course.attention import attend

from blind import right, wrong


@right("einsum for all products, queries divided by the root before the scores")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q = self.query_proj(x) / math.sqrt(x.size(-1))
        k, v = self.key_proj(x), self.value_proj(x)
        scores = torch.einsum("btd,bsd->bts", q, k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            lowest = torch.finfo(scores.dtype).min
            weights = torch.where(mask, scores, lowest).softmax(dim=-1) * mask
        return torch.einsum("bts,bsd->btd", weights, v), weights


@right("a loop over the queries, with a softmax by hand in float64")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        q = self.query_proj(x).double()
        k = self.key_proj(x).double()
        v = self.value_proj(x).double()
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        mask = mask.expand(batch, length, length)
        rows = []
        for t in range(length):
            scores = (k * q[:, t : t + 1]).sum(dim=-1) / dim**0.5  # (B, S)
            allowed = mask[:, t]
            scores = scores.masked_fill(~allowed, -1e300)
            top = scores.detach().amax(dim=-1, keepdim=True)
            raised = (scores - top).exp() * allowed
            total = raised.sum(dim=-1, keepdim=True)
            rows.append(raised / (total + (total == 0)))
        weights = torch.stack(rows, dim=1)
        return (weights @ v).to(x.dtype), weights.to(x.dtype)


@right("one linear map made of the three, cut into three afterwards")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        maps = [self.query_proj, self.key_proj, self.value_proj]
        weight = torch.cat([m.weight for m in maps])
        bias = torch.cat([m.bias for m in maps])
        q, k, v = nn.functional.linear(x, weight, bias).chunk(3, dim=-1)
        scores = torch.bmm(k, q.transpose(1, 2)).transpose(1, 2)
        return attend(scores * x.size(-1) ** -0.5, v, mask)


@right("extra attributes, a log-sum-exp in float64 in place of the softmax")
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.calls = 0  # for fun; nothing depends on it
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def scores(self, x):
        q, k = self.query_proj(x).double(), self.key_proj(x).double()
        return (q[:, :, None] * k[:, None]).sum(dim=-1) / self.dim**0.5

    def forward(self, x, mask=None):
        self.calls += 1
        scores = self.scores(x)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(torch.float64).min)
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        context = weights @ self.value_proj(x).double()
        return context.to(x.dtype), weights.to(x.dtype)


@wrong(
    "the scores are not divided by the root of D",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "forgot to scale the scores",
)
class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT, v, mask)


@wrong(
    "the softmax runs over the queries, so that columns sum to one, not rows",
    r"\alpha_{ts} = \mathrm{softmax}_s\, \frac{q_t^\top k_s}{\sqrt{D}}, \qquad",
    "softmax over the wrong axis",
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
            weights = scores.softmax(dim=1)
        else:
            lowest = torch.finfo(scores.dtype).min
            weights = torch.where(mask, scores, lowest).softmax(dim=1) * mask
        return weights @ v, weights


@wrong(
    "the values are the vectors themselves, not projected",
    "Each role has its own learned linear map:",
    "forgot value_proj",
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
    "multiplies by the mask after the softmax and does not normalise again, so what is"
    " forbidden still takes part in the sum of the softmax",
    "For each position, the mask says which positions it may attend to.",
    "mask after the softmax",
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
    "forbidden scores become -1e9; where all allowed scores of a row are lower still"
    " (vectors of about 1e6), the forbidden positions win and the row becomes 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "-1e9 is not low enough for large scores",
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
            weights = scores.softmax(dim=-1)
        else:
            weights = scores.masked_fill(~mask, -1e9).softmax(dim=-1) * mask
        return weights @ v, weights


@wrong(
    "adds -inf to forbidden scores and replaces NaN by 0 after the softmax: the numbers"
    " are right, but a row that may attend to nothing makes all gradients NaN",
    "Gradients must be right, too.",
    "NaN in the gradient of an empty row",
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
            bias = torch.zeros_like(scores).masked_fill(~mask, -math.inf)
            scores = scores + bias
        weights = scores.softmax(dim=-1).nan_to_num(0.0)
        return weights @ v, weights


@wrong(
    "inverts the mask in place: the first result is right, but the caller's mask is"
    " the opposite afterwards",
    "Do not change the inputs.",
    "changes the mask in place",
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
            weights = scores.softmax(dim=-1)
        else:
            forbidden = mask.logical_not_()
            scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=-1).masked_fill(forbidden, 0.0)
        return weights @ v, weights


@wrong(
    "attends in float32 and converts only the contexts back: for bfloat16 and float64"
    " vectors, the weights come out as float32",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "weights are always float32",
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
        context, weights = attend(scores, v.float(), mask)
        return context.to(x.dtype), weights


@wrong(
    "writes the softmax as exp over sum without subtracting the maximum: scores above"
    " about 88 give inf / inf = NaN, and if all are below about -104, the weights are 0",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "softmax by hand overflows",
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
        raised = (q @ k.mT / math.sqrt(x.size(-1))).exp()
        if mask is not None:
            raised = raised * mask
        total = raised.sum(dim=-1, keepdim=True)
        weights = raised / (total + (total == 0))
        return weights @ v, weights


@wrong(
    "keeps the mask of a call and uses it again in a later call of the same length that"
    " comes without a mask",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the mask of an earlier call",
    subtle=True,
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
        elif self.mask is not None and self.mask.size(-1) == x.size(1):
            mask = self.mask
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return attend(q @ k.mT / math.sqrt(x.size(-1)), v, mask)
