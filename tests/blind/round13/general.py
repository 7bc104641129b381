import torch
import torch.nn.functional as F
from attention_course.scores import Score
from torch import nn

from blind import right, wrong


@right("einsum with the weight itself in both methods")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return torch.einsum("qk,...sk->...sq", self.key_proj.weight, key)

    def forward(self, query, projected):
        return torch.einsum("...sq,...tq->...ts", projected, query)


@right("float64 inside, back to the dtype of the parameters")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        mapped = F.linear(key.double(), self.key_proj.weight.double())
        return mapped.to(self.key_proj.weight.dtype)

    def forward(self, query, projected):
        return (query.double() @ projected.double().mT).to(query.dtype)


@right("a loop over the rows of the weight, and a loop over the keys")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        entries = [(key * row).sum(dim=-1) for row in self.key_proj.weight]
        return torch.stack(entries, dim=-1)

    def forward(self, query, projected):
        columns = [
            (query @ projected[..., s, :, None]).squeeze(-1)
            for s in range(projected.size(-2))
        ]
        return torch.stack(columns, dim=-1)


@right("all pairs multiplied by broadcasting and summed; keys flattened before the map")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.widths = (query_dim, key_dim)

    def project_keys(self, key):
        flat = self.key_proj(key.reshape(-1, self.widths[1]))
        return flat.reshape(*key.shape[:-1], self.widths[0])

    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).sum(dim=-1)


@wrong(
    "multiplies by the weight without transposing it: an error if the widths differ, and"
    " the transpose of W if they are the same",
    "A learned matrix $W$ maps the keys into the space of the queries, so queries and"
    " keys may differ in width.",
    "W not transposed",
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
    "divides by the square root of the width, as in section 3",
    "$$e_{ts} = q_t^\\top W k_s$$",
    "scaled without being asked",
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.5


@wrong(
    "inherits project_keys' idea (keys unchanged) and maps the keys in forward: the"
    " scores are right, but the map is repeated at every step",
    "Apply $W$ in `project_keys`, which is called once for each source.",
    "W applied in forward",
    subtle=True,
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
    "remembers the projected keys by the shape of the keys: another source of the same"
    " shape gets the keys of the first one",
    "The result of a call must not depend on earlier calls or on other objects of the"
    " same class.",
    "remembers keys by their shape",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)
        self.seen = {}

    def project_keys(self, key):
        if key.shape not in self.seen:
            self.seen[key.shape] = self.key_proj(key)
        return self.seen[key.shape]

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "maps the keys without gradients in eval mode: the scores are right, but neither W"
    " nor the keys get gradients then",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode. Gradients must be right, too.",
    "no gradients in eval mode",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        if self.training:
            return self.key_proj(key)
        with torch.no_grad():
            return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "multiplies by weight.data: the scores and the gradients of queries and keys are"
    " right, but W never gets a gradient",
    "Gradients must be right, too.",
    "W gets no gradient",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return key @ self.key_proj.weight.data.mT

    def forward(self, query, projected):
        return query @ projected.mT


@wrong(
    "converts everything to float32 and leaves it so: float64 and bfloat16 vectors give"
    " float32 scores",
    "The result must have the dtype of the vectors or parameters that it is computed"
    " from (float64, float32 or bfloat16), and must be on their device.",
    "always float32",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return F.linear(key.float(), self.key_proj.weight.float())

    def forward(self, query, projected):
        return query.float() @ projected.float().mT


@wrong(
    "transposes the projected keys in place: the first call of forward is right, the"
    " second call with the same keys fails or compares with the wrong axis",
    "Do not change the inputs.",
    "transpose_ changes the projected keys",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.transpose_(-2, -1)


@wrong(
    "names exactly three axes in the einsum: an error for the axes (B, H) and for none",
    "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or"
    " none. Your code must work in all three cases.",
    "only one batch axis",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return torch.einsum("btd,bsd->bts", query, projected)


@wrong(
    "removes the axis of the queries when there is only one: (..., S) instead of"
    " (..., 1, S)",
    "Your code must work for all lengths from 1 up, for large and for small numbers, in"
    " train mode and in eval mode.",
    "drops the axis of a single query",
    subtle=True,
)
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return (query @ projected.mT).squeeze(-2)
