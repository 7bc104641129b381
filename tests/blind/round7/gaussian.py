import math

import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("one entry of the vectors after the other, added up")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        squares = query.new_zeros(*query.shape[:-1], projected.size(-2))
        for entry in range(query.size(-1)):
            apart = query[..., entry].unsqueeze(-1) - projected[..., entry].unsqueeze(-2)
            squares = squares + apart**2
        return squares / (-2 * self.bandwidth**2)


@right("mean squared error without reduction, on expanded pairs")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        shape = (*query.shape[:-1], *projected.shape[-2:])
        asks = query[..., None, :].expand(shape)
        keys = projected[..., None, :, :].expand(shape)
        squares = F.mse_loss(asks, keys, reduction="none").sum(dim=-1)
        return -0.5 * squares / self.bandwidth**2


@right("differences with themselves in an einsum")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        squares = torch.einsum("...d,...d->...", apart, apart)
        return squares.neg() / (2 * self.bandwidth * self.bandwidth)


@right("loop over the keys, one column of scores for each")
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def column(self, query, key):
        return (query - key).square().sum(dim=-1, keepdim=True)

    def forward(self, query, projected):
        keys = projected.split(1, dim=-2) if projected.size(-2) else ()
        columns = [self.column(query, key) for key in keys]
        columns = torch.cat(columns, dim=-1) if columns else query[..., :0]
        return -columns / (2 * self.bandwidth**2)


@wrong(
    "the mean of the squares instead of their sum: right for vectors of width one, as in section 10, and too small for others",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "mean instead of sum of squares",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().mean(dim=-1) / (2 * self.bandwidth**2)


@wrong(
    "no parentheses: divides by 2 and multiplies by the squared bandwidth, which is right for the bandwidth 1 only",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "multiplies by the squared bandwidth: missing parentheses",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / 2 * self.bandwidth**2


@wrong(
    "returns the exponential of the score, a number between 0 and 1, as if the softmax came no more",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "returns exp of the score",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return (-apart.square().sum(dim=-1) / (2 * self.bandwidth**2)).exp()


@wrong(
    "|q|² - 2 q·k + |k|²: for points near 10000 the difference of two large numbers is lost, and the scores are wrong by whole numbers, some of them above 0",
    "The score measures how near a key is to the query.",
    "expanded square cancels for large numbers",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        squares = (
            query.square().sum(dim=-1, keepdim=True)
            - 2 * query @ projected.mT
            + projected.square().sum(dim=-1).unsqueeze(-2)
        )
        return -squares / (2 * self.bandwidth**2)


@wrong(
    "squares the bandwidth anew in each call and keeps it: the second call has another bandwidth, unless it is 1",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "changes the bandwidth at every call",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        self.bandwidth **= 2
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        return -apart.square().sum(dim=-1) / (2 * self.bandwidth)


@wrong(
    "needs exactly one leading axis: raises for (T, D), as in section 10, and compares heads with positions for (B, H, T, D)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "works for exactly three axes",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query[:, :, None] - projected[:, None, :]
        return -(apart**2).sum(dim=3) / (2 * self.bandwidth**2)


@wrong(
    "squeezes the width by squeeze(): for one query, one key or one sentence, axes are missing",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "squeeze removes axes of length one",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = query.unsqueeze(-2) - projected.unsqueeze(-3)
        squares = apart.square().sum(dim=-1, keepdim=True).squeeze()
        return -squares / (2 * self.bandwidth**2)


@wrong(
    "the bandwidth becomes a parameter: right at first, but training changes it and the state dict has an entry",
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


@wrong(
    "leaves out the square of the query, which a softmax over the keys does not see: the weights are right, the scores are not",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "leaves out the length of the query",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        squares = projected.square().sum(dim=-1).unsqueeze(-2)
        return (query @ projected.mT - squares / 2) / self.bandwidth**2


@wrong(
    "adds the absolute differences and squares the sum: right for width one or if vectors differ in one entry, otherwise too low",
    "$$e_{ts} = -\\frac{\\lVert q_t - k_s \\rVert^2}{2 \\rho^2}$$",
    "squares the sum instead of summing squares",
)
class GaussianScore(Score):
    """The nearer a key is to the query, the higher its score."""

    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth

    def forward(self, query, projected):
        apart = (query.unsqueeze(-2) - projected.unsqueeze(-3)).abs().sum(dim=-1)
        return -apart.square() / (2 * self.bandwidth**2)
