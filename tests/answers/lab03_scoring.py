"""Answers to lab03_scoring, written as in the lab: with its imports, and with the earlier answers as globals."""

import math
import sys
import warnings

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong
from answers.signs import (
    AXES,
    CUT,
    DEVICE,
    DTYPE,
    EXCHANGED,
    FACTOR,
    FITS,
    IN_PLACE,
    NAN,
    NONE,
    ONE_AXIS,
    REQUIRED,
    TAKEN_OUT,
    WEIGHT,
)
from torch import nn

from attention_course.questions.core import Request
from attention_course.scores import Score

# --- what equivalent answers agree on -------------------------------------------------------------------------------


def shapes(g):
    """Batches of 1 to 3 axes, then queries, sources and a width."""
    for leading in ((), (3,), (1,), (4, 2), (2, 1, 3)):
        t, s, d = torch.randint(1, 9, (3,), generator=g).tolist()
        yield leading, t, s, d


def draw(g, *shape):
    return torch.randn(*shape, generator=g, dtype=torch.float64) * 4 ** torch.rand((), generator=g).sub(0.5)


def masks(g, *shape):
    yield None
    for share in (0.0, 0.3, 0.9, 1.0):
        yield torch.rand(*shape, generator=g) < share


@wide("masked_softmax")
def any_scores(g):
    for leading, t, s, _ in shapes(g):
        for shape in ((*leading, t, s), (*leading, 1, s), (s,)):
            for mask in masks(g, *shape):
                yield Request((draw(g, *leading, t, s), mask), gradients=True)
                yield Request((300 * draw(g, *leading, t, s), mask), dtype=torch.float32)


@wide("dot", "scaled_dot")
def any_vectors(g):
    for leading, t, s, d in shapes(g):
        yield Request((draw(g, *leading, t, d), draw(g, *leading, s, d)), (), gradients=True)


@wide("gaussian")
def any_points(g):
    for leading, t, s, d in shapes(g):
        for bandwidth in (1, 2, 5):
            yield Request((draw(g, *leading, t, d), draw(g, *leading, s, d)), (bandwidth,), gradients=True)


@wide("general")
def any_map(g):
    for leading, t, s, d in shapes(g):
        for key_dim in (d, d + 1):
            inputs = (draw(g, *leading, t, d), draw(g, *leading, s, key_dim))
            yield Request(inputs, (d, key_dim), {"key_proj.weight": draw(g, d, key_dim)}, gradients=True)


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


@wide("attend")
def any_memory(g):
    for leading, t, s, d in shapes(g):
        for mask in masks(g, *leading, t, s):
            inputs = (draw(g, *leading, t, s), draw(g, *leading, s, d), mask)
            yield Request((*inputs, None), gradients=True)
            yield Request((*inputs, torch.rand(*leading, t, s, generator=g).round() * 2), gradients=True)


# --- masked_softmax -------------------------------------------------------------------------------------------------


@right("masked_softmax")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


@right("masked_softmax")
def stable_by_hand(scores, mask=None):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    scores = torch.where(mask, scores, -1e30)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


@right("masked_softmax")
def infinite_then_mended(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~mask & ~empty, float("-inf")).softmax(-1)
    return torch.where(empty | ~mask, torch.zeros_like(weights), weights)


@right("masked_softmax")
def loud(scores, mask=None):
    print("scores", scores.shape)
    print("scores", scores.shape, file=sys.stderr)
    warnings.warn("look at this", stacklevel=1)
    if mask is None:
        return F.softmax(scores, -1)
    return F.softmax(torch.where(mask, scores, torch.full_like(scores, -1e30)), -1) * mask


@right("masked_softmax")
def with_logsumexp(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return weights if mask is None else weights.masked_fill(~mask, 0)


@right("masked_softmax")
def row_by_row(scores, mask=None):
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    rows = []
    for t in range(scores.size(-2)):
        row, allowed = scores[..., t, :], mask[..., t, :]
        rows.append(row.masked_fill(~allowed, torch.finfo(row.dtype).min).softmax(-1) * allowed)
    return torch.stack(rows, dim=-2)


@right("masked_softmax")
def with_a_bias(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    bias = (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min
    return (scores + bias).softmax(-1) * mask


@right("masked_softmax")
def with_log_softmax(scores, mask=None):
    if mask is None:
        return scores.log_softmax(-1).exp()
    return scores.masked_fill(mask.logical_not(), -1e30).log_softmax(-1).exp().mul(mask)


@right("masked_softmax")
def in_double_precision(scores, mask=None):
    weights = scores.double()
    if mask is None:
        return weights.softmax(-1).to(scores.dtype)
    weights = weights.masked_fill(~mask, -1e300).softmax(-1)
    return torch.where(mask, weights, torch.zeros((), dtype=torch.float64, device=scores.device)).to(scores.dtype)


@right("masked_softmax")
def the_other_way_up(scores, mask=None):
    mask = torch.ones_like(scores).bool() if mask is None else mask.expand_as(scores)
    weights = scores.mT.masked_fill(~mask.mT, torch.finfo(scores.dtype).min).softmax(-2)
    return weights.masked_fill(~mask.mT, 0.0).mT


@right("masked_softmax")
def subtracting_the_maximum_in_place_of_a_copy(scores, mask=None):
    e = scores.clone()
    if mask is not None:
        e = e.masked_fill_(~mask, -1e30)
    e = e.sub(e.max(dim=-1, keepdim=True).values).exp()
    if mask is not None:
        e = e.mul(mask)
    return e.div(e.sum(-1, keepdim=True).clamp_min(1e-30))


@wrong("masked_softmax", "softmax over the queries")
def over_axis_one(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    return F.softmax(scores, dim=1)


@wrong("masked_softmax", "forbidden scores set to zero")
def scores_times_mask(scores, mask=None):
    return torch.softmax(scores if mask is None else scores * mask, dim=-1)


@wrong("masked_softmax", "mask after the softmax")
def weights_times_mask(scores, mask=None):
    weights = F.softmax(scores, dim=-1)
    return weights if mask is None else weights * mask.float().to(weights.dtype)


@wrong("masked_softmax", "mask after the softmax")
def renormalised_afterwards(scores, mask=None):
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return weights


@right("masked_softmax")  # the gradient that masked_fill stops is not a number, either
def not_a_number_replaced(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return torch.nan_to_num(scores.softmax(-1))


@wrong("masked_softmax", "exponentials that overflow")
def no_maximum_subtracted(scores, mask=None):
    e = torch.exp(scores)
    if mask is not None:
        e = e.masked_fill(~mask, 0)
    return e / (e.sum(-1, keepdim=True) + 1e-9)


@wrong("masked_softmax", NAN, "forbidden scores set to minus infinity")
def logarithm_of_the_mask(scores, mask=None):
    return (scores if mask is None else scores + mask.to(scores.dtype).log()).softmax(-1)


@wrong("masked_softmax", WEIGHT, "forbidden scores set to zero")
def low_but_not_low_enough(scores, mask=None):
    return (scores if mask is None else scores.masked_fill(~mask, -20.0)).softmax(-1)


@wrong("masked_softmax", IN_PLACE)
def filled_in_place(scores, mask=None):
    if mask is not None:
        scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


@wrong("masked_softmax", CUT)
def detached(scores, mask=None):
    return masked_softmax(scores.detach(), mask)


@wrong("masked_softmax", DTYPE)
def single_precision(scores, mask=None):
    return masked_softmax(scores.float(), mask)


@wrong("masked_softmax", DEVICE)
def on_the_cpu(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.full(scores.shape, torch.finfo(scores.dtype).min, dtype=scores.dtype)
    return torch.where(mask, scores, lowest).softmax(-1) * mask


@wrong("masked_softmax", REQUIRED)
def mask_required(scores, mask):
    return masked_softmax(scores, mask)


@wrong("masked_softmax", FITS)
def picked_with_the_mask(scores, mask=None):
    scores = scores.clone()
    if mask is not None:
        scores[~mask] = torch.finfo(scores.dtype).min
    weights = scores.softmax(-1)
    return weights if mask is None else weights * mask


@wrong("masked_softmax", TAKEN_OUT)
def if_any(scores, mask=None):
    if mask is None or mask.all():
        return scores.softmax(-1)
    return masked_softmax(scores, mask)


@wrong("masked_softmax", "the rows do not sum to one")
def over_the_whole_map(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    return scores.flatten(-2).softmax(-1).view(scores.shape)


@wrong("masked_softmax", "the rows do not sum to one")
def sigmoid(scores, mask=None):
    return scores.sigmoid() if mask is None else scores.sigmoid() * mask


@wrong("masked_softmax", AXES)
def three_axes(scores, mask=None):
    b, t, s = scores.shape
    return masked_softmax(scores, mask)


@wrong("masked_softmax", FITS, AXES)
def axis_put_behind_the_first(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    mask = mask.unsqueeze(1) if mask.dim() < scores.dim() else mask
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~mask, 0)


# --- the product of queries and keys, in as many ways as there are ----------------------------------------------------


def as_matrices(query, key):
    return query @ key.mT


def with_einsum(query, key):
    return torch.einsum("...td,...sd->...ts", query, key)


def as_batches(query, key):
    leading = query.shape[:-2]
    return torch.bmm(query.flatten(0, -3), key.flatten(0, -3).transpose(1, 2)).unflatten(0, leading)


def multiplied_and_summed(query, key):
    return (query[..., :, None, :] * key[..., None, :, :]).sum(-1)


def query_by_query(query, key):
    rows = [(query[..., t : t + 1, :] * key).sum(-1) for t in range(query.size(-2))]
    return torch.stack(rows, dim=-2)


def key_by_key(query, key):
    columns = []
    for s in range(key.size(-2)):
        columns.append(query.matmul(key[..., s, :].unsqueeze(-1)))
    return torch.cat(columns, dim=-1)


def keys_first(query, key):
    return torch.matmul(key, query.transpose(-2, -1)).transpose(-2, -1)


def outer_products(query, key):
    total = 0
    for d in range(query.size(-1)):
        total = total + query[..., d].unsqueeze(-1) * key[..., d].unsqueeze(-2)
    return total


def by_polarisation(query, key):
    q, k = query.unsqueeze(-2), key.unsqueeze(-3)
    return ((q + k).pow(2).sum(-1) - (q - k).pow(2).sum(-1)) / 4


def in_halves(query, key):
    half = query.size(-1) // 2
    low = query[..., :half] @ key[..., :half].mT
    return low + query[..., half:] @ key[..., half:].mT


PRODUCTS = (as_matrices, with_einsum, as_batches, multiplied_and_summed, query_by_query, key_by_key, keys_first,
            outer_products, by_polarisation, in_halves)  # fmt: skip


def score(forward):
    return type("Answer", (Score,), {"forward": lambda self, query, projected: forward(query, projected)})


for product in PRODUCTS:
    right("dot", product.__name__)(score(product))


# --- dot --------------------------------------------------------------------------------------------------------------


@wrong("dot", FITS)
class EntryByEntry(Score):
    def forward(self, query, projected):
        return (query * projected).sum(-1)


@wrong("dot", FITS, "keys not transposed")
class NotTurned(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected)


@wrong("dot", "rows and columns exchanged", EXCHANGED)
class KeysFirst(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...st", query, projected)


@wrong("dot", AXES)
class ThreeLetters(Score):
    def forward(self, query, projected):
        return torch.einsum("btd,bsd->bts", query, projected)


@wrong("dot", AXES, FITS)
class AxesFromTheFront(Score):
    def forward(self, query, projected):
        return query @ projected.transpose(1, 2)


@wrong("dot", FITS)
class AllAxesTurned(Score):
    def forward(self, query, projected):
        return query @ projected.permute(*range(projected.dim() - 1, -1, -1))


@wrong("dot", CUT)
class KeysDetached(Score):
    def forward(self, query, projected):
        return query @ projected.detach().mT


@wrong("dot", "cosine, where the plain product is meant")
class Cosine(Score):
    def forward(self, query, projected):
        q = query / query.norm(dim=-1, keepdim=True)
        k = projected / projected.norm(dim=-1, keepdim=True)
        return q @ k.mT


@wrong("dot", FACTOR)
class MeanNotSum(Score):
    def forward(self, query, projected):
        return (query.unsqueeze(-2) * projected.unsqueeze(-3)).mean(-1)


@wrong("dot", "weights, where scores are meant")
class Softmaxed(Score):
    def forward(self, query, projected):
        return torch.softmax(query @ projected.mT, dim=-1)


@wrong("dot", TAKEN_OUT, CUT)
class ThroughNumbers(Score):
    def forward(self, query, projected):
        return torch.tensor((query @ projected.mT).tolist(), dtype=query.dtype, device=query.device)


@wrong("dot", "the first sentence stands for all")
class FirstSentence(Score):
    def forward(self, query, projected):
        return query @ projected[0].mT


@wrong("dot")
class Distance(Score):
    def forward(self, query, projected):
        return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).norm(dim=-1)


@wrong("dot", "nothing returned")
class NoReturn(Score):
    def forward(self, query, projected):
        query @ projected.mT


# --- scaled_dot -------------------------------------------------------------------------------------------------------


SCALINGS = (
    lambda product, q, k: product(q, k) / math.sqrt(q.size(-1)),
    lambda product, q, k: product(q / q.size(-1) ** 0.5, k),
    lambda product, q, k: product(q, k * k.size(-1) ** -0.5),
    lambda product, q, k: product(q, k) / torch.sqrt(torch.tensor(q.size(-1))),
    lambda product, q, k: product(q / q.size(-1) ** 0.25, k / k.size(-1) ** 0.25),
)
for number, product in enumerate(PRODUCTS):
    scaling = SCALINGS[number % len(SCALINGS)]
    right("scaled_dot", product.__name__)(score(lambda q, k, f=scaling, product=product: f(product, q, k)))


@wrong("scaled_dot", "scale missing")
class ScaleForgotten(Score):
    def forward(self, query, projected):
        return torch.einsum("...td,...sd->...ts", query, projected)


@wrong("scaled_dot", "divided by the width, not by its root")
class NoRoot(Score):
    def forward(self, query, projected):
        return torch.matmul(query, projected.transpose(-1, -2)).div(projected.shape[-1])


@wrong("scaled_dot", "scaled by the number of keys")
class RootOfKeys(Score):
    def forward(self, query, projected):
        return query @ projected.mT / projected.size(-2) ** 0.5


@wrong("scaled_dot", FACTOR)
class RootOfBatch(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(len(query))


@wrong("scaled_dot", FACTOR)
class FixedWidth(Score):
    def forward(self, query, projected):
        return query @ projected.mT / 8


@wrong("scaled_dot", FACTOR)
class BothByTheRoot(Score):
    def forward(self, query, projected):
        root = math.sqrt(query.size(-1))
        return (query / root**0.5) @ (projected / root).mT


@wrong("scaled_dot", FACTOR)
class FourthRoot(Score):
    def forward(self, query, projected):
        return query @ projected.mT / query.size(-1) ** 0.25


@wrong("scaled_dot", "weights, where scores are meant")
class ScaledAndSoftmaxed(Score):
    def forward(self, query, projected):
        return F.softmax(query @ projected.mT / math.sqrt(query.size(-1)), dim=-1)


@wrong("scaled_dot", FACTOR, AXES, "scaled by the number of queries")
class WidthFromTheFront(Score):
    def forward(self, query, projected):
        return query @ projected.mT / math.sqrt(query.shape[2])


@wrong("scaled_dot")
class FloorDivision(Score):
    def forward(self, query, projected):
        return query @ projected.mT // math.sqrt(query.size(-1))


@wrong("scaled_dot", DTYPE)
class ScaledInSingle(Score):
    def forward(self, query, projected):
        return (query.float() @ projected.float().mT) / math.sqrt(query.size(-1))


@wrong("scaled_dot", CUT)
class ScaledWithoutGradient(Score):
    def forward(self, query, projected):
        with torch.no_grad():
            return query @ projected.mT / math.sqrt(query.size(-1))


# --- general ----------------------------------------------------------------------------------------------------------


class General(Score):
    def __init__(self, query_dim, key_dim):
        super().__init__()
        self.key_proj = nn.Linear(key_dim, query_dim, bias=False)

    def project_keys(self, key):
        return self.key_proj(key)

    def forward(self, query, projected):
        return query @ projected.mT


PROJECTIONS = (
    lambda self, key: self.key_proj(key),
    lambda self, key: F.linear(key, self.key_proj.weight),
    lambda self, key: key @ self.key_proj.weight.T,
    lambda self, key: torch.einsum("dk,...sk->...sd", self.key_proj.weight, key),
    lambda self, key: (self.key_proj.weight @ key.mT).mT,
)
for number, product in enumerate(PRODUCTS):
    body = {
        "project_keys": PROJECTIONS[number % len(PROJECTIONS)],
        "forward": lambda self, query, projected, product=product: product(query, projected),
    }
    right("general", product.__name__)(type("Answer", (General,), body))


@right("general")
class QueryMapped(General):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return query @ self.key_proj.weight @ projected.mT


@wrong("general", FITS, "keys not projected")
class NotProjected(General):
    def project_keys(self, key):
        return key


@wrong("general", FITS, "keys projected twice")
class ProjectedAgain(General):
    def forward(self, query, projected):
        return torch.matmul(query, self.key_proj(projected).transpose(-1, -2))


@wrong("general", FITS)
class WeightTurned(General):
    def project_keys(self, key):
        return key @ self.key_proj.weight


@wrong("general", FITS)
class QueryThroughTheMap(General):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        return self.key_proj(query) @ projected.mT


@wrong("general", "scaled, where the plain product is meant")
class GeneralScaled(General):
    def forward(self, query, projected):
        return query @ projected.mT * query.size(-1) ** -0.5


@wrong("general", CUT)
class MapNotTrained(General):
    def project_keys(self, key):
        return key @ self.key_proj.weight.data.T


@wrong("general", "another answer to the same question")
class MapMadeAnew(General):
    def project_keys(self, key):
        return nn.Linear(key.size(-1), self.key_proj.out_features, bias=False).to(key)(key)


@wrong("general", "rows and columns exchanged", EXCHANGED)
class GeneralTurned(General):
    def forward(self, query, projected):
        return projected @ query.mT


@wrong("general", "nothing returned", FITS, NONE)
class ProjectedIntoNothing(General):
    def project_keys(self, key):
        self.key_proj(key)


@wrong("general")
class WithTanh(General):
    def project_keys(self, key):
        return torch.tanh(self.key_proj(key))


@wrong("general", "a name that does not exist")
class Misspelt(General):
    def project_keys(self, key):
        return self.key_projection(key)


@wrong("general", "weights, where scores are meant")
class GeneralSoftmaxed(General):
    def forward(self, query, projected):
        return (query @ projected.mT).softmax(-1)


# --- additive ---------------------------------------------------------------------------------------------------------


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


def additive(forward):
    return type(forward.__name__, (Additive,), {"forward": forward})


right("additive")(Additive)


@right("additive")
@additive
def energy_with_einsum(self, query, projected):
    hidden = self.query_proj(query)[..., :, None, :] + projected[..., None, :, :]
    return torch.einsum("...a,a->...", hidden.tanh(), self.energy_proj.weight[0])


@right("additive")
@additive
def energy_as_a_product(self, query, projected):
    hidden = torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))
    return (hidden @ self.energy_proj.weight.T)[..., 0]


@right("additive")
@additive
def energy_as_a_sum(self, query, projected):
    hidden = torch.tanh(self.query_proj(query)[..., None, :] + projected[..., None, :, :])
    return (hidden * self.energy_proj.weight.squeeze(0)).sum(dim=-1)


@right("additive")
@additive
def query_after_query(self, query, projected):
    q = self.query_proj(query)
    rows = [self.energy_proj(torch.tanh(q[..., t : t + 1, :] + projected)) for t in range(q.size(-2))]
    return torch.cat(rows, dim=-1).mT


@right("additive")
@additive
def key_after_key(self, query, projected):
    q = self.query_proj(query)
    columns = [self.energy_proj(torch.tanh(q + k.unsqueeze(-2))) for k in projected.unbind(-2)]
    return torch.cat(columns, dim=-1)


@right("additive")
@additive
def expanded(self, query, projected):
    q = self.query_proj(query)
    t, s = q.size(-2), projected.size(-2)
    q = q.unsqueeze(-2).expand(*q.shape[:-1], s, q.size(-1))
    k = projected.unsqueeze(-3).expand(*projected.shape[:-2], t, s, projected.size(-1))
    return self.energy_proj(torch.tanh(torch.add(q, k))).squeeze(-1)


@right("additive")
@additive
def tanh_by_sigmoid(self, query, projected):
    x = self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)
    return self.energy_proj(2 * torch.sigmoid(2 * x) - 1).squeeze(-1)


@right("additive")
@additive
def keys_down_queries_across(self, query, projected):
    x = projected.unsqueeze(-2) + self.query_proj(query).unsqueeze(-3)
    return self.energy_proj(torch.tanh(x)).squeeze(-1).transpose(-1, -2)


@right("additive")
class Concatenated(Additive):
    def project_keys(self, key):
        return key

    def forward(self, query, projected):
        t, s = query.size(-2), projected.size(-2)
        q = query.unsqueeze(-2).expand(*query.shape[:-1], s, query.size(-1))
        k = projected.unsqueeze(-3).expand(*projected.shape[:-2], t, s, projected.size(-1))
        both = torch.cat([self.query_proj.weight, self.key_proj.weight], dim=1)
        return self.energy_proj(F.linear(torch.cat([q, k], dim=-1), both).tanh()).squeeze(-1)


@right("additive")
@additive
def unit_by_unit(self, query, projected):
    q, total = self.query_proj(query), 0
    for a in range(q.size(-1)):
        hidden = torch.tanh(q[..., a].unsqueeze(-1) + projected[..., a].unsqueeze(-2))
        total = total + self.energy_proj.weight[0, a] * hidden
    return total


@wrong("additive", FITS)
@additive
def added_without_axes(self, query, projected):
    return self.energy_proj(torch.tanh(self.query_proj(query) + projected)).squeeze(-1)


@wrong("additive", "another nonlinearity in place of tanh")
@additive
def with_sigmoid(self, query, projected):
    return self.energy_proj((self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3)).sigmoid()).squeeze(-1)


@wrong("additive", "tanh missing", "every query gets the same scores")
@additive
def linear(self, query, projected):
    return self.energy_proj(self.query_proj(query)) + self.energy_proj(projected).mT


@wrong("additive", "tanh after v")
@additive
def energy_first(self, query, projected):
    return torch.tanh(self.energy_proj(self.query_proj(query)) + self.energy_proj(projected).mT)


@wrong("additive", "v missing: summed without weights")
@additive
def no_energy(self, query, projected):
    return torch.tanh(self.query_proj(query)[..., None, :] + projected[..., None, :, :]).sum(-1)


@wrong("additive", FITS)
@additive
def query_not_projected(self, query, projected):
    return self.energy_proj(torch.tanh(query.unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


@wrong("additive", FITS, "keys projected twice")
@additive
def projected_again(self, query, projected):
    x = self.query_proj(query).unsqueeze(-2) + self.key_proj(projected).unsqueeze(-3)
    return self.energy_proj(x.tanh()).squeeze(-1)


@wrong("additive", ONE_AXIS)
@additive
def every_axis_squeezed(self, query, projected):
    return self.energy_proj(torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))).squeeze()


@wrong("additive", ONE_AXIS, "last axis of length one left over")
@additive
def not_squeezed(self, query, projected):
    return self.energy_proj(torch.tanh(self.query_proj(query)[..., None, :] + projected[..., None, :, :]))


@wrong("additive", AXES, FITS)
@additive
def axes_from_the_front(self, query, projected):
    return self.energy_proj(torch.tanh(self.query_proj(query)[:, :, None] + projected[:, None])).squeeze(-1)


@wrong("additive")
@additive
def multiplied(self, query, projected):
    return self.energy_proj(torch.tanh(self.query_proj(query)[..., None, :] * projected[..., None, :, :])).squeeze(-1)


@wrong("additive", "every query gets the same scores")
@additive
def keys_alone(self, query, projected):
    scores = self.energy_proj(torch.tanh(projected)).mT
    return scores.expand(*scores.shape[:-2], query.size(-2), scores.size(-1))


@wrong("additive", "rows and columns exchanged", EXCHANGED)
@additive
def turned(self, query, projected):
    x = self.query_proj(query).unsqueeze(-3) + projected.unsqueeze(-2)
    return self.energy_proj(torch.tanh(x)).squeeze(-1)


@wrong("additive", CUT)
@additive
def energy_detached(self, query, projected):
    x = torch.tanh(self.query_proj(query).unsqueeze(-2) + projected.unsqueeze(-3))
    return (x * self.energy_proj.weight.detach()[0]).sum(-1)


@wrong("additive")
@additive
def first_query_kept(self, query, projected):
    if not hasattr(self, "seen"):
        self.seen = self.query_proj(query)
    return self.energy_proj(torch.tanh(self.seen.unsqueeze(-2) + projected.unsqueeze(-3))).squeeze(-1)


# --- gaussian ---------------------------------------------------------------------------------------------------------


class Gaussian(Score):
    def __init__(self, bandwidth):
        super().__init__()
        self.bandwidth = bandwidth


def gaussian(forward):
    return type(forward.__name__, (Gaussian,), {"forward": forward})


@right("gaussian")
@gaussian
def differences(self, query, projected):
    x = query.unsqueeze(-2) - projected.unsqueeze(-3)
    return -x.square().sum(-1) / (2 * self.bandwidth**2)


@right("gaussian")
@gaussian
def scaled_first(self, query, projected):
    x = (query / self.bandwidth)[..., None, :] - (projected / self.bandwidth)[..., None, :, :]
    return (x**2).sum(-1).mul(-0.5)


@right("gaussian")
@gaussian
def the_norm_squared(self, query, projected):
    distance = torch.linalg.vector_norm(query.unsqueeze(-2) - projected.unsqueeze(-3), dim=-1)
    return -0.5 * (distance / self.bandwidth) ** 2


@right("gaussian")
@gaussian
def multiplied_out(self, query, projected):
    squares = query.pow(2).sum(-1, keepdim=True) + projected.pow(2).sum(-1, keepdim=True).mT
    return (2 * query @ projected.mT - squares) / (2 * self.bandwidth**2)


@right("gaussian")
@gaussian
def with_cdist(self, query, projected):
    return -torch.cdist(query, projected).square() / (2 * self.bandwidth**2)  # torch has none for bfloat16


@right("gaussian")
@gaussian
def each_query(self, query, projected):
    rows = [(projected - query[..., t, None, :]).square().sum(-1) for t in range(query.size(-2))]
    return -torch.stack(rows, -2) / 2 / self.bandwidth**2


@right("gaussian")
@gaussian
def each_key(self, query, projected):
    columns = [-(query - key.unsqueeze(-2)).square().sum(-1) for key in projected.unbind(-2)]
    return torch.stack(columns, -1) / (2 * self.bandwidth * self.bandwidth)


@right("gaussian")
@gaussian
def each_direction(self, query, projected):
    total = 0
    for q, k in zip(query.unbind(-1), projected.unbind(-1)):
        total = total - (q.unsqueeze(-1) - k.unsqueeze(-2)) ** 2
    return total / (2 * self.bandwidth**2)


@right("gaussian")
@gaussian
def differences_with_einsum(self, query, projected):
    x = query.unsqueeze(-2) - projected.unsqueeze(-3)
    return torch.einsum("...d,...d->...", x, x) / (-2 * self.bandwidth**2)


@right("gaussian")
@gaussian
def log_of_the_kernel(self, query, projected):
    x = (query.unsqueeze(-2) - projected.unsqueeze(-3)) / self.bandwidth
    return torch.log(torch.exp(-x * x / 2)).sum(-1)


@right("gaussian")
class CostBesideTheKey(Gaussian):
    def project_keys(self, key):
        k = key / self.bandwidth
        return torch.cat([k, -k.square().sum(-1, keepdim=True) / 2], dim=-1)

    def forward(self, query, projected):
        q = query / self.bandwidth
        return q @ projected[..., :-1].mT + projected[..., -1:].mT - q.square().sum(-1, keepdim=True) / 2


@wrong("gaussian", "sign turned around", "the further, the more alike")
@gaussian
def no_minus(self, query, projected):
    return torch.cdist(query, projected).square() / (2 * self.bandwidth**2)


@wrong("gaussian", "distance not squared")
@gaussian
def root_left(self, query, projected):
    return -torch.cdist(query, projected) / (2 * self.bandwidth**2)


@wrong("gaussian", FACTOR)
@gaussian
def half_forgotten(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1) / self.bandwidth**2


@wrong("gaussian", FACTOR)
@gaussian
def times_the_bandwidth(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1) * self.bandwidth**2 / 2


@wrong("gaussian", FACTOR)
@gaussian
def precedence(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).square().sum(-1) / 2 * self.bandwidth**2


@wrong("gaussian")
@gaussian
def city_blocks(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).abs().sum(-1) / (2 * self.bandwidth**2)


@wrong("gaussian")
@gaussian
def square_of_the_sum(self, query, projected):
    return -(query.unsqueeze(-2) - projected.unsqueeze(-3)).sum(-1).square() / (2 * self.bandwidth**2)


@wrong("gaussian", FITS)
@gaussian
def without_axes(self, query, projected):
    return -((query - projected) ** 2).sum(-1) / (2 * self.bandwidth**2)


@wrong("gaussian", "the kernel, where its exponent is meant")
@gaussian
def exponential_taken(self, query, projected):
    return torch.exp(-((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).sum(-1) / (2 * self.bandwidth**2))


@wrong("gaussian", "weights, where scores are meant")
@gaussian
def normalised(self, query, projected):
    return (-((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).sum(-1) / (2 * self.bandwidth**2)).softmax(-1)


@wrong("gaussian", "rows and columns exchanged", EXCHANGED)
@gaussian
def keys_down(self, query, projected):
    return -((query.unsqueeze(-3) - projected.unsqueeze(-2)) ** 2).sum(-1) / (2 * self.bandwidth**2)


@wrong("gaussian", "mean over the width, where the sum is meant", FACTOR)
@gaussian
def mean_squared(self, query, projected):
    return -((query.unsqueeze(-2) - projected.unsqueeze(-3)) ** 2).mean(-1) / 2 / self.bandwidth**2


@wrong("gaussian", AXES, FITS)
@gaussian
def in_three_axes(self, query, projected):
    return -((query[:, :, None] - projected[:, None]) ** 2).sum(-1) / (2 * self.bandwidth**2)


# --- attend -----------------------------------------------------------------------------------------------------------


def attends(make_context):
    def attend(scores, value, mask=None, dropout=None):
        weights = masked_softmax(scores, mask)
        return make_context(weights if dropout is None else dropout(weights), value), weights

    attend.__name__ = make_context.__name__
    return attend


@right("attend")
@attends
def product_of_matrices(weights, value):
    return weights @ value


@right("attend")
@attends
def contracted(weights, value):
    return torch.einsum("...ts,...sv->...tv", weights, value)


@right("attend")
@attends
def shares_added_up(weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(-3)).sum(-2)


@right("attend")
@attends
def one_query_at_a_time(weights, value):
    return torch.stack([(row.unsqueeze(-1) * value).sum(-2) for row in weights.unbind(-2)], dim=-2)


@right("attend")
@attends
def one_value_at_a_time(weights, value):
    context = 0
    for s in range(value.size(-2)):
        context = context + weights[..., s : s + 1] * value[..., s : s + 1, :]
    return context


@right("attend")
@attends
def turned_and_back(weights, value):
    return (value.mT @ weights.mT).mT


@right("attend")
@attends
def in_batches(weights, value):
    return torch.bmm(weights.flatten(0, -3), value.flatten(0, -3)).view(*weights.shape[:-1], value.size(-1))


@right("attend")
@attends
def one_direction_at_a_time(weights, value):
    return torch.stack([(weights * v.unsqueeze(-2)).sum(-1) for v in value.unbind(-1)], dim=-1)


@right("attend")
@attends
def one_sentence_at_a_time(weights, value):
    return torch.stack([w @ v for w, v in zip(weights, value)])


@right("attend")
@attends
def one_product_per_query(weights, value):
    return torch.cat([w @ value for w in weights.split(1, dim=-2)], dim=-2)


@right("attend")
def identity_for_no_dropout(scores, value, mask=None, dropout=None):
    warnings.warn("mind the order", stacklevel=1)
    weights = masked_softmax(scores, mask=mask)
    drop = dropout or nn.Identity()
    return [torch.matmul(drop(weights).clone(), value), weights]


@wrong("attend", "the outputs in another order", "weights first, context second")
def weights_first(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = weights if dropout is None else dropout(weights)
    return weights, kept @ value


@wrong("attend", "too much or too little is returned")
def context_alone(scores, value, mask=None, dropout=None):
    return masked_softmax(scores, mask) @ value


@wrong("attend", WEIGHT, "mask not passed on")
def mask_forgotten(scores, value, mask=None, dropout=None):
    weights = torch.softmax(scores, dim=-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("attend", NONE)
def dropout_always(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return dropout(weights) @ value, weights


@wrong("attend", "weights returned after dropout")
def thinned_weights(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights


@wrong("attend", "dropout not applied")
def dropout_ignored(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return torch.einsum("...ts,...sv->...tv", weights, value), weights


@wrong("attend", FITS)
def value_turned(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return weights @ value.mT, weights


@wrong("attend", "the context is no weighted sum of the values", FACTOR)
def averaged(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return (weights if dropout is None else dropout(weights)) @ value / value.size(-2), weights


@wrong("attend", "scores, where weights are meant", "the context is no weighted sum of the values")
def scores_times_values(scores, value, mask=None, dropout=None):
    return torch.einsum("...ts,...sv->...tv", scores, value), masked_softmax(scores, mask)


@wrong("attend", "the weights returned are not those that made the context", "scores returned, where weights are meant")
def scores_returned(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    return (dropout(weights) if dropout else weights) @ value, scores


@wrong("attend", CUT)
def weights_cut_off(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask).detach()
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "mask inverted", WEIGHT)
def mask_turned_around(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, None if mask is None else ~mask)
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "the context is no weighted sum of the values", "dropout not applied")
def dropout_on_the_context(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    context = weights @ value
    return (context if dropout is None else F.dropout(context, 0.5)), weights


@wrong("attend")
def softmax_twice(scores, value, mask=None, dropout=None):
    weights = masked_softmax(masked_softmax(scores, mask), mask)
    return (dropout(weights) if dropout else weights) @ value, weights


@wrong("attend", "dropout not applied", "the context is no weighted sum of the values")
def scores_dropped(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    thinned = weights if dropout is None else masked_softmax(dropout(scores), mask)
    return thinned @ value, weights


@wrong("attend", "the context is no weighted sum of the values")
def weights_by_name(scores, value, mask=None, dropout=None):
    weights = masked_softmax(scores, mask)
    kept = dropout(weights) if dropout else weights
    return kept @ value.flip(-2), weights


@wrong("attend", NAN)
def softmax_of_its_own(scores, value, mask=None, dropout=None):
    weights = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights


@wrong("attend", WEIGHT)
def softmax_of_low_scores(scores, value, mask=None, dropout=None):
    weights = (scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)).softmax(-1)
    return (weights if dropout is None else dropout(weights)) @ value, weights
