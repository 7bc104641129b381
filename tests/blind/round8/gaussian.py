import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong


@right("loops over the queries; distances divided by the bandwidth before squaring")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rows = []
        for t in range(query.size(-2)):
            away = (query[..., t : t + 1, :] - projected) / self.bandwidth
            rows.append(-0.5 * (away * away).sum(dim=-1))
        if not rows:
            return query @ projected.transpose(-2, -1)
        return torch.stack(rows, dim=-2)


@right("squared error loss without reduction on expanded tensors")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        T, S = query.size(-2), projected.size(-2)
        q = query.unsqueeze(-2)
        k = projected.unsqueeze(-3)
        shape = (*query.shape[:-1], S, query.size(-1))
        squares = F.mse_loss(q.expand(shape), k.expand(shape), reduction="none")
        return squares.sum(-1).reshape(*query.shape[:-2], T, S).div(
            -2 * self.bandwidth**2
        )


@right("one entry of the width at a time, stacked and summed")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    @property
    def factor(self):
        return -1 / (2 * self.bandwidth * self.bandwidth)

    def forward(self, query, projected, square=torch.square):
        pairs = zip(query.unbind(-1), projected.unbind(-1))
        parts = [square(q[..., :, None] - k[..., None, :]) for q, k in pairs]
        return torch.stack(parts, dim=-1).sum(-1) * self.factor


@right("differences, key minus query, as an einsum with themselves")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = torch.sub(projected[..., None, :, :], query[..., :, None, :])
        return torch.einsum("...d,...d->...", apart, apart) / -(2 * self.bandwidth**2)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "no minus: the farther a key is, the higher its score",
    "The nearer a key is to the query, the higher its score.",
    "minus sign forgotten",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return apart.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "the length is not squared (`norm` alone): wrong unless the distance is 0 or 1",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "distance is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.norm(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "the bandwidth is not squared: right for bandwidth 1 only",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "bandwidth is not squared",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth)


# --- corners -----------------------------------------------------------------------


@wrong(
    "|q|^2 + |k|^2 - 2qk: far from zero (vectors around 1e4) the squares cancel, and the"
    " scores are off by whole numbers or even positive",
    "The score measures how near a key is to the query.",
    "expanded square loses near keys far from zero",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        q2 = query.square().sum(dim=-1).unsqueeze(-1)
        k2 = projected.square().sum(dim=-1).unsqueeze(-2)
        return -(q2 + k2 - 2 * query @ projected.mT) / (2 * self.bandwidth**2)


@wrong(
    "mean over the width in place of the sum: right for D = 1 as in section 10 only",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "mean instead of sum over the width",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "the divisor is a float32 tensor of shape (1,): float16 queries give float32 scores",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "float32 divisor promotes half precision",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        rho = torch.tensor([float(self.bandwidth)], device=query.device)
        apart = query[..., :, None, :] - projected[..., None, :, :]
        return -apart.pow(2).sum(-1) / (2 * rho**2)


@wrong(
    "inserts the axes at 1 and 0, which is right without axes in front (as in section"
    " 10) only",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "works without axes in front only",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(1) - projected.unsqueeze(0)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth**2)


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "compares the lengths of the vectors: right for D = 1 and positive numbers, such as"
    " the points 0 to 6 of section 10, but 2 and -2, or two directions, are 'equal'",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "difference of lengths, not length of difference",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.norm(dim=-1)[..., :, None] - projected.norm(dim=-1)[..., None, :]
        return -apart.square() / (2 * self.bandwidth**2)


@wrong(
    "sums the absolute entries and squares the sum: right for D = 1, too low for wider"
    " vectors",
    "The squared length of a vector is the sum of its squared entries, over the last"
    " axis.",
    "square of the sum, not sum of squares",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.abs().sum(dim=-1).square() / (2 * self.bandwidth**2)


@wrong(
    "the bandwidth becomes an nn.Parameter: the first scores are right, but it is"
    " trained with the model and appears in its state_dict",
    "There is nothing to learn.",
    "bandwidth is made a learned parameter",
)
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = nn.Parameter(torch.tensor(float(bandwidth)))

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth**2)
