import torch
from attention_course.scores import Score
from blind import bugs


def make(bug):
    class GaussianScore(Score):
        def __init__(self, bandwidth):
            super().__init__()
            self.bandwidth = bandwidth

        def forward(self, query, projected):
            difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
            square = (difference**2).sum(-1)
            r = self.bandwidth
            if bug == "not squared":
                square = square.sqrt()
            if bug == "mean over the width":
                square = (difference**2).mean(-1)
            if bug == "bandwidth not squared":
                return -square / (2 * r)
            if bug == "the 2 is missing":
                return -square / r**2
            if bug == "bandwidth of 1":
                return -square / 2
            if bug == "whole bandwidth alone":
                return -square / (2 * round(r) ** 2 if r >= 1 else 2 * r**2)
            if bug == "positive":
                return square / (2 * r**2)
            if bug == "the exponential":
                return (-square / (2 * r**2)).exp()
            if bug == "normalised density, logarithm":
                return -square / (2 * r**2) - torch.tensor(r).log().item()
            if bug == "multiplied by the square":
                return -square * 2 * r**2
            if bug == "first entry alone":
                return -((query[..., :1] - projected[..., :1].mT) ** 2) / (2 * r**2)
            if bug == "absolute differences":
                return -(difference.abs().sum(-1) ** 2) / (2 * r**2)
            if bug == "keys by queries":
                return -square.mT / (2 * r**2)
            if bug == "clamped at -100":
                return (-square / (2 * r**2)).clamp(min=-100)
            if bug == "a learned bandwidth":
                scores = -square / (2 * r**2)
                return scores * 1.0001
            if bug == "differences multiplied out in float16":
                q, k = query.bfloat16(), projected.bfloat16()
                d = (q.unsqueeze(-2) - k.unsqueeze(-3)).to(query.dtype)
                return -(d**2).sum(-1) / (2 * r**2)
            return -square / (2 * r**2)

    return GaussianScore


GAUSS = "e_ts = -|q - k|^2 / (2 rho^2)"
bugs(
    make,
    {
        name: GAUSS
        for name in (
            "not squared",
            "mean over the width",
            "bandwidth not squared",
            "the 2 is missing",
            "bandwidth of 1",
            "whole bandwidth alone",
            "positive",
            "the exponential",
            "normalised density, logarithm",
            "multiplied by the square",
            "first entry alone",
            "absolute differences",
            "keys by queries",
            "clamped at -100",
            "differences multiplied out in float16",
        )
    },
)
