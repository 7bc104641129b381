import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

FORMULA = r"$$e_{ts} = q_t^\top W k_s$$"
APPLY = "Apply $W$ in `project_keys`, which is called once for each source."
ONLY_MAPPED = "In `forward`, the keys have already been mapped by `project_keys`."
LEARNED = (
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width."
)
AXES = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases."
)
GRADIENTS = "Gradients must be right, too."
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("einsum with the weight in both methods")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("in float64, with all products (..., T, S, query_dim)")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        weight = self.key_proj.weight.double()
        return torch.matmul(key.double(), weight.mT).to(key.dtype)

    def forward(self, query, projected):
        products = query.double().unsqueeze(-2) * projected.double().unsqueeze(-3)
        return products.sum(dim=-1).to(query.dtype)


@right("one position after the other, in both methods")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.stack([self.key_proj(k) for k in key.unbind(dim=-2)], dim=-2)

    def forward(self, query, projected):
        rows = []
        for t in range(query.shape[-2]):
            rows.append((projected @ query[..., t, :, None]).squeeze(-1))
        return torch.stack(rows, dim=-2)


def _sum_over_entries(vectors, matrix):
    """matrix @ vector for each vector, as a sum over the columns of the matrix."""
    return sum(
        vectors[..., i : i + 1] * matrix[:, i] for i in range(matrix.shape[1])
    )


@right("W k as a sum of the columns of W, and the scores by one bmm")
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return _sum_over_entries(key, self.key_proj.weight)

    def forward(self, query, projected):
        q = query.flatten(0, -3) if query.dim() > 2 else query[None]
        k = projected.flatten(0, -3) if projected.dim() > 2 else projected[None]
        scores = torch.bmm(q, k.transpose(1, 2))
        return scores.reshape(query.shape[:-1] + projected.shape[-2:-1])


@wrong(
    "applies W in `forward`, again at every step",
    breaks=APPLY,
    name="keys are mapped in forward",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "applies W in `project_keys` and once more in `forward`",
    breaks=ONLY_MAPPED,
    name="mapped twice",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "multiplies the keys by the weight without transposing it",
    breaks=FORMULA,
    name="the transpose of W instead of W",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "divides by the root of the width, as the scaled dot product does",
    breaks=FORMULA,
    name="scaled without being asked",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1] ** 0.5


@wrong(
    "builds a new, random linear layer whenever `project_keys` is called",
    breaks=LEARNED,
    name="a new matrix at each call instead of the learned one",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        out = self.key_proj.out_features
        layer = nn.Linear(key.shape[-1], out, bias=False)
        return layer.to(key.device, key.dtype)(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "leaves the keys as they are if they are as wide as the queries",
    breaks=FORMULA,
    name="W is left out where the widths agree",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if self.key_proj.in_features == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys without recording gradients, so W never learns",
    breaks=GRADIENTS,
    name="no gradient for W and the keys",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "returns the projection of an earlier call if it gets the same tensor again, even"
    " after W has changed",
    breaks=EARLIER,
    name="a projection from before the last training step",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if getattr(self, "last_key", None) is not key:
            self.last_key, self.last_projected = key, self.key_proj(key)
        return self.last_projected

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "merges the sentences and does not separate them again: right without a batch and"
    " for one sentence only",
    breaks=AXES,
    name="each query is compared with the keys of all sentences",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key.reshape(-1, key.shape[-1]))

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "turns W the way in which its shape fits the keys, which is the wrong way for a"
    " square W",
    breaks=FORMULA,
    name="a square W is transposed",
)
class GeneralScore(Score):
    """A dot product after a learned map of the keys."""

    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        weight = self.key_proj.weight
        if weight.shape[0] != key.shape[-1]:
            weight = weight.mT
        return key @ weight

    def forward(self, query, projected):
        return query @ projected.mT
