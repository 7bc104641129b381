"""Answers to local_p."""

import torch
import torch.nn.functional as F
from answers.core import draw, right, wide, with_part, wrong
from answers.lab04_alignment.shared import sizes
from answers.signs import CUT, DEVICE, FITS, WEIGHT
from torch import nn

from attention_course.attention import attend, masked_softmax
from nbjudge.question import Request


@wide("local_p")
def any_window(g):
    for b, s, t, _, d, e, a in sizes(g):
        for half_width in (1, 2, 6):
            lengths = torch.randint(1, 4 * s + 1, (b, 1, 1), generator=g)
            mask = torch.arange(4 * s) < lengths
            weights = {
                "hidden_proj.weight": draw(g, a, d),
                "position_proj.weight": draw(g, 1, a),
            }
            inputs = (
                draw(g, b, t, 4 * s),
                draw(g, b, t, d),
                draw(g, b, 4 * s, e),
                mask,
            )
            yield Request(inputs, (d, a, half_width), weights, gradients=True)


class Window(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        centre = self.centre(query, memory)
        distance = self.distance(centre, scores)
        weights = self.weigh(
            scores, memory.mask & (distance <= self.half_width)
        ) * self.gauss(distance)
        return self.mix(weights, memory.value), weights

    def centre(self, query, memory):
        share = torch.sigmoid(
            self.position_proj(torch.tanh(self.hidden_proj(query)))
        ).squeeze(-1)
        return memory.mask.sum(dim=-1) * share

    def distance(self, centre, scores):
        return (
            torch.arange(scores.size(-1), device=scores.device) - centre[..., None]
        ).abs()

    def weigh(self, scores, mask):
        return masked_softmax(scores, mask)

    def gauss(self, distance):
        return torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))

    def mix(self, weights, value):
        return weights @ value


def centre_by_functions(self, query, memory):
    hidden = F.linear(query, self.hidden_proj.weight).tanh()
    return (
        memory.mask.to(query.dtype).sum(-1, keepdim=True)
        * F.linear(hidden, self.position_proj.weight).sigmoid()
    )[..., 0]


def centre_with_exp(self, query, memory):
    x = self.position_proj(torch.tanh(self.hidden_proj(query)))[..., 0]
    return memory.mask.sum(-1) / (1 + torch.exp(-x))


def centre_by_tanh(self, query, memory):
    x = self.position_proj(torch.tanh(self.hidden_proj(query))).flatten(1)
    return memory.mask.sum(-1) * (1 + torch.tanh(x / 2)) / 2


def distance_by_difference(self, centre, scores):
    positions = torch.ones_like(scores).cumsum(-1) - 1
    return torch.abs(centre.unsqueeze(-1) - positions)


def distance_with_max(self, centre, scores):
    positions = torch.arange(scores.size(-1), device=scores.device, dtype=scores.dtype)
    return torch.maximum(
        centre.unsqueeze(-1) - positions, positions - centre.unsqueeze(-1)
    )


def weigh_by_hand(self, scores, mask):
    e = torch.where(mask, scores, -1e30)
    e = (e - e.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


def weigh_with_a_fill(self, scores, mask):
    return scores.masked_fill(mask.logical_not(), -1e30).softmax(-1) * mask


def gauss_doubled(self, distance):
    return torch.exp(-2 * (distance / self.half_width).square())


def gauss_as_a_power(self, distance):
    return torch.pow(torch.e, distance.mul(distance).div(self.half_width**2 / 2).neg())


def mix_with_einsum(self, weights, value):
    return torch.einsum("bts,bse->bte", weights, value)


def mix_by_shares(self, weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(1)).sum(dim=-2)


WINDOW = {
    "centre": (centre_by_functions, centre_with_exp, centre_by_tanh),
    "distance": (distance_by_difference, distance_with_max),
    "weigh": (weigh_by_hand, weigh_with_a_fill),
    "gauss": (gauss_doubled, gauss_as_a_power),
    "mix": (mix_with_einsum, mix_by_shares),
}
right("local_p")(Window)
for part, others in WINDOW.items():
    for other in others:
        right("local_p")(type(other.__name__, (Window,), {part: other}))


def window(**parts):
    return type(next(iter(parts.values())).__name__, (Window,), parts)


@wrong("local_p", "padding counted in the sentence's length")
@with_part(Window, "forward")
def padded_length(self, scores, query, position, memory):
    share = torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))
    distance = (
        torch.arange(scores.size(-1), device=scores.device) - scores.size(-1) * share
    ).abs()
    weights = self.weigh(
        scores, memory.mask & (distance <= self.half_width)
    ) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", WEIGHT)
@with_part(Window, "forward")
def padding_in_the_window(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, distance <= self.half_width) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", "the Gaussian is as wide as the window")
@with_part(Window, "gauss")
def wide_gauss(self, distance):
    return torch.exp(-distance.square() / (2 * self.half_width**2))


@wrong("local_p", "another Gaussian")
@with_part(Window, "gauss")
def narrow_gauss(self, distance):
    return torch.exp(-distance.square() / (self.half_width / 2) ** 2)


@wrong("local_p", "no Gaussian")
@with_part(Window, "gauss")
def flat(self, distance):
    return torch.ones_like(distance)


@wrong("local_p", "no window")
@with_part(Window, "forward")
def everywhere(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(scores, memory.mask) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", "the weights are normalised again")
@with_part(Window, "forward")
def normalised_again(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(
        scores, memory.mask & (distance <= self.half_width)
    ) * self.gauss(distance)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)
    return weights @ memory.value, weights


@wrong("local_p", CUT)
@with_part(Window, "centre")
def rounded(self, query, memory):
    share = torch.sigmoid(
        self.position_proj(torch.tanh(self.hidden_proj(query)))
    ).squeeze(-1)
    return (memory.mask.sum(dim=-1) * share).detach()


@wrong("local_p", "the position is not scaled to the sentence")
@with_part(Window, "centre")
def share_as_position(self, query, memory):
    return torch.sigmoid(self.position_proj(torch.tanh(self.hidden_proj(query))))[
        ..., 0
    ]


@wrong("local_p", "the context is no weighted sum of the values")
@with_part(Window, "forward")
def context_before_the_gaussian(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    context, weights = attend(
        scores, memory.value, memory.mask & (distance <= self.half_width)
    )
    return context, weights * self.gauss(distance)


@wrong("local_p", "no window")
@with_part(Window, "forward")
def mask_before_nothing(self, scores, query, position, memory):
    distance = self.distance(self.centre(query, memory), scores)
    weights = masked_softmax(
        scores, memory.mask | (distance <= self.half_width)
    ) * self.gauss(distance)
    return weights @ memory.value, weights


@wrong("local_p", FITS)
@with_part(Window, "centre")
def axis_left(self, query, memory):
    return memory.mask.sum(dim=-1) * torch.sigmoid(
        self.position_proj(torch.tanh(self.hidden_proj(query)))
    )


@wrong("local_p", FITS)
@with_part(Window, "centre")
def every_axis_gone(self, query, memory):
    share = torch.sigmoid(
        self.position_proj(torch.tanh(self.hidden_proj(query)))
    ).squeeze()
    return memory.mask.sum(dim=-1) * share


@wrong("local_p", DEVICE)
@with_part(Window, "distance")
def positions_on_the_cpu(self, centre, scores):
    return (torch.arange(scores.size(-1)) - centre[..., None]).abs()


@wrong("local_p", "another window")
@with_part(Window, "centre")
def no_sigmoid(self, query, memory):
    return memory.mask.sum(dim=-1) * self.position_proj(
        torch.tanh(self.hidden_proj(query))
    ).squeeze(-1)
