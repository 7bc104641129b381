import torch
from attention_course.scores import Score

from blind import right, wrong


@right("keys times queries, then transposed")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("a loop over the keys with vecdot")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        columns = []
        for s in range(projected.shape[-2]):
            columns.append(torch.linalg.vecdot(query, projected[..., s : s + 1, :]))
        return torch.stack(columns, dim=-1)


@right("a loop over the width, summed up in float64")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        total = 0.0
        for q, k in zip(query.double().unbind(-1), projected.double().unbind(-1)):
            total = total + q[..., :, None] * k[..., None, :]
        return total.to(query.dtype)


@right("all axes before the last two flattened into one, then einsum over it")
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        lead = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2])
        q = query.expand(*lead, *query.shape[-2:]).reshape(-1, *query.shape[-2:])
        k = projected.expand(*lead, *projected.shape[-2:])
        k = k.reshape(-1, *projected.shape[-2:])
        scores = torch.einsum("nsd,ntd->nts", k, q)
        return scores.reshape(*lead, query.shape[-2], projected.shape[-2])


@wrong(
    "divides by the square root of the width",
    "The simplest way is to multiply the two vectors entry by entry and to add up the"
    " products:",
    "scaled dot product",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1] ** 0.5


@wrong(
    "keys times queries: the result is (..., S, T)",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "queries and keys exchanged",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return projected @ query.mT


@wrong(
    "reverses all axes of the keys, not only the last two",
    "Your code must work in all three cases.",
    ".T instead of .mT",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query @ projected.permute(*reversed(range(projected.dim())))


@wrong(
    "exchanges axes 1 and 2 of the keys: only right with one axis before the last two",
    "Your code must work in all three cases.",
    "axes counted from the front",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(1, 2))


@wrong(
    "removes all axes of length one from the result",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "squeeze without an axis",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        products = query.unsqueeze(-2) @ projected.unsqueeze(-3).mT
        return products.squeeze()


@wrong(
    "computes in float32 and returns float32, whatever the vectors' dtype",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "result always float32",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "transposes the caller's keys in place",
    "Do not change the inputs.",
    "keys transposed in place",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return query @ projected.transpose_(-2, -1)


@wrong(
    "keeps the transposed keys of an earlier call if the shape is the same",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "keys of an earlier call",
)
class DotScore(Score):
    """The dot product of query and key."""

    _turned = None

    def forward(self, query, projected):
        turned = projected.mT
        if self._turned is None or self._turned.shape != turned.shape:
            self._turned = turned
        return query @ self._turned


@wrong(
    "limits the scores to -10000 ... 10000",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "large scores cut off",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        return (query @ projected.mT).clamp(min=-1e4, max=1e4)


@wrong(
    "computes in float32 and converts back: float64 products above 1e38 become infinite"
    " and those below 1e-45 become 0, though float64 holds them",
    "Your code must work for all lengths from 1 up, for large and for small numbers,"
    " in train mode and in eval mode.",
    "float64 computed in float32",
)
class DotScore(Score):
    """The dot product of query and key."""

    def forward(self, query, projected):
        scores = torch.einsum("...td,...sd->...ts", query.float(), projected.float())
        return scores.to(query.dtype)
