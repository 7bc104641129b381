"""Answers to top_p."""

import math

import torch
from answers.core import draw, right, right_edits, wide, wrong, wrong_edits
from answers.signs import DEVICE, IN_PLACE, NOTHING

from nbjudge import Request, edit


@wide("top_p")
def any_rows(g):
    for shape in ((1,), (2,), (7,), (3, 5), (2, 3, 9), (1, 1, 4)):
        for p in (0.013, 0.29, 0.517, 0.873, 0.9871):
            for size in (0.5, 2.0, 8.0):
                yield Request((size * draw(g, *shape), p))
    for p in (0.111, 0.389, 0.7234):
        ties = torch.tensor([[1.0, 0, 1, 2, 2, 0], [0, 0, 0, 0, 0, 0]]).double()
        yield Request((ties, p))
        yield Request((ties.masked_fill(ties == 1, -math.inf), p))


def nucleus(logits, p):
    probabilities = logits.softmax(dim=-1)
    ordered, ids = torch.sort(probabilities, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    out = (before >= p).gather(-1, ids.argsort(dim=-1))
    return torch.where(out, -math.inf, logits)


right("top_p")(nucleus)


@right("top_p")
def shifted_by_one(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    out = ordered.softmax(dim=-1).cumsum(dim=-1) >= p
    out = torch.cat([torch.zeros_like(out[..., :1]), out[..., :-1]], dim=-1)
    return logits.masked_fill(torch.empty_like(out).scatter_(-1, ids, out), -math.inf)


@right("top_p")
def written_back_by_scatter(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = ordered.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(-1, ids, kept)


@right("top_p")
def counted_and_cut(logits, p):
    """Count how many stay; a token stays if so many are ahead of it or fewer."""
    probabilities = logits.softmax(dim=-1)
    ordered = probabilities.sort(dim=-1, descending=True).values
    count = (ordered.cumsum(dim=-1) - ordered < p).sum(dim=-1, keepdim=True)
    rank = logits.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return logits.where(rank < count, -math.inf)


@right("top_p")
def by_pairs(logits, p):
    """Sum for each token what is ahead of it, without sorting."""
    probabilities = logits.softmax(dim=-1)
    here, there = logits[..., :, None], logits[..., None, :]
    ids = torch.arange(logits.size(-1), device=logits.device)
    ahead = (there > here) | ((there == here) & (ids < ids[:, None]))
    before = (ahead * probabilities[..., None, :]).sum(dim=-1)
    return logits.masked_fill(before >= p, -math.inf)


@right("top_p")
def in_log_space(logits, p):
    ordered, ids = logits.log_softmax(dim=-1).sort(dim=-1, descending=True)
    up_to = ordered.logcumsumexp(dim=-1)
    stays = torch.ones_like(up_to, dtype=torch.bool)
    stays[..., 1:] = up_to[..., :-1] < math.log(p)
    back = ids.argsort(dim=-1)
    return logits + torch.where(stays.gather(-1, back), 0.0, -math.inf).to(logits.dtype)


@right("top_p")
def row_by_row(logits, p):
    rows = logits.reshape(-1, logits.size(-1))
    kept = torch.full_like(rows, -math.inf)
    for row, new in zip(rows, kept):
        probabilities = row.softmax(dim=0)
        total = 0.0
        for token in probabilities.argsort(descending=True):
            new[token] = row[token]
            total = total + probabilities[token]
            if total >= p:
                break
    return kept.view(logits.shape)


@right("top_p")
def taken_out_one_after_the_other(logits, p):
    left, stays = logits.softmax(-1), torch.zeros_like(logits, dtype=torch.bool)
    total = torch.zeros_like(left[..., :1])
    for _ in range(logits.size(-1)):
        best = left.argmax(dim=-1, keepdim=True)
        open_ = total < p
        stays = stays.scatter(-1, best, open_ | stays.gather(-1, best))
        total = total + left.gather(-1, best) * open_
        left = left.scatter(-1, best, -1.0)
    return logits.masked_fill(~stays, -math.inf)


@right("top_p")
def with_topk_of_all(logits, p):
    ordered, ids = logits.softmax(-1).topk(logits.size(-1), dim=-1)
    last = torch.searchsorted(ordered.cumsum(-1), torch.full_like(ordered[..., :1], p))
    place = torch.arange(logits.size(-1), device=logits.device)
    kept = torch.full_like(logits, -math.inf)
    found = logits.gather(-1, ids).masked_fill(place > last, -math.inf)
    return kept.scatter(-1, ids, found)


@right("top_p")
def the_rest_from_behind(logits, p):
    """Remove from the least probable token on, while what is left still has p."""
    ordered, ids = logits.softmax(-1).sort(dim=-1)
    left = ordered.flip(-1).cumsum(-1).flip(-1) - ordered
    out = left >= p
    return logits.masked_fill(out.gather(-1, ids.argsort(-1)), -math.inf)


right_edits(
    "top_p",
    nucleus,
    a_softmax_by_hand=edit(
        nucleus,
        "logits.softmax(dim=-1)",
        "(logits - logits.logsumexp(dim=-1, keepdim=True)).exp()",
    ),
)

OUT, FEW, MANY = (
    "the token that reaches p is left out",
    "too few tokens stay",
    "too many tokens stay",
)
NONE, REMOVED = "a row keeps no token", "the removed logits are not minus infinity"
ORDER = "the result is in sorted order"


@wrong("top_p", NONE, OUT)
def as_long_as_the_sum_is_below(logits, p):
    ordered, ids = logits.softmax(-1).sort(dim=-1, descending=True)
    stays = ordered.cumsum(-1) < p
    return logits.masked_fill(~stays.gather(-1, ids.argsort(-1)), -math.inf)


@wrong(
    "top_p",
    "the right number of tokens, but the wrong ones",
    "gather instead of scatter",
)
def brought_back_by_the_ids(logits, p):
    ordered, ids = logits.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    return logits.masked_fill((before >= p).gather(-1, ids), -math.inf)


@wrong("top_p", "too many equally probable tokens stay", MANY)
def by_the_least_probability(logits, p):
    probabilities = logits.softmax(dim=-1)
    ordered = probabilities.sort(dim=-1, descending=True).values
    last = (ordered.cumsum(-1) < p).sum(-1, keepdim=True).clamp(max=logits.size(-1) - 1)
    return logits.masked_fill(probabilities < ordered.gather(-1, last), -math.inf)


@wrong("top_p", MANY, FEW, OUT)
def as_many_in_every_row(logits, p):
    ordered = logits.softmax(dim=-1).sort(dim=-1, descending=True).values
    count = int((ordered.cumsum(-1) - ordered < p).sum(-1).max())
    least = logits.topk(count, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < least, -math.inf)


@wrong("top_p")
def sorted_logits_returned(logits, p):
    ordered, _ = logits.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    return ordered.masked_fill(before >= p, -math.inf)


@wrong("top_p", FEW)
def the_first_thousand(logits, p):
    likely, ids = logits.softmax(-1).topk(min(1000, logits.size(-1)), dim=-1)
    stays = likely.cumsum(-1) - likely < p
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, stays)
    return logits.masked_fill(~kept, -math.inf)


wrong_edits(
    "top_p",
    nucleus,
    no_p_above_99=(edit(nucleus, ">= p", ">= min(p, 0.99)"), FEW),
    all_for_a_large_p=(
        edit(nucleus, "before >= p", "(before >= p) & (p < 0.96)"),
        MANY,
    ),
    one_for_a_small_p=(
        edit(nucleus, "before >= p", "before >= (p if p > 0.05 else 1e-5)"),
        FEW,
    ),
    about_p_is_enough=(
        edit(nucleus, "before >= p", "(before >= p - 1e-4) & (before > 0)"),
        FEW,
        OUT,
    ),
    two_for_a_large_p=(
        edit(
            nucleus,
            "before >= p",
            "(before >= p) & (before > ordered[..., :1] * (p > 0.5))",
        ),
        MANY,
    ),
    sorted_in_single_precision=(
        edit(nucleus, "logits.softmax(dim=-1)", "logits.float().softmax(dim=-1)"),
        "the right number of tokens, but the wrong ones",
    ),
    one_too_many=(
        edit(nucleus, "before >= p", "before - ordered >= p"),
        MANY,
    ),
    one_too_few=(
        edit(nucleus, "before >= p", "before + ordered > p"),
        OUT,
        NONE,
    ),
    over_the_first_axis=(
        edit(nucleus, "logits.softmax(dim=-1)", "logits.softmax(dim=0)"),
        "the right number of tokens, but the wrong ones",
        FEW,
    ),
    sums_of_all_rows=(
        edit(
            nucleus,
            "ordered.cumsum(dim=-1) - ordered",
            "ordered.flatten().cumsum(0).view_as(ordered) - ordered",
        ),
        FEW,
        NONE,
    ),
    made_very_small=(edit(nucleus, "-math.inf", "-1e4"), REMOVED, MANY),
    renormalized=(
        edit(
            nucleus,
            "torch.where(out, -math.inf, logits)",
            "torch.where(out, -math.inf, logits).log_softmax(-1)",
        ),
        "the kept logits are changed",
    ),
    written_into_the_logits=(
        edit(
            nucleus,
            "return torch.where(out, -math.inf, logits)",
            "logits[out] = -math.inf; return logits",
        ),
        IN_PLACE,
    ),
    forgets_to_return=(edit(nucleus, "return ", ""), NOTHING),
    mask_returned=(edit(nucleus, "torch.where(out, -math.inf, logits)", "~out"),),
    the_most_probable_removed=(
        edit(nucleus, "before >= p", "before < p"),
        "the mask is inverted",
    ),
    never_less_than_two=(
        edit(nucleus, "before >= p", "(before >= p) & (before > ordered[..., :1])"),
        MANY,
    ),
    put_together_on_the_cpu=(
        edit(
            nucleus,
            "torch.where(out, -math.inf, logits)",
            "torch.zeros(logits.shape, dtype=logits.dtype).masked_fill(out, -math.inf)"
            " + logits",
        ),
        DEVICE,
    ),
)
