import torch
from attention_course.scores import Score
from blind import bugs
from torch import nn


def make(bug):
    class AdditiveScore(Score):
        def __init__(self, query_dim, key_dim, hidden_dim):
            super().__init__()
            self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
            self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
            self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

        def project_keys(self, key):
            if bug == "keys mapped by W where it fits" and (
                key.size(-1) == self.query_proj.in_features
            ):
                return self.query_proj(key)
            if bug == "tanh of the keys":
                return self.key_proj(key).tanh()
            return self.key_proj(key)

        def forward(self, query, projected):
            q = self.query_proj(query)
            h = q.unsqueeze(-2) + projected.unsqueeze(-3)
            if bug == "keys by queries":
                h = h.transpose(-2, -3)
            if bug == "product for sum":
                h = q.unsqueeze(-2) * projected.unsqueeze(-3)
            if bug == "difference for sum":
                h = q.unsqueeze(-2) - projected.unsqueeze(-3)
            if bug == "three axes alone":
                h = q[:, :, None] + projected[:, None]
            if bug == "sigmoid":
                h = h.sigmoid()
            elif bug == "relu":
                h = h.relu()
            elif bug == "no tanh":
                pass
            elif bug == "tanh of both parts":
                h = q.tanh().unsqueeze(-2) + projected.tanh().unsqueeze(-3)
            else:
                h = h.tanh()
            if bug == "mean over the width":
                return h.mean(-1)
            if bug == "u after the sum over keys":
                return self.energy_proj(h).expand(*h.shape[:-1], 2)[..., 0].cumsum(-1)
            scores = self.energy_proj(h)[..., 0]
            if bug == "an axis left":
                scores = scores[..., None]
            if bug == "squeeze":
                scores = self.energy_proj(h).squeeze()
            if bug == "tanh of the score":
                scores = scores.tanh()
            if bug == "scaled":
                scores = scores / h.size(-1) ** 0.5
            if bug == "softmax":
                scores = torch.softmax(scores, -1)
            return scores

    return AdditiveScore


ADD = "e_ts = u tanh(W q_t + U k_s)"
bugs(
    make,
    {
        name: ADD
        for name in (
            "keys mapped by W where it fits",
            "tanh of the keys",
            "keys by queries",
            "product for sum",
            "difference for sum",
            "three axes alone",
            "sigmoid",
            "relu",
            "no tanh",
            "tanh of both parts",
            "mean over the width",
            "u after the sum over keys",
            "an axis left",
            "squeeze",
            "tanh of the score",
            "scaled",
            "softmax",
        )
    },
)
