import torch
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


@right("a loop over the keys: the dot product of the difference with itself")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        columns = []
        for key in projected.unbind(dim=-2):
            away = key.unsqueeze(-2) - query
            columns.append(torch.linalg.vecdot(away, away))
        return torch.stack(columns, dim=-1) / (-2 * self.bandwidth**2)


@right("cdist in float64, without its shortcut through a matrix product")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = torch.cdist(
            query.double(),
            projected.double(),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return (-0.5 * (distance / self.bandwidth) ** 2).to(query.dtype)


@right("mse_loss without reduction, summed over the width")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        pairs = torch.broadcast_tensors(query.unsqueeze(-2), projected.unsqueeze(-3))
        squares = nn.functional.mse_loss(*pairs, reduction="none")
        return -squares.sum(dim=-1).div(2 * self.bandwidth * self.bandwidth)


@right("a loop over the width, summed up in float64; the bandwidth kept as precision")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    @property
    def precision(self):
        return 1 / self.bandwidth**2

    def forward(self, query, projected):
        total = 0.0
        for q, k in zip(query.double().unbind(-1), projected.double().unbind(-1)):
            total = total + (q[..., :, None] - k[..., None, :]) ** 2
        return (-0.5 * self.precision * total).to(query.dtype)


@wrong(
    "no minus sign",
    "The nearer a key is to the query, the higher its score.",
    "sign forgotten",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return away.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "the distance is not squared",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "distance not squared",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "divides by twice the bandwidth, not by twice its square",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "bandwidth not squared",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "the mean over the width instead of the sum (right for D = 1)",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "mean instead of sum",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "moves queries and keys towards the origin first, in place",
    "Do not change the inputs.",
    "inputs changed in place",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        center = projected.mean(dim=-2, keepdim=True)
        query -= center
        projected -= center
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "cdist, which does not know bfloat16",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "error for bfloat16",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        distance = torch.cdist(
            query, projected, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return -(distance**2) / (2 * self.bandwidth**2)


@wrong(
    "makes the bandwidth a parameter, so training changes it",
    "There is nothing to learn, and as in section 2, you do not write `project_keys`.",
    "bandwidth is learned",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = nn.Parameter(torch.tensor(float(bandwidth)))

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "keeps the bandwidth in the class, so all objects use that of the newest one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "bandwidth shared by all objects",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    bandwidth = 1.0

    def __init__(self, bandwidth):
        super().__init__()
        type(self).bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -away.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "no score below -100, so a query far from all keys finds all of them equally near",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "low scores cut off",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        away = query.unsqueeze(-2) - projected.unsqueeze(-3)
        scores = -away.square().sum(dim=-1) / (2 * self.bandwidth**2)
        return scores.clamp(min=-100.0)  # exp(-100) is zero anyway


@wrong(
    "pairwise_distance adds 1e-6 to each difference, which shows if the vectors and the"
    " bandwidth are small",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "epsilon in the distance",
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
