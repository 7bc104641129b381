import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "forgets the square of the distance: too low for distances below 1, too high for distances above",
    r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$",
    "distance not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "returns the exponential of the score, which is the weight before it is divided by the sum",
    r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$",
    "returns exp of the score",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-difference.square().sum(-1) / (2 * self.bandwidth**2))


@wrong(
    "does not square the bandwidth: right for a bandwidth of 1 only",
    "ρ, the distance at which a key's weight has fallen to exp(-1/2) of",
    "bandwidth not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth)


# ------------------------------------------------------------------------- corners


@wrong(
    "uses cdist, which for more than 25 queries or keys goes through matrix products: points near each other but far from 0 get wrong distances",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "cdist is inexact for long inputs",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        work = torch.promote_types(query.dtype, torch.float32)
        distance = torch.cdist(query.to(work), projected.to(work))
        return (-distance.square() / (2 * self.bandwidth**2)).to(query.dtype)


@wrong(
    "expands the square to |q|^2 - 2 q k + |k|^2: for points near 10000 that differ by 1, the difference is lost in rounding, and scores can be positive",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in train mode and in eval mode.",
    "expanded square cancels for large numbers",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q = query.square().sum(dim=-1, keepdim=True)
        k = projected.square().sum(dim=-1, keepdim=True)
        squares = q - 2 * query @ projected.mT + k.mT
        return -squares / (2 * self.bandwidth**2)


@wrong(
    "keeps the bandwidth as a float32 tensor of shape (1,), on the CPU: bfloat16 vectors give float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "bandwidth is a float32 tensor",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = torch.tensor([float(bandwidth)])

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "makes the bandwidth a parameter, so it appears in parameters() and an optimiser changes it",
    "There is nothing to learn, and as in section 2 you do not write `project_keys`.",
    "bandwidth became a learned parameter",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = nn.Parameter(torch.tensor(float(bandwidth)))

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)


# ------------------------------------------------------------------- hard to notice


@wrong(
    "takes the mean of the squared differences instead of their sum: right for points on a line (D = 1), as in section 10, too high by the factor D otherwise",
    "The squared length of a vector is the sum of its squared entries, over the last axis.",
    "mean over D instead of sum",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "leaves out |q|^2, which is the same for all keys: the weights after the softmax are right, the scores are shifted in every row whose query is not 0",
    r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$",
    "drops a term that the softmax ignores",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        half = projected.square().sum(dim=-1).unsqueeze(-2) / 2
        return (query @ projected.mT - half) / self.bandwidth**2


@wrong(
    "keeps the bandwidth on the class: an object made earlier takes over the bandwidth of the one made last",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "bandwidth shared by all objects",
)
class GaussianScore(Score):
    bandwidth = 1.0

    def __init__(self, bandwidth):
        super().__init__()
        type(self).bandwidth = bandwidth

    def forward(self, query, projected):
        difference = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -difference.square().sum(dim=-1) / (2 * self.bandwidth**2)


# --------------------------------------------------------------------------- right


@right("divides the differences by the bandwidth first, then squares, einsum as the sum")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        z = (query[..., :, None, :] - projected[..., None, :, :]) / self.bandwidth
        return torch.einsum("...d,...d->...", z, z) * -0.5


@right("a loop over the keys, columns stacked")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.rho = bandwidth

    def forward(self, query, projected):
        columns = []
        for s in range(projected.shape[-2]):
            difference = projected[..., s : s + 1, :] - query
            columns.append(difference.pow(2).sum(dim=-1))
        return torch.stack(columns, dim=-1) / (-2 * self.rho * self.rho)


@right("the difference as a 1 x D by D x 1 matrix product")
class GaussianScore(Score):
    def __init__(self, bandwidth, factor=0.5):
        super().__init__()
        self.bandwidth = bandwidth
        self.factor = factor

    def forward(self, query, projected):
        difference = torch.sub(query.unsqueeze(-2), projected.unsqueeze(-3))
        row, column = difference.unsqueeze(-2), difference.unsqueeze(-1)
        squares = torch.matmul(row, column).squeeze(-1).squeeze(-1)
        return -self.factor * squares / self.bandwidth**2


@right("the log density of a normal distribution without its constant: the entries in turn, summed by stack and sum")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        parts = []
        for q, k in zip(query.unbind(dim=-1), projected.unbind(dim=-1)):
            z = (q.unsqueeze(-1) - k.unsqueeze(-2)) / self.bandwidth
            parts.append(-z.square() / 2)
        return torch.stack(parts).sum(dim=0)
