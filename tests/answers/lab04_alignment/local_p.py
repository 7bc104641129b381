"""Answers to local_p."""

import torch
import torch.nn.functional as F  # noqa: F401 (an edit names it)
from answers.core import draw, right, right_edits, wide, wrong_edits
from answers.lab04_alignment.shared import draw_for, exponentials, sizes  # noqa: F401
from answers.signs import CUT, DEVICE, FITS, NAN, WEIGHT
from torch import nn

from attention_course.attention import masked_softmax
from nbjudge import edit
from nbjudge.question import Request


class Window(nn.Module):
    def __init__(self, query_dim, hidden_dim, half_width):
        super().__init__()
        self.half_width = half_width
        self.hidden_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.position_proj = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, scores, query, position, memory):
        x = self.position_proj(torch.tanh(self.hidden_proj(query))).squeeze(-1)
        centre = memory.mask.sum(dim=-1) * torch.sigmoid(x)
        positions = torch.arange(scores.size(-1), device=scores.device)
        distance = (positions - centre[..., None]).abs()
        near = memory.mask & (distance <= self.half_width)
        gauss = torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))
        weights = masked_softmax(scores, near) * gauss
        return weights @ memory.value, weights


@wide("local_p")
def any_window(g):
    for b, s, t, _, d, e, a in sizes(g):
        for half_width in (1, 2, 6):
            lengths = torch.randint(1, 4 * s + 1, (b, 1, 1), generator=g)
            inputs = (
                *(draw(g, b, t, 4 * s), draw(g, b, t, d), draw(g, b, 4 * s, e)),
                torch.arange(4 * s) < lengths,
            )
            init = (d, a, half_width)
            yield Request(inputs, init, draw_for(g, Window(*init)), gradients=True)


def softmax_by_hand(scores, mask):
    e = torch.where(mask, scores, -1e30)
    e = (e - e.amax(-1, keepdim=True)).exp() * mask
    return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


FORWARD = Window.forward
HIDDEN = "self.position_proj(torch.tanh(self.hidden_proj(query)))"
LENGTH, SHARE = "memory.mask.sum(dim=-1)", "torch.sigmoid(x)"
DISTANCE = "(positions - centre[..., None]).abs()"
SOFTMAX, CONTEXT = "masked_softmax(scores, near)", "weights @ memory.value"
NEAR = "memory.mask & (distance <= self.half_width)"
GAUSS = "torch.exp(-(distance**2) / (2 * (self.half_width / 2) ** 2))"

right("local_p")(Window)
right_edits(
    "local_p",
    Window,
    centre_by_functions=edit(
        FORWARD,
        HIDDEN,
        "F.linear(F.linear(query, self.hidden_proj.weight).tanh(),"
        " self.position_proj.weight)",
    )
    & edit(FORWARD, LENGTH, "memory.mask.to(query.dtype).sum(-1)"),
    centre_with_exp=edit(FORWARD, f"* {SHARE}", "/ (1 + torch.exp(-x))"),
    centre_by_tanh=edit(FORWARD, SHARE, "(1 + torch.tanh(x / 2)) / 2"),
    distance_by_difference=edit(
        FORWARD,
        "torch.arange(scores.size(-1), device=scores.device)",
        "torch.ones_like(scores).cumsum(-1) - 1",
    ),
    distance_with_max=edit(
        FORWARD,
        DISTANCE,
        "torch.maximum(centre[..., None] - positions, positions - centre[..., None])",
    ),
    weigh_by_hand=edit(FORWARD, SOFTMAX, "softmax_by_hand(scores, near)"),
    weigh_with_a_fill=edit(
        FORWARD,
        SOFTMAX,
        "scores.masked_fill(near.logical_not(), -1e30).softmax(-1) * near",
    ),
    gauss_doubled=edit(
        FORWARD, GAUSS, "torch.exp(-2 * (distance / self.half_width).square())"
    ),
    gauss_as_a_power=edit(
        FORWARD,
        GAUSS,
        "torch.pow(torch.e, distance.mul(distance).div(self.half_width**2 / 2).neg())",
    ),
    mix_with_einsum=edit(
        FORWARD, CONTEXT, "torch.einsum('bts,bse->bte', weights, memory.value)"
    ),
    mix_by_shares=edit(
        FORWARD, CONTEXT, "(weights.unsqueeze(-1) * memory.value.unsqueeze(1)).sum(-2)"
    ),
)
wrong_edits(
    "local_p",
    Window,
    padded_length=(
        edit(FORWARD, LENGTH, "scores.size(-1)"),
        "the sentence length includes padding",
    ),
    padding_in_the_window=(edit(FORWARD, "memory.mask & ", ""), WEIGHT),
    wide_gauss=(
        edit(FORWARD, "self.half_width / 2", "self.half_width"),
        "standard deviation w instead of w / 2",
    ),
    narrow_gauss=(edit(FORWARD, "(2 * (self", "(1 * (self"), "the wrong Gaussian"),
    flat=(edit(FORWARD, GAUSS, "torch.ones_like(distance)"), "the Gaussian is missing"),
    filled_too_high=(
        edit(FORWARD, SOFTMAX, "scores.masked_fill(~near, -1e9).softmax(-1)"),
        WEIGHT,
    ),
    forbidden_scores_overflow=(
        edit(FORWARD, SOFTMAX, "exponentials(scores, near)"),
        NAN,
    ),
    root_of_the_square=(
        edit(FORWARD, DISTANCE, "((positions - centre[..., None]) ** 2).sqrt()"),
        NAN,
    ),
    no_further_than_the_last_place=(
        edit(
            FORWARD,
            f"* {SHARE}",
            f"* {SHARE}\n    centre = centre.clamp(max=scores.size(-1) - 1)",
        ),
        "the wrong window",
        "the wrong Gaussian",
    ),
    no_window_wider_than_nine=(
        edit(FORWARD, "<= self.half_width)", "<= min(self.half_width, 4))"),
        "wrong for long inputs",
        "the wrong window",
    ),
    everywhere=(edit(FORWARD, NEAR, "memory.mask"), "the window is missing"),
    normalized_again=(
        edit(FORWARD, f"{SOFTMAX} * gauss", f"F.normalize({SOFTMAX} * gauss, 1, -1)"),
        "the weights are renormalized after the Gaussian",
    ),
    rounded=(edit(FORWARD, SHARE, f"{SHARE}.detach()"), CUT),
    share_as_position=(
        edit(FORWARD, f"{LENGTH} * ", ""),
        "the position is not multiplied by the length",
    ),
    context_before_the_gaussian=(
        edit(FORWARD, CONTEXT, f"{SOFTMAX} @ memory.value"),
        "the weights are right, the context is wrong",
        "the context is computed without the Gaussian",
    ),
    mask_before_nothing=(edit(FORWARD, "mask & ", "mask | "), "the window is missing"),
    axis_left=(edit(FORWARD, ".squeeze(-1)", ""), FITS),
    every_axis_gone=(edit(FORWARD, ".squeeze(-1)", ".squeeze()"), FITS),
    positions_on_the_cpu=(edit(FORWARD, ", device=scores.device", ""), DEVICE),
    no_sigmoid=(edit(FORWARD, SHARE, "x"), "the wrong window"),
    counted_from_the_end=(
        edit(FORWARD, SHARE, f"(1 - {SHARE})"),
        "the wrong window",
    ),
    a_share_of_the_longest=(
        edit(FORWARD, LENGTH, f"{LENGTH}.amax()"),
        "the wrong window",
    ),
)
