import torch
from torch import nn
from blind import right, wrong
from attention_course.scores import Score

FORMULA = r"$$e_{ts} = q_t^\top k_s$$"
ADD_UP = (
    "The simplest measure multiplies the two vectors entry by entry and adds up the"
    " products:"
)
SHAPE = "Score every query (..., T, D) against every key (..., S, D): (..., T, S)."
AXES = (
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases."
)
UNCHANGED = "Do not change the inputs."
LENGTHS = (
    "Your code must work for all lengths and all numbers of sentences from 1 up, for"
    " large and for small numbers, in train mode and in eval mode."
)
LAYOUT = (
    "An input may be a view of another tensor, such as a transpose or a slice, so do"
    " not rely on its layout in memory."
)
EARLIER = (
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class."
)


@right("einsum with an ellipsis")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("all products (..., T, S, D) in float64, then a sum")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        products = query.double()[..., :, None, :] * projected.double()[..., None, :, :]
        return products.sum(dim=-1).to(query.dtype)


@right("a sum of outer products, one for each entry of the vectors")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        scores = 0
        for q, k in zip(query.unbind(dim=-1), projected.unbind(dim=-1)):
            scores = scores + q.unsqueeze(-1) * k.unsqueeze(-2)
        return scores


@right("recursion over the first axes, a linear map by the keys at the bottom")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        if query.dim() == 2:
            return nn.functional.linear(query, projected)
        pairs = zip(query, projected)
        return torch.stack([self.forward(q, k) for q, k in pairs])


@wrong(
    "the mean of the products instead of their sum",
    breaks=ADD_UP,
    name="mean instead of sum",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).mean(dim=-1)


@wrong(
    "reshapes the keys to (..., D, S), which does not exchange the axes",
    breaks=FORMULA,
    name="reshape taken for a transpose",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        *lead, size, width = projected.shape
        return query @ projected.reshape(*lead, width, size)


@wrong(
    "keys times queries: the result is (..., S, T)",
    breaks=SHAPE,
    name="queries and keys exchanged",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "exchanges the axes 1 and 2, which are the last two in a batch without heads only",
    breaks=AXES,
    name="axes counted from the front",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong(
    "returns the softmax of the products",
    breaks=FORMULA,
    name="weights instead of scores",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return torch.softmax(query @ projected.mT, dim=-1)


@wrong(
    "transposes the keys with transpose_, so the caller's tensor has the shape"
    " (..., D, S) afterwards",
    breaks=UNCHANGED,
    name="keys transposed in place",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query @ projected.transpose_(-2, -1)


@wrong(
    "for a single query, the axis T disappears",
    breaks=LENGTHS,
    name="axis of length one removed",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        scores = query @ projected.mT
        return scores.squeeze(-2)


@wrong(
    "adds up blocks of eight entries and forgets the rest of a width that is no"
    " multiple of eight",
    breaks=ADD_UP,
    name="the last, incomplete block is forgotten",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        width = query.shape[-1]
        block = min(8, width)
        scores = 0
        for i in range(width // block):
            part = slice(i * block, (i + 1) * block)
            scores = scores + query[..., part] @ projected[..., part].mT
        return scores


@wrong(
    "merges the first axes with view, which fails for tensors with gaps or exchanged"
    " axes",
    breaks=LAYOUT,
    name="view of a tensor that is not contiguous",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        *lead, length, width = query.shape
        size = projected.shape[-2]
        q = query.view(-1, length, width)
        k = projected.view(-1, size, width)
        return torch.bmm(q, k.transpose(1, 2)).view(*lead, length, size)


@wrong(
    "keeps the transposed keys of its first call and uses them again for every source"
    " of the same shape",
    breaks=EARLIER,
    name="keys of an earlier source",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        if not hasattr(self, "ready") or self.ready.mT.shape != projected.shape:
            self.ready = projected.mT.clone()
        return query @ self.ready
