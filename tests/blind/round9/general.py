import torch
import torch.nn.functional as F
from attention_course.scores import Score
from blind import right, wrong
from torch import nn


@right("F.linear with the weight, einsum for the products")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("...ti,...si->...ts", query, projected)


@right("multiplies by the transposed weight, compares one query after the other")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.matmul(key, self.key_proj.weight.T)

    def forward(self, query, projected):
        rows = [projected @ q.unsqueeze(-1) for q in query.unbind(dim=-2)]
        return torch.cat(rows, dim=-1).transpose(-1, -2)


class Dot(Score):
    def forward(self, query, projected):
        return query @ projected.mT


@right("inherits the dot product and overrides only project_keys")
class GeneralScore(Dot):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        columns = self.key_proj(key).mT
        return columns.mT


@right("maps all keys as one long list of rows, multiplies the keys by the queries")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key, *, keep=-1):
        front = key.shape[:keep]
        rows = self.key_proj(key.flatten(0, -2))
        return rows.view(*front, self.key_proj.out_features)

    def forward(self, query, projected):
        return torch.matmul(projected, query.mT).mT


@wrong(
    "returns the keys unchanged from project_keys and applies W in forward; the result"
    " of project_keys has the width of the keys",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "W applied in forward",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong(
    "divides by the square root of the width, which the formula does not",
    "$$e_{ts} = q_t^\\top W k_s$$",
    "scales the general score",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / query.shape[-1] ** 0.5


@wrong(
    "multiplies by the weight instead of its transpose: an error if the widths differ,"
    " and q^T W^T k if they are the same",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "W transposed",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys without gradient, 'because it is done once': W gets none and is"
    " never learned",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "no gradient reaches W",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    @torch.no_grad()
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys only if the widths differ; keys as wide as the queries are compared"
    " without W",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "skips W when the widths are equal",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.same = query_dim == key_dim

    def project_keys(self, key):
        return key if self.same else self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "einsum with one named batch axis: an error without a batch and for (B, H)",
    "Your code must work in all three cases.",
    "einsum for (B, T, D) only",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("bsk,qk->bsq", key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("btq,bsq->bts", query, projected)


@wrong(
    "fills a tensor of zeros of the default dtype, column by column: a bfloat16 or"
    " float64 module returns float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from, and must be on their device.",
    "torch.zeros has its own dtype and device",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        scores = torch.zeros(*query.shape[:-1], projected.shape[-2])
        for s in range(projected.shape[-2]):
            scores[..., s] = (query @ projected[..., s, :, None]).squeeze(-1)
        return scores


@wrong(
    "keeps a transposed copy of W made in __init__: right until W is trained, loaded or"
    " set, after that the scores still come from the first W",
    "`self.key_proj(...)` applies $W$.",
    "works with a copy of the initial W",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.columns = self.key_proj.weight.mT.clone()

    def project_keys(self, key):
        return key @ self.columns.to(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "returns the mapped keys of the last call if the same tensor comes again in eval"
    " mode: if W or the numbers of the tensor were changed in between, they are old",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers the mapped keys in eval mode",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.last = None, None

    def project_keys(self, key):
        if self.training or self.last[0] is not key:
            self.last = key, self.key_proj(key)
        return self.last[1]

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "gives the map a bias that starts at zero: the first numbers are right, but there"
    " is a parameter too many, and after training W k is no longer a product",
    "It fixes the names and shapes of the parameters.",
    "extra bias that starts at zero",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim)
        nn.init.zeros_(self.key_proj.bias)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT
