import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

FORMULA = r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$"
HIGHER = "The nearer a key is to the query, the higher its score."
SQUARED = (
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis."
)
NOT_WRITTEN = (
    "There is nothing to learn, and as in section 2, you do not write `project_keys`."
)
GRADIENTS = "Gradients must be right, too."
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)
NUMBERS = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)


@right("one entry of the vectors after the other, in float64")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        total = 0
        for d in range(query.shape[-1]):
            q, k = query[..., d].double(), projected[..., d].double()
            total = total + (q.unsqueeze(-1) - k.unsqueeze(-2)).pow(2)
        return (total / (-2 * self.bandwidth**2)).to(query.dtype)


@right("cdist, squared, in float64")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = torch.cdist(
            query.double().contiguous(),
            projected.double().contiguous(),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return (-0.5 * (distance / self.bandwidth).square()).to(query.dtype)


@right("the square multiplied out in float64, with the first key as the origin")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        origin = projected[..., :1, :].double()
        q, k = query.double() - origin, projected.double() - origin
        squares = (
            q.square().sum(dim=-1)[..., :, None]
            + k.square().sum(dim=-1)[..., None, :]
            - 2 * torch.einsum("...td,...sd->...ts", q, k)
        )
        return -(squares / (2 * self.bandwidth**2)).to(query.dtype)


@right("one query after the other, and a product of each difference with itself")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rows = []
        for t in range(query.shape[-2]):
            off = projected - query.narrow(-2, t, 1)
            rows.append(torch.einsum("...sd,...sd->...s", off, off))
        return torch.stack(rows, dim=-2).neg() / 2 / self.bandwidth / self.bandwidth


@wrong(
    "without the minus sign: far keys have high scores",
    breaks=HIGHER,
    name="minus sign forgotten",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return off.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "divides by 2 and multiplies by ρ², which is right for ρ = 1 only",
    breaks=FORMULA,
    name="parentheses around the divisor forgotten",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.square().sum(dim=-1) / 2 * self.bandwidth**2


@wrong(
    "returns the exponential of the score",
    breaks=FORMULA,
    name="the bell curve instead of its logarithm",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-off.square().sum(dim=-1) / (2 * self.bandwidth**2))


@wrong(
    "uses the distance instead of its square",
    breaks=FORMULA,
    name="distance not squared",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the mean of the squared entries: right for vectors of width one only",
    breaks=SQUARED,
    name="mean instead of sum over the width",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes a root and squares it again: the gradients are nan where a key is equal to"
    " a query",
    breaks=GRADIENTS,
    name="gradient of a root at 0",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        distance = off.square().sum(dim=-1).sqrt()
        return -(distance**2) / (2 * self.bandwidth**2)


@wrong(
    "replaces the bandwidth by its square at each call, so only the first is right",
    breaks=EARLIER,
    name="the bandwidth changes at each call",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        self.bandwidth = self.bandwidth**2
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "computes the divisor once for the class, so all objects have the bandwidth of the"
    " first one that is called",
    breaks=EARLIER,
    name="bandwidth shared by all objects",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    divisor = None

    def forward(self, query, projected):
        kind = type(self)
        if kind.divisor is None:
            kind.divisor = 2 * self.bandwidth**2
        off = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.square().sum(dim=-1) / kind.divisor


@wrong(
    "uses pairwise_distance, which adds 1e-6 to each difference, and this matters at"
    " small distances and small bandwidths",
    breaks=NUMBERS,
    name="a small number is added to each difference",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = nn.functional.pairwise_distance(
            query.unsqueeze(-2), projected.unsqueeze(-3)
        )
        return -distance.square() / (2 * self.bandwidth**2)


@wrong(
    "divides by ρ in a `project_keys` of its own, so `forward` is wrong for keys that"
    " are as they were",
    breaks=NOT_WRITTEN,
    name="project_keys changes the keys",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def project_keys(self, key):
        return key / self.bandwidth

    def forward(self, query, projected):
        off = (query / self.bandwidth).unsqueeze(-2) - projected.unsqueeze(-3)
        return -off.square().sum(dim=-1) / 2
