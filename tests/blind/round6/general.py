from attention_course.scores import Score
from blind import bugs
from torch import nn


def make(bug):
    class GeneralScore(Score):
        def __init__(self, query_dim, key_dim):
            super().__init__()
            self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

        def project_keys(self, key):
            if bug == "mapped in forward":
                return key
            if bug == "W transposed where it fits" and key.size(-1) == (
                self.key_proj.out_features
            ):
                return key @ self.key_proj.weight
            k = self.key_proj(key)
            if bug == "tanh":
                k = k.tanh()
            if bug == "without gradient":
                k = k.detach()
            if bug == "keys of the first call":
                self.kept = getattr(self, "kept", k)
                k = self.kept if self.kept.shape == k.shape else k
            if bug == "a skip connection where it fits" and k.shape == key.shape:
                k = k + key
            return k

        def forward(self, query, projected):
            if bug == "mapped in forward":
                projected = self.key_proj(projected)
            if bug == "mapped twice where it fits" and (
                self.key_proj.in_features == self.key_proj.out_features
            ):
                projected = self.key_proj(projected)
            scores = query @ projected.mT
            if bug == "scaled":
                scores = scores / query.size(-1) ** 0.5
            if bug == "transposed":
                scores = scores.mT
            return scores

    return GeneralScore


MAP = "e_ts = q_t W k_s"
bugs(
    make,
    {
        "mapped in forward": "It therefore belongs in `project_keys`",
        "W transposed where it fits": MAP,
        "tanh": MAP,
        "without gradient": "A learned map W",
        "keys of the first call": MAP,
        "a skip connection where it fits": MAP,
        "mapped twice where it fits": MAP,
        "scaled": MAP,
        "transposed": "(..., T, S)",
    },
)
