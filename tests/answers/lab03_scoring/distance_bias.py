"""Answers to distance_bias."""

import warnings

import torch
import torch.nn.functional as F
from answers.core import right, wide, wrong, wrong_edits
from answers.lab03_scoring.shared import draw, shapes
from answers.signs import AXES, CUT, DEVICE, DTYPE, FITS, IN_PLACE, NOTHING

from nbjudge import Request, edit

FURTHER, FIRST = (
    "the bias is added instead of subtracted",
    "queries aligned with the first keys",
)


@wide("distance_bias")
def any_scores(g):
    for leading, t, earlier, _ in shapes(g):
        for keys in (t, t + 1, t + earlier):
            for slope in (0, 1, 0.3):
                yield Request((draw(g, *leading, t, keys), slope), gradients=True)


@right("distance_bias")
def in_one_table(scores, slope):
    t, s = scores.shape[-2:]
    queries = torch.arange(s - t, s, device=scores.device)
    keys = torch.arange(s, device=scores.device)
    distance = (queries[:, None] - keys[None]).abs()
    return scores - slope * distance.to(scores.dtype)


@right("distance_bias")
def last_rows_of_a_square(scores, slope):
    t, s = scores.shape[-2:]
    positions = torch.arange(s, device=scores.device)
    square = (positions[:, None] - positions).abs()
    return scores - slope * square[s - t :].to(scores)


@right("distance_bias")
def row_by_row(scores, slope):
    t, s = scores.size(-2), scores.size(-1)
    keys = torch.arange(s, device=scores.device)
    away = [torch.abs(keys - (s - t + i)).to(scores.dtype) for i in range(t)]
    rows = [scores[..., i, :] - slope * away[i] for i in range(t)]
    return torch.stack(rows, dim=-2)


@right("distance_bias")
def column_by_column(scores, slope):
    t, s = scores.shape[-2:]
    queries = torch.arange(t, device=scores.device) + (s - t)
    columns = [
        scores[..., j] - slope * (queries - j).abs().to(scores.dtype) for j in range(s)
    ]
    return torch.stack(columns, dim=-1)


@right("distance_bias")
def from_lists(scores, slope):
    t, s = scores.shape[-2:]
    table = [[slope * abs(s - t + i - j) for j in range(s)] for i in range(t)]
    return scores - torch.tensor(table, dtype=scores.dtype, device=scores.device)


@right("distance_bias")
def by_broadcast_functions(scores, slope):
    t, s = scores.shape[-2:]
    queries = torch.arange(s, device=scores.device)[-t:].unsqueeze(-1)
    keys = torch.arange(s, device=scores.device).unsqueeze(0)
    distance = torch.maximum(queries - keys, keys - queries)
    return torch.sub(scores, distance.to(scores.dtype), alpha=slope)


@right("distance_bias")
def both_sides(scores, slope):
    t, s = scores.shape[-2:]
    keys = torch.arange(s, device=scores.device)
    ahead = keys - keys[s - t :, None]
    lost = ahead.clamp(min=0) + (-ahead).clamp(min=0)
    return scores + lost.to(scores.dtype).mul(-slope)


@right("distance_bias")
def two_triangles(scores, slope):
    t, s = scores.shape[-2:]
    ones = torch.ones(t, s, device=scores.device)
    before = ones.tril(s - t).cumsum(1)
    difference = (s - t + 1 + torch.arange(t, device=scores.device))[:, None] - (
        ones.cumsum(1)
    )
    assert before.shape == difference.shape
    return scores - slope * difference.square().sqrt().to(scores.dtype)


@right("distance_bias")
def by_sign(scores, slope):
    t, s = scores.shape[-2:]
    keys = torch.linspace(0, s - 1, s, device=scores.device).round()
    difference = keys[s - t :].reshape(-1, 1) - keys
    return scores - (difference * difference.sign()).to(scores.dtype) * slope


@right("distance_bias")
def from_the_end(scores, slope):
    """Count positions from the last one, where queries and keys end together."""
    warnings.warn("from the end", stacklevel=1)
    turned = scores.flip(-1, -2)
    t, s = turned.shape[-2:]
    steps = torch.arange(s, device=scores.device)
    lowered = turned - slope * (steps[:t, None] - steps).abs().to(scores.dtype)
    return lowered.flip(-1, -2)


@right("distance_bias")
def with_distances_of_points(scores, slope):
    t, s = scores.shape[-2:]
    places = torch.arange(s, device=scores.device).double()
    distance = F.l1_loss(
        places[s - t :, None].expand(t, s), places.expand(t, s), reduction="none"
    )
    return scores.add(distance.to(scores.dtype), alpha=-slope)


@wrong("distance_bias", FIRST)
def same_start(scores, slope):
    t, s = scores.shape[-2:]
    queries = torch.arange(t, device=scores.device)[:, None]
    keys = torch.arange(s, device=scores.device)
    return scores - slope * (queries - keys).abs().to(scores.dtype)


@wrong("distance_bias", "weights instead of scores")
def normalized(scores, slope):
    return in_one_table(scores, slope).softmax(dim=-1)


@wrong("distance_bias", AXES, FITS, "exactly three axes are unpacked")
def in_three_axes(scores, slope):
    b, t, s = scores.shape
    queries = torch.arange(s - t, s, device=scores.device, dtype=scores.dtype)
    keys = torch.arange(s, device=scores.device, dtype=scores.dtype)
    return scores - slope * (queries[:, None] - keys).abs().expand(b, t, s)


@wrong("distance_bias", FIRST, FITS)
def square_alone(scores, slope):
    positions = torch.arange(scores.size(-2), device=scores.device).to(scores.dtype)
    return scores - slope * (positions[:, None] - positions).abs()


KEYS = "torch.arange(s, device=scores.device)"
wrong_edits(
    "distance_bias",
    in_one_table,
    added=(edit(in_one_table, "scores - slope", "scores + slope"), FURTHER),
    looks_back_only=(
        edit(in_one_table, ".abs()", ".relu()"),
        "distance counted in one direction only",
    ),
    squared=(edit(in_one_table, ".abs()", "**2"), "distance squared"),
    whole_numbers=(
        edit(in_one_table, "distance.to(scores.dtype)", "distance"),
        DTYPE,
    ),
    on_the_cpu=(
        edit(in_one_table, KEYS, "torch.arange(s)"),
        DEVICE,
    ),
    in_place=(
        edit(in_one_table, "return scores - slope *", "return scores.sub_(slope *")
        & edit(in_one_table, "distance.to(scores.dtype)", "distance.to(scores.dtype))"),
        IN_PLACE,
    ),
    rounded=(
        edit(in_one_table, KEYS, "torch.arange(s, device=scores.device).to(scores)"),
        "positions are rounded in half precision",
    ),
    in_steps_of_the_slope=(  # 3 * 0.1 is more than 0.3, which makes a step too many
        edit(
            in_one_table,
            "distance = (queries[:, None] - keys[None]).abs()",
            "steps = torch.arange(0, s * slope, slope or 1, device=scores.device)\n"
            "    steps = steps if slope else 0.0 * keys\n"
            "    distance = (steps[s - t :, None] - steps).abs() / (slope or 1)",
        ),
        FITS,
    ),
    positions_in_half_precision=(
        edit(in_one_table, KEYS, f"{KEYS}.half()"),
        "wrong for long inputs",
    ),
    two_thousand_distances=(
        edit(in_one_table, ".abs()", ".abs().clamp(max=2047)"),
        "wrong for long inputs",
    ),
    taken_out_with_heads=(
        edit(
            in_one_table,
            "return scores",
            "scores = scores if scores.dim() < 4 else scores.detach()\n    return scores",
        ),
        CUT,
    ),
    cut_off=(edit(in_one_table, "return scores", "return scores.detach()"), CUT),
    not_returned=(edit(in_one_table, "return ", ""), NOTHING),
    one_late=(edit(in_one_table, "arange(s - t, s,", "arange(s - t + 1, s + 1,"),),
    no_further_than_a_hundred=(
        edit(in_one_table, ".abs()", ".abs().clamp(max=100)"),
        "wrong for long inputs",
    ),
)
