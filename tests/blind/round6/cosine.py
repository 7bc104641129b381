import torch
import torch.nn.functional as F
from attention_course.scores import Score
from blind import bugs


def make(bug):
    def unit(x):
        if bug == "not a number for zeros":
            return x / x.norm(dim=-1, keepdim=True)
        if bug == "0.01 added":
            return x / (x.norm(dim=-1, keepdim=True) + 1e-2)
        if bug == "1e-3 at least":
            return F.normalize(x, dim=-1, eps=1e-3)
        if bug == "lengths below 1 stay":
            return x / x.norm(dim=-1, keepdim=True).clamp(min=1)
        if bug == "sum of absolute values":
            return F.normalize(x, dim=-1, p=1)
        if bug == "divided by the square of the length":
            n = x.norm(dim=-1, keepdim=True) ** 2
            return x / n.masked_fill(n == 0, 1)
        if bug == "over the positions":
            return F.normalize(x, dim=-2)
        if bug == "one length for all":
            return x / x.norm().clamp(min=1e-12)
        if bug == "gradient of zeros not a number":
            n = (x**2).sum(-1, keepdim=True).sqrt()
            return torch.where(n > 0, x / n, torch.zeros_like(x))
        n = x.norm(dim=-1, keepdim=True)
        return x / n.masked_fill(n == 0, 1)

    class CosineScore(Score):
        def project_keys(self, key):
            if bug == "keys divided in forward":
                return key
            return unit(key)

        def forward(self, query, projected):
            q = unit(query)
            if bug == "queries as they are":
                q = query
            if bug == "keys divided in forward":
                projected = unit(projected)
            scores = q @ projected.mT
            if bug == "angle":
                scores = scores.clamp(-1, 1).acos()
            if bug == "distance":
                scores = 1 - scores
            if bug == "from 0 to 1":
                scores = (scores + 1) / 2
            if bug == "scaled as well":
                scores = scores / query.size(-1) ** 0.5
            return scores

    return CosineScore


COS = "e_ts = q k / (|q| |k|)"
ZERO = "A vector of zeros has no direction: it stays a vector of zeros, and all its scores are 0."
bugs(
    make,
    {
        "not a number for zeros": ZERO,
        "0.01 added": COS,
        "1e-3 at least": COS + ", for short vectors",
        "lengths below 1 stay": COS,
        "sum of absolute values": COS,
        "divided by the square of the length": COS,
        "over the positions": COS,
        "one length for all": COS,
        "keys divided in forward": "`project_keys` divides by it, once per sentence",
        "queries as they are": "The queries are divided by their lengths in `forward`.",
        "angle": COS,
        "distance": COS,
        "from 0 to 1": COS,
        "scaled as well": COS,
    },
)
