import math

import torch
from attention_course.scores import Score
from blind import right, wrong
from torch import nn


@right("divides the differences by the bandwidth first, in at least float32")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        wide = torch.promote_types(query.dtype, torch.float32)
        steps = query.to(wide)[..., :, None, :] - projected.to(wide)[..., None, :, :]
        return (-0.5 * (steps / self.bandwidth).square().sum(-1)).to(query.dtype)


@right("a loop over the entries of the vectors")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        wide = torch.promote_types(query.dtype, torch.float32)
        q, k, total = query.to(wide), projected.to(wide), 0.0
        for d in range(q.size(-1)):
            step = q[..., d].unsqueeze(-1) - k[..., d].unsqueeze(-2)
            total = total + (step / self.bandwidth) ** 2
        return total.div(-2).to(query.dtype)


@right("torch.cdist without its matrix product, in float32 or float64")
class GaussianScore(Score):
    def __init__(self, bandwidth, mode="donot_use_mm_for_euclid_dist"):
        super().__init__()
        self.bandwidth, self.mode = bandwidth, mode

    def forward(self, query, projected):
        wide = torch.promote_types(query.dtype, torch.float32)
        far = torch.cdist(query.to(wide), projected.to(wide), compute_mode=self.mode)
        return (-(far / (self.bandwidth * math.sqrt(2))).pow(2)).to(query.dtype)


@right("one query after the other, the squared length as product with itself")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        keys, rows = projected.to(torch.float64), []
        for one in query.to(torch.float64).split(1, dim=-2):
            step = (keys - one) / self.bandwidth
            square = step.unsqueeze(-2) @ step.unsqueeze(-1)
            rows.append(square[..., 0, 0].mul(-0.5))
        return torch.stack(rows, dim=-2).to(query.dtype)


@wrong(
    "/ 2 * rho**2 multiplies by the squared bandwidth; right only for rho = 1",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "missing brackets around the divisor",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -steps.square().sum(dim=-1) / 2 * self.bandwidth**2


@wrong(
    "takes the distance, not its square; wrong for every distance but 0 and 1",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "distance not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -steps.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "returns the exponential, so the masked softmax would take it a second time; wrong"
    " for every input",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "returns the bell curve instead of its exponent",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return torch.exp(-steps.square().sum(dim=-1) / (2 * self.bandwidth**2))


@wrong(
    "inserts the axes at the front: right for (T, D) alone; with a batch every sentence"
    " meets every other one, or an error is raised",
    "Your code must work in all three cases.",
    "axes inserted at the front",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(1) - projected.unsqueeze(0)
        return -(steps**2).sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "cdist in its default mode: bfloat16 and float16 vectors raise an error",
    "For example, bfloat16 vectors on a GPU give a bfloat16 result on the same GPU.",
    "cdist does not know bfloat16",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        return -torch.cdist(query, projected) ** 2 / (2 * self.bandwidth**2)


@wrong(
    "stores the bandwidth in the class: a second object with another bandwidth changes"
    " the scores of the first",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "all objects share one bandwidth",
)
class GaussianScore(Score):
    width = 1.0

    def __init__(self, bandwidth):
        super().__init__()
        GaussianScore.width = bandwidth
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -steps.square().sum(dim=-1) / (2 * type(self).width ** 2)


@wrong(
    "makes the bandwidth a parameter, so the model trains it along with the rest",
    "There is nothing to learn, and as in section 2 you do not write `project_keys`.",
    "learned bandwidth",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = nn.Parameter(torch.tensor(float(bandwidth)))

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -steps.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "takes the mean of the squared entries; right for vectors of width 1, as in the"
    " experiment of section 10, and D times too small otherwise",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "mean instead of sum over the entries",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        steps = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return steps.square().mean(dim=-1) / (-2 * self.bandwidth**2)


@wrong(
    "|q|^2 + |k|^2 - 2 q k cancels: for q = 10000 and k = 10001 in float32, the result"
    " is 0 instead of -1/2",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "expanded square cancels far from the origin",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        left = query.square().sum(dim=-1).unsqueeze(-1)
        right = projected.square().sum(dim=-1).unsqueeze(-2)
        far = (left + right - 2 * query @ projected.mT).clamp(min=0)
        return -far / (2 * self.bandwidth**2)


@wrong(
    "leaves out |q|^2, because it is the same for the whole row: the weights are right,"
    " but the scores are too large by |q|^2 / 2 rho^2",
    '"""Score every query (..., T, D) against every key (..., S, D): (..., T, S)."""',
    "right weights, wrong scores",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        half = projected.square().sum(dim=-1).unsqueeze(-2) / 2
        return (query @ projected.mT - half) / self.bandwidth**2
