import torch
from attention_course.attention import attend
from blind import bugs
from torch import nn


def make(bug):
    class SelfAttention(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.query_proj = nn.Linear(dim, dim)
            self.key_proj = nn.Linear(dim, dim)
            self.value_proj = nn.Linear(dim, dim)

        def forward(self, x, mask=None):
            q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
            if bug == "query and key exchanged":
                q, k = k, q
            if bug == "values as they are":
                v = x
            if bug == "no biases":
                q, k = x @ self.query_proj.weight.T, x @ self.key_proj.weight.T
                v = x @ self.value_proj.weight.T
            if bug == "keys' bias left out of the values":
                v = x @ self.value_proj.weight.T
            by = x.size(-1) ** 0.5
            if bug == "scaled by the length":
                by = x.size(1) ** 0.5
            if bug == "no scale":
                by = 1
            if bug == "scaled by the width":
                by = x.size(-1)
            if bug == "scale of the values too":
                v = v / by
            scores = q @ k.mT / by
            if bug == "mask turned around" and mask is not None:
                mask = ~mask
            if bug == "mask over queries" and mask is not None:
                mask = mask.expand(len(x), x.size(1), x.size(1)).mT
            if bug == "mask ignored":
                mask = None
            if bug == "may not look at itself":
                no = ~torch.eye(x.size(1), dtype=torch.bool, device=x.device)
                mask = no if mask is None else mask & no
            if bug == "causal in any case":
                past = torch.ones(x.size(1), x.size(1), device=x.device).tril().bool()
                mask = past if mask is None else mask & past
            context, weights = attend(scores, v, mask)
            if bug == "finite fill, even weights in empty rows" and mask is not None:
                weights = scores.masked_fill(~mask, -1e9).softmax(-1)
                context = weights @ v
            if bug == "not a number in empty rows" and mask is not None:
                weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
                context = weights @ v
            if bug == "skip connection":
                context = context + x
            if bug == "weights by keys":
                weights = weights.mT
            if bug == "softmax over queries":
                weights = scores.softmax(1)
                context = weights @ v
            return context, weights

    return SelfAttention


RULE = "the formula of q, k, v, alpha and c"
bugs(
    make,
    {
        name: RULE
        for name in (
            "query and key exchanged",
            "values as they are",
            "no biases",
            "keys' bias left out of the values",
            "scaled by the length",
            "no scale",
            "scaled by the width",
            "scale of the values too",
            "mask turned around",
            "mask over queries",
            "mask ignored",
            "may not look at itself",
            "causal in any case",
            "finite fill, even weights in empty rows",
            "not a number in empty rows",
            "skip connection",
            "weights by keys",
            "softmax over queries",
        )
    },
)
