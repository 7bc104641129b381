import math

import torch
from torch import nn

from attention_course.attention import attend

from blind import right, wrong


# attention_course has no split_heads and no merge_heads: these stand in for the
# notebook's earlier answers.
def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


@right("einsum over four axes, queries scaled before, softmax and mask by hand")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = torch.einsum("bhtd,bhsd->bhts", q * q.size(-1) ** -0.5, k)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            if mask.dim() == 3:
                mask = mask.unsqueeze(-3)
            lowest = torch.finfo(scores.dtype).min
            weights = torch.where(mask, scores, lowest).softmax(dim=-1) * mask
        contexts = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.output_proj(merge_heads(contexts)), weights


@right("everything in float64, with a helper that applies a layer's numbers")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    @staticmethod
    def wide(layer, x):
        return nn.functional.linear(
            x.double(), layer.weight.double(), layer.bias.double()
        )

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(self.wide(layer, x), self.num_heads)
            for layer, x in (
                (self.query_proj, query),
                (self.key_proj, key),
                (self.value_proj, value),
            )
        )
        if mask is not None:
            mask = mask.expand(query.size(0), query.size(1), key.size(1))[:, None]
        contexts, weights = attend((q / math.sqrt(q.size(-1))) @ k.mT, v, mask)
        output = self.wide(self.output_proj, merge_heads(contexts))
        return output.to(query.dtype), weights.to(query.dtype)


@right("heads folded into the batch, three axes only, mask repeated once per head")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        (batch, queries, _), keys, heads = query.shape, key.size(1), self.num_heads
        q = split_heads(self.query_proj(query), heads).flatten(0, 1)
        k = split_heads(self.key_proj(key), heads).flatten(0, 1)
        v = split_heads(self.value_proj(value), heads).flatten(0, 1)
        scores = torch.bmm(q, k.mT) / q.size(-1) ** 0.5
        if mask is not None:
            mask = mask.expand(batch, queries, keys).repeat_interleave(heads, dim=0)
        contexts, weights = attend(scores, v, mask)
        contexts = contexts.unflatten(0, (batch, heads))
        weights = weights.unflatten(0, (batch, heads))
        return self.output_proj(merge_heads(contexts)), weights


@right("a loop over the queries (not the heads), and an extra attribute to look at")
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)
        self.seen = None  # nothing depends on it

    def forward(self, query, key, value, mask=None):
        v = split_heads(self.value_proj(value), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        q = split_heads(self.query_proj(query), self.num_heads)
        if mask is not None:
            mask = mask.expand(query.size(0), query.size(1), key.size(1)).unsqueeze(1)
        contexts, weights = [], []
        for t in range(query.size(1)):
            one = slice(t, t + 1)
            scores = q[:, :, one] @ k.mT / math.sqrt(q.size(-1))
            context, row = attend(
                scores, v, None if mask is None else mask[:, :, one]
            )
            contexts.append(context)
            weights.append(row)
        weights = torch.cat(weights, dim=2)
        self.seen = weights.detach().clone()
        return self.output_proj(merge_heads(torch.cat(contexts, dim=2))), weights


@wrong(
    "divides the scores by the root of D, not of Dh",
    "Divide the scores by the square root of Dh, the width of the vectors that are"
    " multiplied.",
    "scaled by the wrong width",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        scores = q @ k.mT / math.sqrt(query.size(-1))
        contexts, weights = attend(scores, v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "returns the merged contexts without the output projection",
    "Apply the projections of section 1 first. Apply `output_proj`, which is $W^O$,"
    " last.",
    "forgot output_proj",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return merge_heads(contexts), weights


@wrong(
    "attends with one head after the other in a loop",
    "Compute all heads at once. A loop over the heads costs one point.",
    "loop over the heads",
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        contexts, weights = [], []
        for h in range(self.num_heads):
            scores = q[:, h] @ k[:, h].mT / math.sqrt(q.size(-1))
            context, weight = attend(scores, v[:, h], mask)
            contexts.append(context)
            weights.append(weight)
        merged = merge_heads(torch.stack(contexts, dim=1))
        return self.output_proj(merged), torch.stack(weights, dim=1)


@wrong(
    "tells masks apart by their first axis, not by the number of axes: a mask (T, S)"
    " with T = B gets an axis, too, such as causal_mask(4) in a batch of 4",
    "A mask with two axes, (T, S), can be used as it is.",
    "takes (T, S) for (B, T, S) if T = B",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.size(0) == query.size(0):
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "projects the keys to get the values: right wherever keys and values are the same"
    " vectors, wrong where they are not",
    "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries, keys and values"
    " that belong to head h.",
    "ignores value",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(key), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "sets the output of a query that may not attend to anything to 0 after output_proj,"
    " so its bias is lost",
    "Apply the projections of section 1 first. Apply `output_proj`, which is $W^O$,"
    " last.",
    "masks the output, too",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            mask = mask.expand(query.size(0), query.size(1), key.size(1))
        contexts, weights = attend(scores, v, None if mask is None else mask[:, None])
        output = self.output_proj(merge_heads(contexts))
        if mask is not None:
            output = output * mask.any(dim=-1, keepdim=True)
        return output, weights


@wrong(
    "sets forbidden weights to 0 only in the weights that it returns; the context of a"
    " query that may not attend to anything is the mean of all values",
    "If a query may not attend to anything, all its weights must be 0.",
    "contexts from other weights than those returned",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            if mask.dim() == 3:
                mask = mask[:, None]
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        output = self.output_proj(merge_heads(weights @ v))
        return output, weights if mask is None else weights * mask


@wrong(
    "inserts the axis of the heads into the caller's mask: a (B, T, S) mask is"
    " (B, 1, T, S) after the call",
    "Do not change the inputs.",
    "unsqueeze_ changes the mask",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask.unsqueeze_(1)
        contexts, weights = attend(q @ k.mT / math.sqrt(q.size(-1)), v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "keeps the root of Dh as a float32 vector of length one, which stays on the CPU and"
    " promotes bfloat16 scores to float32, so that weights @ v fails",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "the scale has a dtype and a device of its own",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)
        self.scale = torch.tensor([float(dim // num_heads)]).sqrt()

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        k = split_heads(self.key_proj(key), self.num_heads)
        v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        contexts, weights = attend(q @ k.mT / self.scale, v, mask)
        return self.output_proj(merge_heads(contexts)), weights


@wrong(
    "projects keys and values only if the keys are another tensor than in the call"
    " before: stale after a step of the optimiser, or with other values",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "a cache under the identity of the keys",
    subtle=True,
)
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_proj = nn.Linear(dim, dim)
        self.key_proj = nn.Linear(dim, dim)
        self.value_proj = nn.Linear(dim, dim)
        self.output_proj = nn.Linear(dim, dim)
        self.last_key = None

    def forward(self, query, key, value, mask=None):
        q = split_heads(self.query_proj(query), self.num_heads)
        if key is not self.last_key:
            self.last_key = key
            self.k = split_heads(self.key_proj(key), self.num_heads)
            self.v = split_heads(self.value_proj(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        scores = q @ self.k.mT / math.sqrt(q.size(-1))
        contexts, weights = attend(scores, self.v, mask)
        return self.output_proj(merge_heads(contexts)), weights
