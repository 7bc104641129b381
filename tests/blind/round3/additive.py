import torch
import torch.nn.functional as F
from blind import right, wrong
from torch import nn

from attention_course.scores import Score


class _Base(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


# Right
@right("one query after the other, v by a product with the weight")
class R1(_Base):
    def forward(self, query, projected):
        v = self.energy_proj.weight[0]
        rows = [
            torch.tanh(q.unsqueeze(-2) + projected.unsqueeze(-3)) @ v
            for q in self.query_proj(query).split(1, dim=-2)
        ]
        return torch.cat(rows, dim=-2)


@right("one hidden unit after the other, added up")
class R2(_Base):
    def project_keys(self, key):
        return F.linear(key, self.key_proj.weight)

    def forward(self, query, projected):
        asked = query @ self.query_proj.weight.mT
        total = 0
        for a, v in enumerate(self.energy_proj.weight.unbind(1)):
            total = total + v * (asked[..., None, a] + projected[..., None, :, a]).tanh()
        return total


@right("both repeated to (..., T, S, A) and einsum with v")
class R3(_Base):
    def project_keys(self, key):
        return torch.einsum("...sd,ad->...sa", key, self.key_proj.weight)

    def forward(self, query, projected):
        q = self.query_proj(query)
        times, size = q.size(-2), projected.size(-2)
        again = [1] * (projected.dim() - 2) + [times, 1]
        both = torch.repeat_interleave(q, size, dim=-2) + projected.repeat(*again)
        e = torch.einsum("...a,oa->...o", both.tanh(), self.energy_proj.weight)
        return e[..., 0].unflatten(-1, (times, size))


@right("tanh by the sigmoid, 2 s(2x) - 1; keys on the left and turned at the end")
class R4(_Base):
    def forward(self, query, projected):
        q = self.query_proj(query)
        x = projected[..., :, None, :] + q[..., None, :, :]
        hidden = 2 * torch.sigmoid(2 * x) - 1
        return self.energy_proj(hidden)[..., 0].mT


# Wrong
@wrong(
    "unsqueeze(2) and unsqueeze(1), counted from the front",
    breaks="The axes in front of the last two may be `(B,)` or `(B, H)`, or missing",
    name="three axes only",
    subtle=True,
)
class W1(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    "the sum broadcasts over T: right for one query",
    breaks="Score every query (..., T, query_dim) against every projected key",
    name="one query only",
    subtle=True,
)
class W2(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query) + projected
        return self.energy_proj(hidden.tanh()).squeeze(-1).unsqueeze(-2)


@wrong(
    "U in forward, and project_keys returns the keys",
    breaks="Compute U k for every key (..., S, key_dim): (..., S, A).",
    name="U in forward",
    subtle=True,
)
class W3(_Base):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        keys = self.key_proj(projected)
        hidden = self.query_proj(query).unsqueeze(-2) + keys.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze(-1)


@wrong(
    "squeeze without an axis",
    breaks="(..., T, S)",
    name="axes of length one disappear",
    subtle=True,
)
class W4(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze()


@wrong(
    "adds a single query to the projected keys themselves",
    breaks="what it was handed is unchanged",
    name="projected keys changed in place",
    subtle=True,
)
class W5(_Base):
    def forward(self, query, projected):
        asked = self.query_proj(query)
        if query.size(-2) == 1:  # a step of a decoder: no further axis is needed
            hidden = projected.add_(asked).tanh().unsqueeze(-3)
        else:
            hidden = (asked.unsqueeze(-2) + projected.unsqueeze(-3)).tanh()
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "dropout on the hidden layer in training",
    breaks="$$e_{ts} = v^\\top \\tanh(W q_t + U k_s)$$",
    name="dropout in the score",
    subtle=True,
)
class W6(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        hidden = F.dropout(hidden.tanh(), 0.1, self.training)
        return self.energy_proj(hidden).squeeze(-1)


@wrong(
    "fills a tensor of zeros of the default dtype, on the CPU",
    breaks="the dtype and the device are kept",
    name="a new tensor of default dtype",
    subtle=True,
)
class W7(_Base):
    def forward(self, query, projected):
        out = torch.zeros(*query.shape[:-1], projected.size(-2))
        asked = self.query_proj(query)
        for t in range(query.size(-2)):
            hidden = (asked[..., t, None, :] + projected).tanh()
            out[..., t, :] = self.energy_proj(hidden).squeeze(-1)
        return out


@wrong(
    "the weight of v as .data, so that v does not learn",
    breaks="At the end your own class sits inside a translation model and learns to"
    " read dates.",
    name="v does not learn",
    subtle=True,
)
class W8(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return hidden.tanh() @ self.energy_proj.weight.data[0]


@wrong(
    "v by weight.squeeze(), which is no vector if A is one",
    breaks="A small network with one hidden layer of width A compares each query with"
    " each key.",
    name="hidden layer of width one",
    subtle=True,
)
class W9(_Base):
    def forward(self, query, projected):
        hidden = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
        return hidden.tanh() @ self.energy_proj.weight.squeeze()


@wrong(
    "the projected queries of the first step are kept for the next ones of their shape",
    breaks="Score every query (..., T, query_dim) against every projected key",
    name="the queries of an earlier step",
    subtle=True,
)
class W10(_Base):
    def forward(self, query, projected):
        if getattr(self, "asked", None) is None or self.asked[0] != query.shape:
            self.asked = (query.shape, self.query_proj(query))
        hidden = self.asked[1].unsqueeze(-2) + projected.unsqueeze(-3)
        return self.energy_proj(hidden.tanh()).squeeze(-1)
