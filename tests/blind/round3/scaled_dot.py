import math

import torch
import torch.nn.functional as F
from blind import right, wrong

from attention_course.scores import Score


# Right
@right("the fourth root of D under queries and under keys, new tensors")
class R1(Score):
    def forward(self, query, projected):
        root = query.size(-1) ** 0.25
        return torch.einsum("...td,...sd->...ts", query / root, projected / root)


@right("all products at once, summed over the last axis")
class R2(Score):
    def forward(self, query, projected):
        products = query.unsqueeze(-2) * projected.unsqueeze(-3)
        return products.sum(dim=-1).div(math.sqrt(projected.shape[-1]))


@right("F.linear for each pair of matrices, and put together to the shape of before")
class R3(Score):
    def forward(self, query, projected):
        front = query.shape[:-2]
        scale = math.pow(query.size(-1), -0.5)
        pairs = zip(
            query.reshape(math.prod(front), *query.shape[-2:]),
            projected.reshape(math.prod(front), *projected.shape[-2:]),
            strict=True,
        )
        found = query.new_empty(math.prod(front), query.size(-2), projected.size(-2))
        for i, (q, k) in enumerate(pairs):
            found[i] = F.linear(q, k) * scale
        return found.reshape(*front, query.size(-2), projected.size(-2))


@right("mean in place of sum, times the root")
class R4(Score):
    def forward(self, query, projected):
        width = query.shape[-1]
        columns = [
            (query.unsqueeze(-2) * k.unsqueeze(-3)).mean(dim=-1) * math.sqrt(width)
            for k in torch.split(projected, 1, dim=-2)
        ]
        return torch.cat(columns, dim=-1)


# Wrong
@wrong(
    "divided by D",
    breaks="The dot product of query and key, divided by the root of their width.",
    name="divided by D, not by its root",
)
class W1(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1)


@wrong(
    "query.size(1), which is D only without leading axes",
    breaks="divided by the root of their width",
    name="width from the wrong axis",
    subtle=True,
)
class W2(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.size(1))


@wrong(
    "the root of the number of keys",
    breaks="divided by the root of their width",
    name="root of S, not of D",
    subtle=True,
)
class W3(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(scores.size(-1))


@wrong(
    "the width of the first call is kept for all others",
    breaks="divided by the root of their width",
    name="the width of an earlier call",
    subtle=True,
)
class W4(Score):
    def forward(self, query, projected):
        if not hasattr(self, "scale"):
            self.scale = 1 / math.sqrt(query.size(-1))
        return query @ projected.mT * self.scale


@wrong(
    "divides the query that came in",
    breaks="what it was handed is unchanged",
    name="query divided in place",
    subtle=True,
)
class W5(Score):
    def forward(self, query, projected):
        with torch.no_grad():
            query /= math.sqrt(query.size(-1))
        return query @ projected.mT


@wrong(
    "math.isqrt, the root rounded down: right for 4, 16 and 64",
    breaks="divided by the root of their width",
    name="root rounded to an integer",
    subtle=True,
)
class W6(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.isqrt(query.size(-1))


@wrong(
    "a tensor with one entry for the root, of float32 and on the CPU",
    breaks="the dtype and the device are kept",
    name="a tensor of another dtype in the product",
    subtle=True,
)
class W7(Score):
    def forward(self, query, projected):
        root = torch.sqrt(torch.tensor([float(query.size(-1))]))
        return query @ projected.mT / root


@wrong(
    "transpose(1, 2): three axes only",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="three axes only",
    subtle=True,
)
class W8(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2) / math.sqrt(query.size(-1))


@wrong(
    "scales in training only",
    breaks="The dot product of query and key, divided by the root of their width.",
    name="scaled in train mode only",
    subtle=True,
)
class W9(Score):
    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores / math.sqrt(query.size(-1)) if self.training else scores


@wrong(
    "clamped to what softmax can tell apart in float32",
    breaks="divided by the root of their width",
    name="scores clamped",
    subtle=True,
)
class W10(Score):
    def forward(self, query, projected):
        return (query @ projected.mT / math.sqrt(query.size(-1))).clamp(-50, 50)
