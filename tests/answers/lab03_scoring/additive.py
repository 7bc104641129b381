"""Answers to additive."""

import torch
import torch.nn.functional as F
from answers.core import right, wide, with_part, wrong, wrong_edits
from answers.lab03_scoring.shared import draw, shapes
from answers.signs import (
    AXES,
    CUT,
    FITS,
    NAN,
    ONE_AXIS,
)
from torch import nn

from attention_course.scores import Score
from nbjudge import Request, edit


@wide("additive")
def any_network(g):
    for leading, t, s, d in shapes(g):
        weights = {
            "query_proj.weight": draw(g, 5, d),
            "key_proj.weight": draw(g, 5, d),
            "energy_proj.weight": draw(g, 1, 5),
        }
        inputs = (draw(g, *leading, t, d), draw(g, *leading, s, d))
        yield Request(inputs, (d, d, 5), weights, gradients=True)


class Additive(Score):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy_proj = nn.Linear(hidden_dim, 1, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        q = self.query_proj(query).unsqueeze(-2)
        k = projected.unsqueeze(-3)
        return self.energy_proj(torch.tanh(q + k)).squeeze(-1)


right("additive")(Additive)


@right("additive")
@with_part(Additive, "forward")
def energy_with_einsum(self, query, projected):
    hidden = self.query_proj(query)[..., :, None, :] + projected[..., None, :, :]
    return torch.einsum("...a,a->...", hidden.tanh(), self.energy_proj.weight[0])


@right("additive")
@with_part(Additive, "forward")
def energy_as_a_product(self, query, projected):
    hidden = torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))
    return (hidden @ self.energy_proj.weight.T)[..., 0]


@right("additive")
@with_part(Additive, "forward")
def energy_as_a_sum(self, query, projected):
    hidden = torch.tanh(
        self.query_proj(query)[..., None, :] + projected[..., None, :, :]
    )
    return (hidden * self.energy_proj.weight.squeeze(0)).sum(dim=-1)


@right("additive")
@with_part(Additive, "forward")
def query_after_query(self, query, projected):
    q = self.query_proj(query)
    rows = [
        self.energy_proj(torch.tanh(q[..., t : t + 1, :] + projected))
        for t in range(q.size(-2))
    ]
    return torch.cat(rows, dim=-1).mT


@right("additive")
@with_part(Additive, "forward")
def key_after_key(self, query, projected):
    q = self.query_proj(query)
    columns = [
        self.energy_proj(torch.tanh(q + k.unsqueeze(-2))) for k in projected.unbind(-2)
    ]
    return torch.cat(columns, dim=-1)


@right("additive")
@with_part(Additive, "forward")
def expanded(self, query, projected):
    q = self.query_proj(query)
    t, s = q.size(-2), projected.size(-2)
    q = q.unsqueeze(-2).expand(*q.shape[:-1], s, q.size(-1))
    k = projected.unsqueeze(-3).expand(*projected.shape[:-2], t, s, projected.size(-1))
    return self.energy_proj(torch.tanh(torch.add(q, k))).squeeze(-1)


@right("additive")
@with_part(Additive, "forward")
def tanh_by_sigmoid(self, query, projected):
    x = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
    return self.energy_proj(2 * torch.sigmoid(2 * x) - 1).squeeze(-1)


@right("additive")
@with_part(Additive, "forward")
def keys_down_queries_across(self, query, projected):
    x = projected.unsqueeze(-2) + self.query_proj(query).unsqueeze(-3)
    return self.energy_proj(torch.tanh(x)).squeeze(-1).transpose(-1, -2)


@right("additive")
@with_part(Additive, "forward")
def contracted(self, query, projected):
    x = torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))
    return torch.tensordot(x, self.energy_proj.weight[0], dims=([-1], [0]))


@wrong("additive", "keys projected in forward, not in project_keys")
class Concatenated(Additive):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        t, s = query.size(-2), projected.size(-2)
        q = query.unsqueeze(-2).expand(*query.shape[:-1], s, query.size(-1))
        k = projected.unsqueeze(-3).expand(
            *projected.shape[:-2], t, s, projected.size(-1)
        )
        both = torch.cat([self.query_proj.weight, self.key_proj.weight], dim=1)
        return self.energy_proj(
            F.linear(torch.cat([q, k], dim=-1), both).tanh()
        ).squeeze(-1)


@right("additive")
@with_part(Additive, "forward")
def unit_by_unit(self, query, projected):
    q, total = self.query_proj(query), 0
    for a in range(q.size(-1)):
        hidden = torch.tanh(q[..., a].unsqueeze(-1) + projected[..., a].unsqueeze(-2))
        total = total + self.energy_proj.weight[0, a] * hidden
    return total


FORWARD, HIDDEN = Additive.forward, "torch.tanh(q + k)"
SCORES = "self.energy_proj(torch.tanh(q + k))"
wrong_edits(
    "additive",
    Additive,
    added_without_axes=(
        edit(FORWARD, ".unsqueeze(-2)", "") & edit(FORWARD, ".unsqueeze(-3)", ""),
        FITS,
    ),
    linear=(
        edit(FORWARD, HIDDEN, "q + k"),
        "tanh missing",
        "every query gets the same scores",
    ),
    energy_first=(
        edit(FORWARD, SCORES, "torch.tanh(self.energy_proj(q + k))"),
        "tanh applied to the score",
    ),
    query_not_projected=(edit(FORWARD, "self.query_proj(query)", "query"), FITS),
    every_axis_squeezed=(edit(FORWARD, ".squeeze(-1)", ".squeeze()"), ONE_AXIS),
    not_squeezed=(
        edit(FORWARD, ".squeeze(-1)", ""),
        ONE_AXIS,
        "an extra last axis of length one",
    ),
    axes_from_the_front=(
        edit(FORWARD, "unsqueeze(-2)", "unsqueeze(2)")
        & edit(FORWARD, "unsqueeze(-3)", "unsqueeze(1)"),
        AXES,
        FITS,
        "axes counted from the front",
    ),
    multiplied=(edit(FORWARD, "q + k", "q * k"),),
    keys_alone=(
        edit(FORWARD, "q + k", "0 * q + k"),
        "every query gets the same scores",
    ),
    energy_detached=(
        edit(
            FORWARD,
            f"{SCORES}.squeeze(-1)",
            f"({HIDDEN} * self.energy_proj.weight.detach()[0]).sum(-1)",
        ),
        CUT,
    ),
    tanh_by_a_bounded_quotient=(  # its gradient is infinity divided by infinity
        edit(FORWARD, HIDDEN, "(1 - 2 / ((2 * (q + k)).exp() + 1))"),
        NAN,
    ),
    tanh_chosen_by_where=(
        edit(
            FORWARD,
            HIDDEN,
            "torch.where((q + k).abs() > 20, (q + k).sign(),"
            " ((2 * (q + k)).exp() - 1) / ((2 * (q + k)).exp() + 1))",
        ),
        NAN,
    ),
    keys_detached_for_one_query=(
        edit(FORWARD, "q + k", "q + (k if q.size(-3) > 1 else k.detach())"),
        CUT,
    ),
    first_query_kept=(
        edit(
            FORWARD,
            "self.query_proj(query)",
            "vars(self).setdefault('seen', self.query_proj(query))",
        ),
    ),
)
