import math
import torch
from torch import nn
from attention_course.scores import Score
from blind import right, wrong


# ---------------------------------------------------------------- common mistakes


@wrong(
    "divides by the width D instead of by its square root: wrong for every D > 1",
    '"""The dot product of query and key, divided by the square root of their width."""',
    "divides by D, not by its root",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1]


@wrong(
    "takes the root of the number of keys, S, in place of the width: wrong whenever S is not D",
    '"""The dot product of query and key, divided by the square root of their width."""',
    "scales by the number of keys",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.size(-1))


@wrong(
    "divides both the queries and the keys by the root of D, which divides the product by D",
    r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$",
    "divides by the root twice",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = math.sqrt(query.shape[-1])
        return (query / root) @ (projected / root).mT


# ------------------------------------------------------------------------- corners


@wrong(
    "uses math.isqrt, which rounds down: right for the widths 1, 4, 64 and 1024, wrong for the widths 2, 8 or 32",
    r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$",
    "root rounded down to a whole number",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.shape[-1])


@wrong(
    "reads the width as query.shape[2]: right with the axes (B,), an error without axes, and the number of queries with the axes (B, H)",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none.",
    "width read from a fixed axis",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        width = query.shape[2]
        return torch.matmul(query, projected.transpose(-1, -2)) / math.sqrt(width)


@wrong(
    "divides by the root in a tensor of shape (1,) and dtype float32, so bfloat16 vectors give float32 scores (and it is on the CPU)",
    "The result must have the dtype of the vectors or parameters that it is computed from, and must be on their device.",
    "divisor is a float32 tensor",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = torch.sqrt(torch.tensor([float(query.shape[-1])]))
        return query @ projected.mT / root


@wrong(
    "scales the queries in place with mul_: the caller's queries are changed, and a second call with them gives smaller scores",
    "Do not change the inputs.",
    "scales the queries in place",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        query.mul_(query.shape[-1] ** -0.5)
        return query @ projected.mT


# ------------------------------------------------------------------- hard to notice


@wrong(
    "keeps the root that it computed in the first call: a later call of the same object with vectors of a different width is scaled by the old one",
    "The result of a call must not depend on earlier calls or on other objects of the same class.",
    "width of the first call is kept",
)
class ScaledDotScore(Score):
    root = None

    def forward(self, query, projected):
        if self.root is None:
            self.root = math.sqrt(projected.shape[-1])
        return query @ projected.mT / self.root


@wrong(
    "divides by the standard deviation that the products of this call have: about the root of D for random vectors with variance 1, something else for all others (and nan for a single product)",
    r"$$e_{ts} = \frac{q_t^\top k_s}{\sqrt{D}}$$",
    "divides by the measured standard deviation",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        products = query @ projected.mT
        return products / products.std()


@wrong(
    "lets torch divide while it computes the weights and takes the logarithm of them: rows are shifted by a constant, so the weights are right and the scores are not (and -inf for far scores)",
    '"""Score every query (..., T, D) against every key (..., S, D): (..., T, S)."""',
    "returns log weights instead of scores",
)
class ScaledDotScore(Score):
    def forward(self, query, projected):
        size = projected.shape[-2]
        eye = torch.eye(size, dtype=query.dtype, device=query.device)
        eye = eye.expand(*projected.shape[:-2], size, size)
        weights = nn.functional.scaled_dot_product_attention(query, projected, eye)
        return weights.log()


# --------------------------------------------------------------------------- right


@right("each side divided by the fourth root of D")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        fourth = query.shape[-1] ** 0.25
        return torch.einsum("...td,...sd->...ts", query / fourth, projected / fourth)


@right("a zero-dimensional root in the dtype of the queries, made by new_tensor")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = query.new_tensor(float(query.size(-1))).sqrt()
        return torch.matmul(query, projected.transpose(-2, -1)).div(root)


@right("the mean over the last axis times the root of D, one query after the other")
class ScaledDotScore(Score):
    def forward(self, query, projected):
        root = projected.shape[-1] ** 0.5
        rows = []
        for t in range(query.shape[-2]):
            rows.append((query[..., t : t + 1, :] * projected).mean(dim=-1) * root)
        return torch.stack(rows, dim=-2)


class _Plain(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@right("inherits from an unscaled class and scales the query that it passes on")
class ScaledDotScore(_Plain):
    def forward(self, query, projected):
        return super().forward(query * query.shape[-1] ** -0.5, projected)
