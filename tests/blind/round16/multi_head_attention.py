import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong

LAST = "Apply `output_proj`, which is $W^O$, last."
ATONCE = "Compute all heads at once."
SCALE = "Divide the scores by the square root of Dh, the width of the vectors that are multiplied."
THREE = "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one more axis for the heads."
TWO = "A mask with two axes, (T, S), can be used as it is."
DEAD = "If a query may not attend to anything, all its weights must be 0."
CROSS = "The queries (B, T, D) may come from one sequence, and the keys and values (B, S, D) from a second one."
PIECES = "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values that belong to head h."
RESULT = "Contexts (B, T, D), and the weights of every head (B, H, T, S)."
INPUTS = "Do not change the inputs."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
GRADS = "Gradients must be right, too."


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


class Given(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def pieces(self, query, key, value):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        return q, k, split_heads(self.value_proj(value), self.num_heads)


@right("folds the heads into the batch, so that attend sees three axes and a repeated mask")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        b, t, _ = query.shape
        q, k, v = (p.flatten(0, 1) for p in self.pieces(query, key, value))
        scores = torch.bmm(q, k.mT) / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.expand(b, t, key.size(1)).repeat_interleave(self.num_heads, dim=0)
        contexts, weights = attend(scores, v, mask)
        contexts, weights = (r.unflatten(0, (b, self.num_heads)) for r in (contexts, weights))
        return self.output_proj(merge_heads(contexts)), weights


@right("never splits a vector: splits the parameters and lets einsum project into heads and out of them")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        def into(proj, x):
            w, b = (p.unflatten(0, (self.num_heads, -1)) for p in (proj.weight, proj.bias))
            return torch.einsum("btd,hed->bhte", x, w) + b[:, None]

        q, k, v = into(self.query_proj, query), into(self.key_proj, key), into(self.value_proj, value)
        scores = torch.einsum("bhte,bhse->bhts", q / math.sqrt(q.size(-1)), k)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(-3)
        contexts, weights = attend(scores, v, mask)
        out = self.output_proj.weight.unflatten(1, (self.num_heads, -1))
        return torch.einsum("bhte,dhe->btd", contexts, out) + self.output_proj.bias, weights


@right("scaled_dot_product_attention with the identity next to the values: the last S columns of the result "
       "are the weights; closed rows are opened and then zeroed")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.pieces(query, key, value)
        s = key.size(1)
        eye = torch.eye(s, dtype=v.dtype, device=v.device).expand(*v.shape[:2], s, s)
        if mask is None:
            both = F.scaled_dot_product_attention(q, k, torch.cat([v, eye], -1))
        else:
            mask = mask.expand(query.size(0), query.size(1), s)[:, None]
            dead = ~mask.any(-1, keepdim=True)
            both = F.scaled_dot_product_attention(q, k, torch.cat([v, eye], -1), attn_mask=mask | dead)
            both = both.masked_fill(dead, 0)
        contexts, weights = both.split([v.size(-1), s], dim=-1)
        return self.output_proj(merge_heads(contexts)), weights


@right("keeps vectors of width D: each head sees queries and values in which the other heads' entries are 0")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        d = query.size(-1)
        width = d // self.num_heads
        entry = torch.arange(d, device=query.device) // width
        mine = (entry == torch.arange(self.num_heads, device=query.device)[:, None])[:, None]
        q = self.query_proj(query)[:, None] * mine
        scores = q @ self.key_proj(key)[:, None].mT * width**-0.5
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(scores, self.value_proj(value)[:, None] * mine, mask)
        return self.output_proj(contexts.sum(1)), weights


class Usual(Given):
    """The usual answer, in parts that the wrong answers below replace."""

    def heads_mask(self, mask):
        return mask[:, None] if mask is not None and mask.dim() == 3 else mask

    def forward(self, query, key, value, mask=None):
        q, k, v = self.pieces(query, key, value)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, v, self.heads_mask(mask))
        return self.output_proj(merge_heads(contexts)), weights


@wrong("divides the scores by the square root of D (right only for one head)", breaks=SCALE, name="square root of D")
class MultiHeadAttention(Usual):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.pieces(query, key, value)
        scores = q @ k.mT / math.sqrt(query.size(-1))
        contexts, weights = attend(scores, v, self.heads_mask(mask))
        return self.output_proj(merge_heads(contexts)), weights


@wrong("computes one head after the other in a loop", breaks=ATONCE, name="loop over the heads")
class MultiHeadAttention(Usual):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.pieces(query, key, value)
        contexts, weights = [], []
        for h in range(self.num_heads):
            scores = q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1))
            c, w = attend(scores, v[:, h], mask)
            contexts.append(c)
            weights.append(w)
        return self.output_proj(torch.cat(contexts, -1)), torch.stack(weights, 1)


@wrong("returns the weights averaged over the heads, as nn.MultiheadAttention does", breaks=RESULT,
       name="weights averaged over the heads")
class MultiHeadAttention(Usual):
    def forward(self, query, key, value, mask=None):
        contexts, weights = super().forward(query, key, value, mask)
        return contexts, weights.mean(1)


@wrong("uses a mask (B, T, S) as it is: its sentences meet the heads, which is silently wrong for B = H",
       breaks=THREE, name="no axis for the heads in the mask")
class MultiHeadAttention(Usual):
    def heads_mask(self, mask):
        return mask


@wrong("inserts an axis into every mask, also into (T, S): wrong for two axes, silently for T = H",
       breaks=TWO, name="axis inserted into a mask with two axes")
class MultiHeadAttention(Usual):
    def heads_mask(self, mask):
        return None if mask is None else mask.unsqueeze(1)


@wrong("splits keys and values with the length of the queries: works for T = S only", breaks=CROSS,
       name="keys split with the length of the queries")
class MultiHeadAttention(Usual):
    def pieces(self, query, key, value):
        b, t, d = query.shape
        projected = self.query_proj(query), self.key_proj(key), self.value_proj(value)
        return tuple(p.reshape(b, t, self.num_heads, -1).transpose(1, 2) for p in projected)


@wrong("projects the keys' vectors for the values: right as long as key and value are the same", breaks=PIECES,
       name="values made from the keys")
class MultiHeadAttention(Usual):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, key, mask)


@wrong("sets the final context of a query without any key to 0, which also removes the bias of output_proj",
       breaks=LAST, name="contexts of closed queries zeroed after output_proj")
class MultiHeadAttention(Usual):
    def forward(self, query, key, value, mask=None):
        contexts, weights = super().forward(query, key, value, mask)
        if mask is not None:
            contexts = contexts.masked_fill(~mask.any(-1, keepdim=True), 0)
        return contexts, weights


@wrong("inserts the axis for the heads with unsqueeze_, so the caller's mask changes its shape", breaks=INPUTS,
       name="unsqueeze_ on the mask")
class MultiHeadAttention(Usual):
    def heads_mask(self, mask):
        return mask.unsqueeze_(1) if mask is not None and mask.dim() == 3 else mask


@wrong("keeps the projected keys and values while key is the same object: stale after a step of the optimizer, "
       "a change in place, or with other values", breaks=CALLS, name="projections kept from an earlier call")
class MultiHeadAttention(Usual):
    def pieces(self, query, key, value):
        kept = self.__dict__.get("kept")
        if kept is None or kept[0] is not key:
            _, k, v = super().pieces(query, key, value)
            self.__dict__["kept"] = kept = (key, k, v)
        return split_heads(self.query_proj(query), self.num_heads), kept[1], kept[2]
