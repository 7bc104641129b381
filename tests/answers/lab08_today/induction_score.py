"""Answers to induction_score."""

import torch
from answers.core import draw, right, right_edits, wide, wrong, wrong_edits
from answers.signs import DEVICE, DTYPE, FACTOR, IN_PLACE

from nbjudge import Request, edit


@wide("induction_score")
def any_tokens(g):
    for b, t, h, v in (
        (1, 1, 1, 1),
        (1, 2, 1, 1),
        (2, 5, 3, 2),
        (3, 9, 2, 4),
        (4, 6, 1, 50),
    ):
        for _ in range(4):
            tokens = torch.randint(v, (b, t), generator=g)
            yield Request((tokens, draw(g, b, h, t, t).softmax(-1)))


def latest(tokens):
    """Return s for each position, or -1."""
    t = torch.arange(tokens.size(1), device=tokens.device)
    same = (tokens[:, :, None] == tokens[:, None, :]) & (t < t[:, None])
    return torch.where(same, t, -1).amax(dim=-1)


def gathered(tokens, weights):
    s = latest(tokens)
    counts = s >= 0
    index = (s + 1)[:, None, :, None].repeat(1, weights.size(1), 1, 1)
    looked = weights.gather(3, index).squeeze(3)
    total = looked.masked_fill(~counts[:, None], 0).sum(dim=(0, 2))
    return total / counts.sum().clamp(min=1)


right("induction_score")(gathered)


@right("induction_score")
def picked_where_it_counts(tokens, weights):
    s = latest(tokens)
    b, t = (s >= 0).nonzero(as_tuple=True)
    looked = weights[b, :, t, s[b, t] + 1]  # (N, H)
    return looked.sum(dim=0) / max(len(b), 1)


@right("induction_score")
def mean_if_there_is_one(tokens, weights):
    s = latest(tokens)
    counts = s.ge(0)
    looked = weights.permute(0, 2, 3, 1)[counts]  # (N, T, H)
    if not len(looked):
        return weights.new_zeros(weights.size(1))
    after = s[counts] + 1
    return looked[torch.arange(len(after), device=after.device), after].mean(dim=0)


@right("induction_score")
def in_three_loops(tokens, weights):
    total, count = weights.new_zeros(weights.size(1)), 0
    for b, row in enumerate(tokens.tolist()):
        seen = {}
        for t, token in enumerate(row):
            if token in seen:
                total = total + weights[b, :, t, seen[token] + 1]
                count += 1
            seen[token] = t
    return total / max(count, 1)


@right("induction_score")
def backwards_through_the_row(tokens, weights):
    looked = []
    for b in range(tokens.size(0)):
        for t in range(tokens.size(1)):
            for s in reversed(range(t)):
                if tokens[b, s] == tokens[b, t]:
                    looked.append(weights[b, :, t, s + 1])
                    break
    return torch.stack(looked).mean(0) if looked else weights[0, :, 0, 0] * 0


@right("induction_score")
def a_mask_of_one_per_row(tokens, weights):
    same = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).tril(-1)
    later = same.long().flip(-1).cumsum(-1).flip(-1)
    last = same & (later == 1)  # (B, T, T)
    after = torch.zeros_like(last)
    after[..., 1:] = last[..., :-1]
    total = torch.einsum("bhts,bts->h", weights, after.to(weights.dtype))
    return total / after.sum().clamp(min=1)


@right("induction_score")
def by_the_diagonals(tokens, weights):
    """Go back one step after the other; the first that fits is the latest."""
    size = tokens.size(1)
    open_ = torch.ones_like(tokens, dtype=torch.bool)
    total, count = weights.sum(dim=(0, 2, 3)) * 0, 0
    for back in range(1, size):
        fits = (tokens[:, back:] == tokens[:, :-back]) & open_[:, back:]
        looked = weights.diagonal(1 - back, dim1=2, dim2=3)[..., -(size - back) :]
        total = total + (looked * fits[:, None]).sum(dim=(0, 2))
        count = count + fits.sum()
        open_ = torch.cat([open_[:, :back], open_[:, back:] & ~fits], dim=1)
    return total / torch.as_tensor(count, device=weights.device).clamp(min=1)


@right("induction_score")
def with_one_hot(tokens, weights):
    s = latest(tokens)
    after = torch.nn.functional.one_hot(s + 1, tokens.size(1))
    after = after * (s >= 0)[..., None]
    looked = (weights * after.unsqueeze(1)).flatten(2).sum(-1).sum(0)
    return looked / after.sum().clamp(min=1)


@right("induction_score")
def turned_upside_down(tokens, weights):
    """The first True of a row whose keys are in reverse order."""
    size = tokens.size(1)
    same = (tokens[:, :, None] == tokens[:, None]).tril(-1).flip(-1)
    counts = same.any(-1)
    s = size - 1 - same.int().argmax(-1)
    index = torch.where(counts, s + 1, 0)
    looked = torch.take_along_dim(weights, index[:, None, :, None], dim=-1)[..., 0]
    return (looked * counts[:, None]).sum((0, 2)) / counts.sum().clamp(min=1)


right_edits(
    "induction_score",
    gathered,
    cast_and_divided=edit(
        gathered,
        "total / counts.sum().clamp(min=1)",
        "total * (1 / counts.double().sum().clamp(min=1)).to(total.dtype)",
    ),
    nan_to_num=edit(
        gathered,
        "total / counts.sum().clamp(min=1)",
        "torch.nan_to_num(total / counts.sum())",
    ),
)

ITSELF = "a position counts as its own earlier occurrence"


@wrong("induction_score", "the earliest occurrence instead of the latest")
def first_index_of_the_row(tokens, weights):
    looked = []
    for b, row in enumerate(tokens.tolist()):
        for t, token in enumerate(row):
            if token in row[:t]:
                looked.append(weights[b, :, t, row.index(token) + 1])
    return torch.stack(looked).mean(0) if looked else weights.new_zeros(weights.size(1))


@wrong("induction_score")
def only_pairs_that_came_before(tokens, weights):
    """Count a position only if what follows it followed before, too."""
    s = latest(tokens)
    counts = s[:, :-1] >= 0
    goes_on = tokens.gather(1, (s[:, :-1] + 1).clamp(min=0)) == tokens[:, 1:]
    counts = counts & goes_on
    index = (s[:, :-1] + 1)[:, None, :, None].expand(-1, weights.size(1), -1, -1)
    looked = weights[:, :, :-1].gather(3, index)[..., 0] * counts[:, None]
    return looked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


@wrong("induction_score")
def rows_as_one_long_row(tokens, weights):
    s = latest(tokens.reshape(1, -1))[0].view_as(tokens)
    s = s - torch.arange(len(tokens), device=s.device)[:, None] * tokens.size(1)
    counts = s >= -tokens.size(1)
    index = (s + 1).clamp(min=0)[:, None, :, None].repeat(1, weights.size(1), 1, 1)
    looked = weights.gather(3, index)[..., 0] * counts[:, None]
    return looked.sum(dim=(0, 2)) / counts.sum().clamp(min=1)


wrong_edits(
    "induction_score",
    gathered,
    counted_one_by_one_in_the_dtype=(
        edit(
            gathered,
            "counts.sum()",
            "sum(weights.new_ones(int(counts.sum())), weights.new_zeros(()))",
        ),
        "positions or counts in the dtype of the weights",
    ),
    no_further_back_than_128=(
        edit(latest, "(t < t[:, None])", "(t < t[:, None]) & (t > t[:, None] - 128)"),
        "only the nearest of the earlier positions are searched",
    ),
    ids_in_16_bits=(
        edit(
            latest,
            "tokens[:, :, None] == tokens",
            "tokens.short()[:, :, None] == tokens.short()",
        ),
    ),
    at_the_same_token=(
        edit(gathered, "(s + 1)", "s.clamp(min=0)"),
        "weight on the same token, not the next one",
    ),
    two_after_it=(edit(gathered, "(s + 1)", "(s + 2).clamp(max=s.size(1) - 1)"),),
    itself_allowed=(
        edit(latest, "t < t[:, None]", "t <= t[:, None]")
        & edit(gathered, "(s + 1)", "(s + 1).clamp(max=s.size(1) - 1)"),
        ITSELF,
    ),
    all_positions_in_the_mean=(
        edit(gathered, "counts.sum().clamp(min=1)", "tokens.numel()"),
        "the denominator counts all positions",
    ),
    all_positions_but_the_first=(
        edit(gathered, "counts.sum().clamp(min=1)", "tokens[:, 1:].numel()"),
        FACTOR,
    ),
    row_by_row=(
        edit(
            gathered,
            "return total / counts.sum().clamp(min=1)",
            "return torch.stack([gathered(*x) for x in zip(tokens.split(1),"
            " weights.split(1))]).mean(0) if len(tokens) > 1 else"
            " total / counts.sum().clamp(min=1)",
        ),
        "mean of the per-row means",
    ),
    head_after_head_joined=(
        edit(gathered, "sum(dim=(0, 2))", "sum(dim=(0, 1, 2))"),
        "a single score for all heads",
    ),
    keys_before_queries=(
        edit(gathered, "weights.gather(3", "weights.transpose(2, 3).gather(3"),
        "queries and keys swapped",
    ),
    no_number_without_one=(
        edit(gathered, ".clamp(min=1)", ""),
        "0 divided by 0",
    ),
    zero_is_no_position=(
        edit(gathered, "counts = s >= 0", "counts = s > 0"),
        "an occurrence at position 0 is ignored",
    ),
    in_double_precision=(
        edit(gathered, "return total", "return total.double()"),
        DTYPE,
    ),
    weights_cleared=(
        edit(gathered, "looked = ", "weights[..., 0, :] = 0; looked = "),
        IN_PLACE,
    ),
    first_position_overlooked_by_the_mask=(
        edit(latest, "torch.where(same, t, -1)", "(same * t)")
        & edit(gathered, "s >= 0", "s > 0"),
        "an occurrence at position 0 is ignored",
    ),
    counted_on_the_cpu=(
        edit(latest, "tokens.size(1), device=tokens.device", "tokens.size(1)"),
        DEVICE,
    ),
)
