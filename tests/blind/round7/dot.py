import torch
from torch import nn
from torch.nn import functional as F
from attention_course.scores import Score
from blind import right, wrong


@right("einsum with an ellipsis")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("multiplies and adds over the last axis, no matrix product")
class DotScore(Score):
    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(dim=-1)


@right("all leading axes are made one, then one linear layer per sentence")
class DotScore(Score):
    def forward(self, query, projected):
        lead, (steps, width) = query.shape[:-2], query.shape[-2:]
        if query.numel() == 0 or projected.numel() == 0:
            return query.new_zeros(*lead, steps, projected.size(-2))
        pairs = zip(
            query.reshape(-1, steps, width),
            projected.reshape(-1, projected.size(-2), width),
        )
        scores = torch.stack([F.linear(asks, keys) for asks, keys in pairs])
        return scores.reshape(*lead, steps, projected.size(-2))


@right("one key after the other: matrix times vector, as a chain of small functions")
class DotScore(Score):
    def one_key(self, query, key):
        return torch.matmul(query, key.unsqueeze(-1))

    def forward(self, query, projected):
        columns = [self.one_key(query, key) for key in projected.unbind(dim=-2)]
        if not columns:
            return query[..., :0]
        return torch.cat(columns, dim=-1)


@wrong(
    "x.T turns all axes around: raises or mixes sentences with keys as soon as there is an axis for the batch",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    ".T reverses all axes, not the last two",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.T


@wrong(
    "multiplies query t with key t only: raises for T != S, and otherwise returns (..., T)",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "compares only keys at the query's own position",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query * projected).sum(dim=-1)


@wrong(
    "divides by the root of the width: every score is too small unless D = 1",
    "This is the simplest way to measure how well a key matches a query: multiply entry by entry and add up.",
    "scaled dot product instead of plain dot product",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5


@wrong(
    "the einsum names exactly one leading axis: raises for (T, D) and for (B, H, T, D)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or\nmissing: write code that does not care.",
    "works for exactly three axes",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("btd,bsd->bts", query, projected)


@wrong(
    "squeeze() at the end: with one query, one key or one sentence the axis of length one is missing",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "squeeze removes axes of length one",
)
class DotScore(Score):
    def forward(self, query, projected):
        products = query.unsqueeze(-2) @ projected.unsqueeze(-3).mT
        return products.squeeze()


@wrong(
    "computes in float32 and returns float32: scores of double or half vectors have another dtype",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "returns float32 whatever came in",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "(|q|² + |k|² - |q - k|²) / 2: with a key of 1e25 and a query of 1e-5 the squares overflow and the score is nan instead of 1e20",
    "The second says whether the edges are right: axes of length one, inputs that are empty where the text allows it, long inputs, very large numbers, and a second call.",
    "squares overflow although the product does not",
)
class DotScore(Score):
    def forward(self, query, projected):
        asks, keys = query.unsqueeze(-2), projected.unsqueeze(-3)
        apart = (asks - keys).square().sum(dim=-1)
        return (asks.square().sum(-1) + keys.square().sum(-1) - apart) / 2


@wrong(
    "transpose_ turns the caller's keys around: they are (..., D, S) afterwards, and a second step with the same memory raises or is wrong",
    "The third is worth one point and is about good manners: your answer does not change its inputs, and it keeps their dtype and their device.",
    "transposes the keys in place",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.transpose_(-1, -2)


@wrong(
    "project_keys transposes and forward does not: together they are right, but forward on keys (..., S, D) raises, or is wrong where S = D",
    "Here there is nothing to do, and the base class `Score` returns the keys as they are.",
    "transposes in project_keys, forward expects transposed keys",
)
class DotScore(Score):
    def project_keys(self, key):
        return key.mT

    def forward(self, query, projected):
        return query @ projected


@wrong(
    "a learned factor that starts at one: right at first, but the score has a parameter and changes in training",
    "It has no parameters, and queries and keys must have the same width.",
    "adds a learned parameter to the dot score",
)
class DotScore(Score):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, query, projected):
        return self.temperature * (query @ projected.mT)
