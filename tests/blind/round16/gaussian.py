import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

INPUTS = "Do not change the inputs."
GRAD = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
FORMULA = r"$$e_{ts} = -\frac{\lVert q_t - k_s \rVert^2}{2 \rho^2}$$"
NEAR = "The nearer a key is to the query, the higher its score."
RHO = "bandwidth: ρ, the distance at which a key's weight has fallen to exp(-1/2) of that of a key at the query."
NOTHING = "There is nothing to learn, and as in section 2, you do not write `project_keys`."


class Given(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth


@right("adds up the squared differences of one coordinate after the other, in float64")
class GaussianScore(Given):
    def forward(self, query, projected):
        total = 0
        for q, k in zip(query.double().unbind(-1), projected.double().unbind(-1)):
            total = total + (q[..., :, None] - k[..., None, :]) ** 2
        return (total / (-2 * float(self.bandwidth) ** 2)).to(query.dtype)


@right("one query after the other, the differences divided by the bandwidth before they are squared")
class GaussianScore(Given):
    def forward(self, query, projected):
        rows = []
        for q in query.split(1, dim=-2):
            z = (projected - q) / self.bandwidth
            rows.append(-0.5 * z.square().sum(dim=-1).unsqueeze(-2))
        return torch.cat(rows, dim=-2)


@right("a product of each difference with itself, by einsum, over (..., S, T, D), transposed")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = projected[..., :, None, :] - query[..., None, :, :]
        square = torch.einsum("...std,...std->...ts", gap, gap)
        return -square / (2 * self.bandwidth**2)


@right("the matrix product of differences (1 x D) and (D x 1), scaled by the precision of the normal distribution")
class GaussianScore(Given):
    def __init__(self, bandwidth):
        super().__init__(bandwidth)
        self.half_precision = 0.5 / float(bandwidth) ** 2

    def forward(self, query, projected):
        gap = (query.unsqueeze(-2) - projected.unsqueeze(-3)).unsqueeze(-1)
        return (gap.mT @ gap)[..., 0, 0] * -self.half_precision


@wrong("forgets the minus sign: far keys get the high scores", breaks=NEAR, name="no minus sign")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return gap.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong("forgets the 2 in the divisor", breaks=RHO, name="no 2 in the divisor")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / self.bandwidth**2


@wrong("takes the mean over the width: right for D = 1 only", breaks=FORMULA, name="mean instead of sum")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong("takes a square root and squares it again: the gradient is nan where a query equals a key", breaks=GRAD, name="nan gradient at distance zero")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        distance = (gap * gap).sum(dim=-1).sqrt()
        return -distance.square() / (2 * self.bandwidth**2)


@wrong("adds 1e-6 to the divisor for safety: with a bandwidth of 0.001, all scores are a third too small", breaks=FORMULA, name="epsilon in the divisor")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * self.bandwidth**2 + 1e-6)


@wrong("cuts the scores off at -100, where the weight is 'practically zero': a query that is far from all keys no longer knows which is the nearest", breaks=NEAR, name="far keys all alike")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return (-gap.square().sum(dim=-1) / (2 * self.bandwidth**2)).clamp(min=-100)


@wrong("keeps the bandwidth on the class: a second object changes the bandwidth of the first", breaks=CALLS, name="bandwidth of the class")
class GaussianScore(Score):
    rho = 1.0

    def __init__(self, bandwidth):
        super().__init__()
        type(self).rho = bandwidth
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * self.rho**2)


@wrong("makes the bandwidth a parameter, so that an optimizer changes it and the state dict has an entry", breaks=NOTHING, name="learned bandwidth")
class GaussianScore(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = nn.Parameter(torch.tensor(float(bandwidth)))

    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong("for a single key, subtracts in the memory of the query: the caller's query is changed", breaks=INPUTS, name="query overwritten if S is 1")
class GaussianScore(Given):
    def forward(self, query, projected):
        if projected.shape[-2] == 1 and not (torch.is_grad_enabled() and query.requires_grad):
            gap = query.unsqueeze(-2).sub_(projected.unsqueeze(-3))
        else:
            gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.square().sum(dim=-1) / (2 * self.bandwidth**2)


@wrong("squares the sum of the absolute differences (the city-block length): right for D = 1, and for vectors that differ in one entry", breaks=FORMULA, name="wrong length of a vector")
class GaussianScore(Given):
    def forward(self, query, projected):
        gap = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -gap.abs().sum(dim=-1).square() / (2 * self.bandwidth**2)
