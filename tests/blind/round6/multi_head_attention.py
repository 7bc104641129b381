import torch
from attention_course.attention import attend
from blind import bugs
from torch import nn


def make(bug):
    def split(x, h):
        if bug == "heads by tokens":
            return x.reshape(x.size(0), h, x.size(1), -1)
        return x.unflatten(-1, (h, -1)).transpose(1, 2)

    class MultiHeadAttention(nn.Module):
        def __init__(self, dim, num_heads):
            super().__init__()
            self.num_heads = num_heads
            self.query_proj = nn.Linear(dim, dim)
            self.key_proj = nn.Linear(dim, dim)
            self.value_proj = nn.Linear(dim, dim)
            self.output_proj = nn.Linear(dim, dim)

        def forward(self, query, key, value, mask=None):
            h = self.num_heads
            if bug == "values from the keys":
                value = key
            if bug == "keys from the queries where it fits":
                key = query if key.shape == query.shape else key
            q = split(self.query_proj(query), h)
            k = split(self.key_proj(key), h)
            v = split(self.value_proj(value), h)
            if bug == "values not projected":
                v = split(value, h)
            by = q.size(-1) ** 0.5
            if bug == "scaled by the width of the model":
                by = query.size(-1) ** 0.5
            if bug == "no scale":
                by = 1
            scores = q @ k.mT / by
            if mask is not None:
                if bug == "axis for heads in front":
                    mask = mask[None] if mask.dim() == 3 and len(mask) == 1 else (
                        mask[:, None] if mask.dim() == 3 else mask
                    )
                elif bug == "a mask with an axis per sentence alone":
                    mask = mask[:, None]
                elif bug == "mask for the first head alone":
                    mask = mask[:, None] if mask.dim() == 3 else mask
                    other = torch.ones_like(scores[:, 1:], dtype=torch.bool)
                    first = mask.expand(scores.size(0), -1, *scores.shape[2:])[:, :1]
                    mask = torch.cat([first, other], 1)
                elif bug == "mask over the queries":
                    mask = mask[:, None] if mask.dim() == 3 else mask
                    if mask.size(-1) == mask.size(-2):
                        mask = mask.mT
                elif mask.dim() == 3:
                    mask = mask[:, None]
            if bug == "mask ignored":
                mask = None
            context, weights = attend(scores, v, mask)
            if bug == "not a number in empty rows" and mask is not None:
                weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
                context = weights @ v
            if bug == "softmax over heads":
                weights = scores.softmax(1)
                context = weights @ v
            if bug == "heads not brought back":
                merged = context.reshape(query.shape)
            else:
                merged = context.transpose(1, 2).flatten(2)
            out = self.output_proj(merged)
            if bug == "no output map":
                out = merged
            if bug == "output map without a bias":
                out = merged @ self.output_proj.weight.T
            if bug == "mean of the weights":
                weights = weights.mean(1)
            if bug == "weights of head 0 for all":
                weights = weights[:, :1].expand_as(weights)
            if bug == "skip connection where it fits":
                out = out + query
            return out, weights

    return MultiHeadAttention


RULE = "MultiHead(Q, K, V) = W^O [head_1; ...; head_H], and the mask as the text says"
bugs(
    make,
    {
        name: RULE
        for name in (
            "heads by tokens",
            "values from the keys",
            "keys from the queries where it fits",
            "values not projected",
            "scaled by the width of the model",
            "no scale",
            "a mask with an axis per sentence alone",
            "mask for the first head alone",
            "mask over the queries",
            "mask ignored",
            "not a number in empty rows",
            "softmax over heads",
            "heads not brought back",
            "no output map",
            "output map without a bias",
            "mean of the weights",
            "weights of head 0 for all",
            "skip connection where it fits",
        )
    },
)
