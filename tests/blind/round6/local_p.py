import torch
from attention_course.attention import masked_softmax
from blind import bugs
from torch import nn


def make(bug):
    class LocalP(nn.Module):
        def __init__(self, query_dim, hidden_dim, half_width):
            super().__init__()
            self.half_width = half_width
            self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
            self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

        def forward(self, scores, query, position, memory):
            w = self.half_width
            S = scores.size(-1)
            length = memory.mask.sum(-1, keepdim=True).to(scores.dtype)  # (B, 1, 1)
            if bug == "length with padding":
                length = torch.full_like(length, S)
            if bug == "the last position":
                length = length - 1
            if bug == "length of the first sentence":
                length = length[:1]
            hidden = self.hidden_proj(query)
            if bug != "no tanh":
                hidden = hidden.tanh()
            share = self.position_proj(hidden).sigmoid()  # (B, T, 1)
            if bug == "tanh for sigmoid":
                share = self.position_proj(hidden).tanh()
            p = length * share
            if bug == "one position for all queries":
                p = p[:, :1]
            if bug == "whole positions":
                p = p.round()
            if bug == "rounded down for the window":
                q = p.floor()
            else:
                q = p
            s = torch.arange(S, device=scores.device, dtype=scores.dtype)
            if bug == "positions from 1":
                s = s + 1
            near = (s - q).abs() <= w
            if bug == "narrower than w":
                near = (s - q).abs() <= w - 1
            if bug == "half of the window":
                near = (s - q).abs() <= w / 2
            if bug == "one side alone":
                near = (q - s <= w) & (s <= q)
            mask = memory.mask & near
            if bug == "window or mask":
                mask = memory.mask | near
            if bug == "no window":
                mask = memory.mask
            if bug == "window without the mask":
                mask = near
            weights = masked_softmax(scores, mask)
            bell = torch.exp(-((s - p) ** 2) / (2 * (w / 2) ** 2))
            if bug == "sigma is w":
                bell = torch.exp(-((s - p) ** 2) / (2 * w**2))
            if bug == "the 2 is missing":
                bell = torch.exp(-((s - p) ** 2) / (w / 2) ** 2)
            if bug == "bell without gradient":
                bell = bell.detach()
            if bug == "bell in the scores":
                weights = masked_softmax(scores + bell.log().clamp(min=-1e4), mask)
            elif bug == "bell before the softmax":
                weights = masked_softmax(scores * bell, mask)
            elif bug != "no bell":
                weights = weights * bell
            if bug == "divided again":
                total = weights.sum(-1, keepdim=True)
                weights = weights / total.masked_fill(total == 0, 1)
            context = weights @ memory.value
            if bug == "weights before the bell returned":
                weights = masked_softmax(scores, mask)
            if bug == "the given position":
                pass
            return context, weights

    return LocalP


RULE = "the formula of p_t and alpha"
bugs(
    make,
    {
        name: RULE
        for name in (
            "length with padding",
            "the last position",
            "length of the first sentence",
            "no tanh",
            "tanh for sigmoid",
            "one position for all queries",
            "whole positions",
            "rounded down for the window",
            "positions from 1",
            "narrower than w",
            "half of the window",
            "one side alone",
            "window or mask",
            "no window",
            "window without the mask",
            "sigma is w",
            "the 2 is missing",
            "bell without gradient",
            "bell in the scores",
            "bell before the softmax",
            "no bell",
            "divided again",
            "weights before the bell returned",
        )
    },
)
