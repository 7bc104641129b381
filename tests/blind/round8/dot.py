import torch
from torch import nn
from torch.nn import functional as F

from attention_course.scores import Score
from blind import right, wrong


@right("einsum with an ellipsis")
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@right("loops over the keys and stacks the columns")
class DotScore(Score):
    def forward(self, query, projected):
        columns = []
        for s in range(projected.size(-2)):
            key = projected[..., s, :].unsqueeze(-1)  # (..., D, 1)
            columns.append(torch.matmul(query, key).squeeze(-1))
        if not columns:
            return query @ projected.transpose(-1, -2)
        return torch.stack(columns, dim=-1)


@right("flattens the axes in front and uses baddbmm")
class DotScore(Score):
    def forward(self, query, projected, beta=0):
        *front, T, D = query.shape
        S = projected.shape[-2]
        n = 1
        for size in front:
            n *= size
        flat = torch.baddbmm(
            query.new_zeros(()).expand(n, T, S),
            query.reshape(n, T, D),
            projected.reshape(n, S, D).permute(0, 2, 1),
            beta=beta,
        )
        return flat.view(*front, T, S)


class _Pairwise(Score):
    """Compares every query with every key by `compare`."""

    def compare(self, query, key):
        raise NotImplementedError

    def forward(self, query, projected):
        return self.compare(query[..., :, None, :], projected[..., None, :, :])


@right("a subclass of a pairwise score: all products, summed over the last axis")
class DotScore(_Pairwise):
    def compare(self, query, key):
        return query.mul(key).sum(-1)


# --- common mistakes ---------------------------------------------------------------


@wrong(
    "`.T` reverses all axes: right for (S, D), an error or wrong with (B, S, D)",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    ".T in place of .mT",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.permute(*range(projected.dim() - 1, -1, -1))


@wrong(
    "divides by the root of the width, which belongs to the next question; right for"
    " D = 1 only",
    "multiply the two vectors entry by entry and add up the products.",
    "scales by the root of D",
)
class DotScore(Score):
    def forward(self, query, projected):
        return query @ projected.mT / projected.size(-1) ** 0.5


@wrong(
    "reshapes the keys to (..., D, S) in place of transposing them: the numbers are"
    " shuffled unless S or D is 1",
    "The keys have to be transposed: `x.mT` exchanges the last two axes and leaves the"
    " axes before them alone.",
    "reshape instead of transpose",
)
class DotScore(Score):
    def forward(self, query, projected):
        *front, S, D = projected.shape
        return query @ projected.reshape(*front, D, S)


# --- corners -----------------------------------------------------------------------


@wrong(
    "`bmm` with `transpose(1, 2)`: only for three axes; (T, D) and (B, H, T, D) raise",
    "The axes in front of the last two may be `(B,)` or `(B, H)`, or missing, and your"
    " code must work in all three cases.",
    "works with exactly one axis in front",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(1, 2))


@wrong(
    "squeezes the result: with one query or one key an axis is lost",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "squeeze removes axes of length one",
)
class DotScore(Score):
    def forward(self, query, projected):
        products = query.unsqueeze(-2) @ projected.unsqueeze(-3).mT  # (..., T, 1, S)
        return products.squeeze()


@wrong(
    "computes in float32 to be safe: float64 queries and keys give float32 scores",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "always returns float32",
)
class DotScore(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query.float(), projected.float())


@wrong(
    "`unsqueeze_` gives the caller's query another shape: a second call with it fails",
    "It says whether your answer leaves its inputs unchanged, and whether its result"
    " has the dtype of the inputs and is on their device.",
    "changes the query's shape in place",
)
class DotScore(Score):
    def forward(self, query, projected):
        return (query.unsqueeze_(-2) * projected.unsqueeze(-3)).sum(dim=-1)


# --- hard to notice ----------------------------------------------------------------


@wrong(
    "transposes in project_keys and not in forward: the pair gives the right scores,"
    " but forward with keys (..., S, D) is wrong, and project_keys changes the keys",
    "For the dot product there is nothing to do, so the base class `Score` returns the"
    " keys as they are.",
    "project_keys transposes the keys",
)
class DotScore(Score):
    def project_keys(self, key):
        return key.mT

    def forward(self, query, projected):
        return query @ projected


@wrong(
    "keeps the first keys in the module, 'once per sentence': from the second sentence"
    " on it scores against the keys of the first",
    "Score every query (..., T, D) against every key (..., S, D): (..., T, S).",
    "remembers the first sentence's keys",
)
class DotScore(Score):
    transposed = None

    def forward(self, query, projected):
        if self.transposed is None or self.transposed.shape != projected.mT.shape:
            self.transposed = projected.mT
        return query @ self.transposed


@wrong(
    "half of |q|^2 + |k|^2 - |q - k|^2, which is the dot product on paper: for vectors"
    " of very different length (|q| = 1e4, |k| = 1e-3) the difference is only noise, for"
    " large ones inf - inf",
    "multiply the two vectors entry by entry and add up the products.",
    "product from squared lengths, useless for unequal lengths",
)
class DotScore(Score):
    def forward(self, query, projected):
        squares = query.square().sum(-1)[..., :, None]
        squares = squares + projected.square().sum(-1)[..., None, :]
        apart = query[..., :, None, :] - projected[..., None, :, :]
        return (squares - apart.square().sum(-1)) / 2
