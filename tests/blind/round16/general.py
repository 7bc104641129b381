import torch
import torch.nn.functional as F
from torch import nn
from attention_course.scores import Score
from blind import right, wrong

DTYPE = "The result must have the dtype of the vectors or parameters that it is computed from (float64, float32 or bfloat16), and must be on their device."
GRAD = "Gradients must be right, too."
CALLS = "The result of a call must not depend on earlier calls or on other objects of the same class."
AXES = "Before the last two axes, a tensor may have the axes `(B,)`, the axes `(B, H)`, or none."
APPLY = "Apply $W$ in `project_keys`, which is called once for each source."
FORMULA = r"$$e_{ts} = q_t^\top W k_s$$"
LEARNED = "A learned matrix $W$ maps the keys into the space of the queries, so queries and keys may differ in width."
FIXED = "It fixes the names and shapes of the parameters."
DOC_KEYS = "Map every key (..., S, key_dim) into the space of the queries: (..., S, query_dim)."


class Given(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)


@right("einsum with the weight itself")
class GeneralScore(Given):
    def project_keys(self, key):
        return torch.einsum("...sk,qk->...sq", key, self.key_proj.weight)

    def forward(self, query, projected):
        return torch.einsum("...tq,...sq->...ts", query, projected)


@right("transposed all the way: W K^T, and then (K' Q^T)^T")
class GeneralScore(Given):
    def project_keys(self, key):
        return (self.key_proj.weight @ key.mT).mT

    def forward(self, query, projected):
        return (projected @ query.mT).mT


@right("in float64: one linear map, and one query after the other")
class GeneralScore(Given):
    def project_keys(self, key):
        return F.linear(key.double(), self.key_proj.weight.double()).to(key.dtype)

    def forward(self, query, projected):
        wide = projected.double()
        rows = [(wide * q.double().unsqueeze(-2)).sum(dim=-1) for q in query.unbind(dim=-2)]
        return torch.stack(rows, dim=-2).to(query.dtype)


@right("projects the keys one source position at a time, and adds up outer products over the width of the query in float64")
class GeneralScore(Given):
    def project_keys(self, key):
        return torch.stack([self.key_proj(k) for k in key.unbind(dim=-2)], dim=-2)

    def forward(self, query, projected):
        total = 0
        for d in range(query.shape[-1]):
            total = total + query[..., d].double().unsqueeze(-1) * projected[..., d].double().unsqueeze(-2)
        return total.to(query.dtype)


@wrong("leaves the keys as they are and applies W in forward, at every step again", breaks=APPLY, name="W applied in forward")
class GeneralScore(Given):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj(projected).mT


@wrong("multiplies by the weight without transposing it: an error, or W^T if the widths are equal", breaks=FORMULA, name="W transposed")
class GeneralScore(Given):
    def project_keys(self, key):
        return key @ self.key_proj.weight

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("adds a bias to the map: one more parameter, and all scores of a query are shifted", breaks=FIXED, name="a bias in the map")
class GeneralScore(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("forward projects again whatever still has the width of a key: if queries and keys have the same width, W is applied twice", breaks=FORMULA, name="projected twice if the widths are equal")
class GeneralScore(Given):
    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        if projected.shape[-1] == self.key_proj.in_features:
            projected = self.key_proj(projected)
        return query @ projected.mT


@wrong("uses the weight's data: the numbers are right, but W gets no gradient", breaks=GRAD, name="W without a gradient")
class GeneralScore(Given):
    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight.data)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("under no_grad, keeps a copy of the weight from the first call on: stale after a training step or load_state_dict", breaks=CALLS, name="weight copied at the first call")
class GeneralScore(Given):
    def project_keys(self, key):
        if torch.is_grad_enabled():
            return self.key_proj(key)
        if not hasattr(self, "matrix"):
            self.matrix = self.key_proj.weight.detach().T.clone()
        return key @ self.matrix.to(key.dtype)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("skips the map if queries and keys have the same width, 'because no map is needed then'", breaks=LEARNED, name="no map between equal widths")
class GeneralScore(Given):
    def project_keys(self, key):
        if self.key_proj.in_features == self.key_proj.out_features:
            return key
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


@wrong("unpacks three axes and uses bmm: an error with heads or without a batch", breaks=AXES, name="three axes only")
class GeneralScore(Given):
    def project_keys(self, key):
        batch, size, width = key.shape
        return self.key_proj(key.reshape(batch * size, width)).reshape(batch, size, -1)

    def forward(self, query, projected):
        return torch.bmm(query, projected.transpose(1, 2))


@wrong("squeezes keys of a single position: (..., 1, key_dim) loses its axis, so a source of length one gives scores without an axis for S", breaks=DOC_KEYS, name="squeezed a source of length one")
class GeneralScore(Given):
    def project_keys(self, key):
        return self.key_proj(key).squeeze(-2)

    def forward(self, query, projected):
        if projected.dim() < query.dim():
            return (query * projected.unsqueeze(-2)).sum(dim=-1)
        return query @ projected.mT


@wrong("turns the map and the products into float32 and leaves them there: bfloat16 and float64 inputs give float32 scores", breaks=DTYPE, name="scores in float32")
class GeneralScore(Given):
    def project_keys(self, key):
        return F.linear(key.float(), self.key_proj.weight.float())

    def forward(self, query, projected):
        return query.float() @ projected.float().mT
