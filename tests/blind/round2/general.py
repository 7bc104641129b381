import torch
import torch.nn.functional as F
from torch import nn

from blind import right, wrong
from attention_course.scores import Score

PLACE = "it belongs into `project_keys`, which is called once per sentence, and not into `forward`, which is called at every step."
LEARNED = "A learned map $W$ takes the keys into the space of the queries, so that the two may differ in width."
MAP = "Map every key (..., S, key_dim) into the space of the queries: (..., S,\n        query_dim)."
EVERY = "Score every query (..., T, query_dim) against every projected key: (..., T,\n        S)."
DOT = "A dot product after a learned map of the keys."
MANNERS = "(what it was handed is unchanged, and the dtype and the device are kept)"


@right("einsum in both methods")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("the weight turned by hand, products summed")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.T

    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(-1)


@right("F.linear, the product the other way round and turned")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def forward(self, query, projected):
        return (projected @ query.mT).mT

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight, self.key_proj.bias)


@right("key after key")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        out = key.new_empty(*key.shape[:-1], self.key_proj.out_features)
        for s in range(key.size(-2)):
            out[..., s, :] = self.key_proj(key[..., s, :])
        return out

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-2, -1))


@wrong("the keys are mapped in forward", breaks=PLACE, name="map at every step")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong("scaled", breaks=DOT, name="divided by the root of the width")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5


@wrong("keys in rows, queries in columns", breaks=EVERY, name="transposed")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return projected @ query.mT


@wrong("mapped once more in forward where the widths allow it", breaks=PLACE, name="mapped twice at equal widths", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.size(-1) == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong("projected keys of the first sentence are kept", breaks=MAP, name="state kept between calls", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        kept = getattr(self, "kept", None)
        if kept is None or kept.shape[:-1] != key.shape[:-1]:
            self.kept = self.key_proj(key)
        return self.kept

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("turns the weight only if the widths force it to", breaks=MAP, name="weight not turned at equal widths", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        W = self.key_proj.weight
        return key @ (W if W.size(0) == key.size(-1) else W.T)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("projected without a graph", breaks=LEARNED, name="no gradient for the map", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight.detach())

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("at equal widths written over the keys", breaks=MANNERS, name="input changed", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        projected = self.key_proj(key)
        if projected.shape == key.shape:
            key.data.copy_(projected.data)
        return projected

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("one query loses its axis", breaks=EVERY, name="axis of length one lost", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-2)


@wrong("projected keys always have three axes", breaks=MAP, name="right for three axes only", subtle=True)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key).reshape(-1, key.size(-2), self.key_proj.out_features)

    def forward(self, query, projected):
        return query @ projected.mT
