import math

import torch
import torch.nn.functional as F
from torch import nn

from attention_course.attention import attend
from blind import right, wrong


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


class Given(nn.Module):
    """The lines of the lab."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)


@right("einsum over a five-letter alphabet, softmax repaired for empty rows")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        H = self.num_heads
        q = self.query_proj(query).unflatten(2, (H, -1))
        k = self.key_proj(key).unflatten(2, (H, -1))
        v = self.value_proj(value).unflatten(2, (H, -1))
        e = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            if mask.dim() == 3:
                mask = mask.unsqueeze(1)
            mask = mask.expand_as(e)
            some = mask.any(-1, keepdim=True)
            a = e.masked_fill(~mask & some, -math.inf).softmax(-1)
            a = a.masked_fill(~some, 0)
        else:
            a = e.softmax(-1)
        c = torch.einsum("bhts,bshd->bthd", a, v)
        return self.output_proj(c.reshape(query.shape)), a


@right("heads folded into the axis of the sentences, bmm on three axes")
class MultiHeadAttention(Given):
    def fold(self, x):
        return split_heads(x, self.num_heads).flatten(0, 1)

    def forward(self, query, key, value, mask=None):
        B, H = query.size(0), self.num_heads
        T, S = query.size(1), key.size(1)
        q = self.fold(self.query_proj(query))
        k = self.fold(self.key_proj(key))
        v = self.fold(self.value_proj(value))
        if mask is not None:
            mask = mask.expand(B, T, S).repeat_interleave(H, dim=0)
        c, a = attend(q.bmm(k.mT) * (q.size(-1) ** -0.5), v, mask)
        c = merge_heads(c.unflatten(0, (B, H)))
        return self.output_proj(c), a.unflatten(0, (B, H))


@right("scales the queries, sums the heads through slices of the output map")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        H = self.num_heads
        q = split_heads(self.query_proj(query), H)
        q = q / math.sqrt(q.size(-1))
        k = split_heads(self.key_proj(key), H)
        v = split_heads(self.value_proj(value), H)
        if mask is not None and mask.dim() > 2:
            mask = mask[:, None]
        c, a = attend(torch.matmul(q, k.transpose(2, 3)), v, mask)
        w = self.output_proj.weight.unflatten(1, (H, -1))
        out = torch.einsum("bhtd,ehd->bte", c, w) + self.output_proj.bias
        return out, a


@right("masks by adding 0 or -inf after the maximum, normalises by hand")
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        project = zip(
            (self.query_proj, self.key_proj, self.value_proj), (query, key, value)
        )
        q, k, v = (
            torch.stack(F.linear(x, p.weight, p.bias).chunk(self.num_heads, -1), 1)
            for p, x in project
        )
        e = q @ k.mT / q.shape[-1] ** 0.5
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=e.device)
        mask = (mask[:, None] if mask.dim() == 3 else mask).expand(e.shape)
        e = e.masked_fill(~mask, -math.inf)
        top = e.detach().amax(-1, keepdim=True)
        e = (e - top.masked_fill(top == -math.inf, 0)).exp()
        total = e.sum(-1, keepdim=True)
        a = e / total.where(total > 0, torch.ones_like(total))
        return self.output_proj(torch.cat((a @ v).unbind(1), -1)), a


@wrong(
    "divides by the root of D, not of Dh; wrong for H > 1",
    "Divide the scores by the root of Dh, the width of the vectors that are multiplied.",
    "scaled by the wrong width",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(query.size(-1)), v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "returns the concatenated heads, output_proj is never applied",
    r"\mathrm{MultiHead}(Q, K, V) = W^O\, [\mathrm{head}_1; \ldots; \mathrm{head}_H]",
    "output projection forgotten",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(c), a


@wrong(
    "the mask goes in without an axis for the heads: (B, T, S) is read as (H, T, S), which raises for most B and hides the wrong keys for B = H",
    "A mask (B, T, S) or (B, 1, S) needs an axis for the heads; a mask without an axis for sentences, (T, S), does not.",
    "mask lacks the head axis",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        e = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.expand(e.shape)
        c, a = attend(e, v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "guesses from the first axis whether a mask has sentences: (T, S) with T = B gets the axis too and every sentence gets one row of it",
    "A mask (B, T, S) or (B, 1, S) needs an axis for the heads; a mask without an axis for sentences, (T, S), does not.",
    "causal mask confused with a batch of masks",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        e = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            if mask.size(0) == query.size(0):
                mask = mask[:, None]
                if mask.dim() == 3:
                    mask = mask[:, None]
            elif mask.dim() == 3:
                mask = mask[:, None]
            mask = mask.expand(e.shape)
        c, a = attend(e, v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "smallest float in place of minus infinity: a query that may attend to nothing gets equal weights",
    "A query that may attend to nothing has weights of 0.",
    "fully masked row becomes uniform",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        e = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask
            e = e.masked_fill(~mask, torch.finfo(e.dtype).min)
        a = e.softmax(dim=-1)
        return self.output_proj(merge_heads(a @ v)), a


@wrong(
    "reshapes keys and values with the number of queries: raises (or mixes tokens) in cross-attention with S != T",
    "Queries and keys may come from two different sequences, (B, T, D) and (B, S, D); this is called cross-attention.",
    "assumes as many keys as queries",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        B, T, D = query.shape
        H = self.num_heads
        q = self.query_proj(query).view(B, T, H, D // H).transpose(1, 2)
        k = self.key_proj(key).view(B, T, H, D // H).transpose(1, 2)
        v = self.value_proj(value).view(B, T, H, D // H).transpose(1, 2)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(D // H), v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "softmax in float32 and the weights are returned so: for bfloat16 parameters and inputs the weights are float32",
    "Your code does not change its inputs, and what it returns has the dtype of the inputs and is on their device.",
    "weights in another dtype",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        e = (q @ k.mT / math.sqrt(q.size(-1))).float()
        c, a = attend(e, v.float(), mask)
        return self.output_proj(merge_heads(c.to(query.dtype))), a


@wrong(
    "the values are projected from `key`: right wherever key and value are the same tensor, wrong otherwise",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.",
    "values made from the keys",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(key), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "keeps the projected keys and values while it sees the same key tensor: wrong after the parameters (an optimizer step) or the tensor's numbers have changed, or with another value",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values.",
    "stale keys and values",
)
class MultiHeadAttention(Given):
    last = (None, None, None)

    def forward(self, query, key, value, mask=None):
        if self.last[0] is not key:
            k = split_heads(self.key_proj(key), self.num_heads)
            v = split_heads(self.value_proj(value), self.num_heads)
            self.last = (key, k, v)
        _, k, v = self.last
        q = split_heads(self.query_proj(query), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(c)), a


@wrong(
    "sets the whole output to 0 for a query that may attend to nothing, after output_proj: it should be W^O applied to zero contexts, which is its bias",
    r"\mathrm{MultiHead}(Q, K, V) = W^O\, [\mathrm{head}_1; \ldots; \mathrm{head}_H]",
    "bias of the output map erased",
)
class MultiHeadAttention(Given):
    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        c, a = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        blind = a.sum(dim=(1, 3)) == 0
        return self.output_proj(merge_heads(c)).masked_fill(blind[..., None], 0), a
