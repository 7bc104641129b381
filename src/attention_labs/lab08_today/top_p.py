"""Question `top_p`: keep the most probable tokens for top-p (nucleus) sampling."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_labs.lab08_today.shared import EVERYWHERE
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Draw,
    Mistake,
    Question,
    Request,
    close,
    edit,
    normal,
    somewhere,
)

DRAWN = "14_decoding.html#decoding-sampling"


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the nucleus: Holtzman et al. (2020), Section 3.1."""
    likely, ids = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    inside = likely.cumsum(dim=-1) - likely < p
    keep = torch.zeros_like(inside).scatter(-1, ids, inside)
    return logits.masked_fill(~keep, -math.inf)


def _use(top_p: Any, logits: Tensor, p: float) -> Any:
    """Put finite numbers in the place of the removed, and say which tokens stay.

    Of equally probable tokens the first ones count as those that stay. The last of the
    three says whether a logit that stays is not exactly what it was.
    """
    before = logits.clone()
    after = top_p(logits, p)
    if not isinstance(after, Tensor) or after.shape != before.shape:
        return None if after is None else (after, after, after)
    stays = ~after.isneginf()
    same = before[..., :, None] == before[..., None, :]
    among = (same & stays[..., None, :]).sum(dim=-1)
    shown = same.tril(-1).sum(dim=-1) < among
    changes = (after - before).masked_fill(~stays, 0.0)
    changed = (changes != 0).any().to(after.dtype)
    return before.masked_fill(~shown, 0.0) + changes, shown.to(after.dtype), changed


def _some_p(d: Draw, logits: Tensor) -> float:
    """Draw a number that no sum of probabilities comes near."""
    sums = logits.softmax(dim=-1).sort(dim=-1, descending=True).values.cumsum(dim=-1)
    even = torch.arange(1, d.V + 1) / d.V
    tried = 0.02 + 0.975 * torch.rand(64, generator=d, dtype=torch.float64)
    away = (tried[:, None] - torch.cat([sums.flatten(), even])).abs().amin(dim=-1)
    return float(tried[away.argmax()])


def _logits(d: Draw) -> Request:
    logits = normal(d, *d.leading, d.V) * (1 if d.whole else 1.5)
    return Request((logits, _some_p(d, logits)))


def _rare(d: Draw) -> list[Request]:
    """Draw equally probable tokens, removed ones, and sets of one and of nearly all."""
    ties = torch.randint(0, 3, (*d.leading, d.V), generator=d).double()
    (plain, _), (other, _) = _logits(d).inputs, _logits(d).inputs
    nearly = torch.tensor([0.0, 1e-9], dtype=plain.dtype)
    certain = normal(d, 2, 4, d.V) + 20 * (torch.arange(d.V) == 0)
    removed = other.masked_fill(torch.arange(d.V) % 3 == 1, -math.inf)
    return [
        Request((ties, _some_p(d, ties)), about="equally probable tokens"),
        Request((removed, _some_p(d, removed)), about="logits of minus infinity"),
        Request((certain, 0.9), about="a token that is almost certain"),
        Request((plain, 1e-5), about="p = 0.00001"),
        Request((3 * plain, 0.01), about="p = 0.01"),
        Request((nearly, 0.3), about="logits 0 and 0.000000001"),
        Request((1e10 * nearly, 0.9), about="logits 0 and 10"),
        Request((removed - 3e4, _some_p(d, removed)), about="logits below -20,000"),
        Request((torch.full_like(plain[..., :4], 3e4), 0.6), about="logits of 30,000"),
        *(
            Request((torch.zeros(n, dtype=plain.dtype), p), about=f"{n} equal logits")
            for n, p in (
                *((2, 0.5), (4, 0.5)),
                *((100, 0.020001), (400, 0.9926), (1500, 0.7341)),
            )
        ),
    ]


BATTERY = Battery(
    FUNCTION,
    _logits,
    {"B": Axis("sentences"), "V": Axis("tokens of the vocabulary", long=300)},
    leading=3,
    gradients=False,  # none are needed
    leaves_out={
        "zero": "a vocabulary has a token",
        "bfloat16": "sums of probabilities in half precision are not asked about",
        "long in bfloat16": "sums in half precision are not asked about",
    },
)

change = partial(edit, top_p)
INSIDE = "likely.cumsum(dim=-1) - likely < p"
PLACED = "torch.zeros_like(inside).scatter(-1, ids, inside)"
CROSSES = (
    "Keep a token if the probabilities before it sum to less than p. So keep the token"
    " with which the sum reaches p, too."
)
BACK = (
    "After sorting, place n belongs to token ids[n]. `scatter` with these ids restores"
    " the order of the vocabulary."
)


def _all_ties(logits: Tensor, p: float) -> Tensor:
    """Keep what is as probable as the least probable token that is needed."""
    least = top_p(logits, p).masked_fill(top_p(logits, p).isneginf(), math.inf)
    return logits.masked_fill(logits < least.amin(-1, keepdim=True), -math.inf)


QUESTION = Question(
    name="top_p",
    reference=top_p,
    use=_use,
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "softmax": "The probabilities are the softmax of the logits over the last"
        " axis.",
        "in front": "There may be any number of axes before the last one, or none."
        " Each row of V logits has its own nucleus.",
        "smallest": "Keep the most probable tokens: take them in order, from the most"
        " probable one on, until their probabilities sum to at least p.",
        "logits": "Do not change the logits of these tokens. Set all other logits to"
        " $-\\infty$.",
        "one": "Always keep at least one token, the most probable one. You need no"
        " gradients here: a model that writes learns nothing.",
        "ties": "If several tokens are equally probable, keep only as many of them as"
        " you need to reach p. It does not matter which of them you keep.",
        "removed": "Some logits of a row, but never all of them, may already be"
        " $-\\infty$. Do not keep their tokens.",
        "argument": "logits: (..., V).",
        "p": "p: from 0.00001 to 0.99999.",
        "returns": "The logits (..., V).",
    },
    properties=(
        BATTERY.numbers(
            "the most probable tokens stay, until their probabilities sum to p",
            2,
            checks=("softmax", "smallest", "logits", "argument", "p", "returns"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            checks=("lengths", "in front", "one", "ties", "removed"),
            claim="equally probable tokens, removed tokens, p near 0; edges: length"
            " one, equal lengths, long inputs, more or fewer leading axes, large"
            " numbers, repeated calls",
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "the token that reaches p is left out",
            CROSSES,
            DRAWN,
            (
                change(INSIDE, "likely.cumsum(dim=-1) <= p"),
                change(
                    INSIDE,
                    "(likely.cumsum(dim=-1) <= p) | (likely.cumsum(dim=-1) == likely)",
                ),
            ),
        ),
        Mistake(
            "the result is in sorted order",
            BACK,
            DRAWN,
            change(PLACED, "inside"),
        ),
        Mistake(
            "gather instead of scatter",
            BACK,
            DRAWN,
            change(PLACED, "inside.gather(-1, ids)"),
        ),
        Mistake(
            "sorted in ascending order",
            "Sort the most probable tokens first, with `descending=True`.",
            DRAWN,
            change("descending=True", "descending=False"),
        ),
        Mistake(
            "the mask is inverted",
            "`masked_fill` fills where the mask is True, so its mask must mark the"
            " tokens to remove.",
            DRAWN,
            change("~keep", "keep"),
        ),
        Mistake(
            "probabilities returned instead of logits",
            "Return the logits of the kept tokens unchanged. The softmax comes later.",
            DRAWN,
            change("return logits", "return logits.softmax(dim=-1)"),
        ),
        Mistake(
            "the removed logits are not minus infinity",
            "Set removed logits to minus infinity. Only then is their probability"
            " always 0.",
            DRAWN,
            (
                change("-math.inf", "0.0"),
                change("-math.inf", "-1e9"),
                change("-math.inf", "torch.finfo(logits.dtype).min"),
            ),
        ),
        Mistake(
            "single probabilities are compared with p",
            "Compare p with the sum of the probabilities, from the largest one on.",
            DRAWN,
            (
                change(INSIDE, "likely >= p * likely[..., :1]"),
                change(INSIDE, "likely >= p"),
                change(INSIDE, "likely >= 1 - p"),
            ),
        ),
        Mistake(
            "p is the probability that is removed",
            "The tokens that you keep must have a total probability of at least p.",
            DRAWN,
            change("< p", "< 1 - p"),
        ),
        Mistake(
            "logits are summed instead of probabilities",
            "Take the softmax first.",
            DRAWN,
            change("logits.softmax(dim=-1).sort", "logits.sort"),
        ),
        Mistake(
            "too many equally probable tokens stay",
            "Keep no more of them than you need. Decide by the place in the sorted"
            " order, not by the probability.",
            DRAWN,
            _all_ties,
        ),
        *ANYWHERE,
        Mistake(
            "a row keeps no token",
            CROSSES + " For the most probable token, this sum is 0.",
            DRAWN,
            sign=somewhere(
                1, lambda given, wanted: given.sum(-1) < wanted.sum(-1).clamp(max=1)
            ),
        ),
        Mistake(
            "the kept logits are changed",
            "Return the kept logits unchanged, each at its own place.",
            DRAWN,
            sign=lambda request, reply, reference: (
                len(reply.outputs) == 3
                and close(reply.outputs[1], reference.outputs[1])
            ),
        ),
        Mistake(
            "too many tokens stay",
            CROSSES + " Each row has its own nucleus.",
            DRAWN,
            sign=somewhere(1, lambda given, wanted: given.sum(-1) > wanted.sum(-1)),
        ),
        Mistake(
            "too few tokens stay",
            CROSSES + " Each row has its own nucleus.",
            DRAWN,
            sign=somewhere(1, lambda given, wanted: given.sum(-1) < wanted.sum(-1)),
        ),
        Mistake(
            "the right number of tokens, but the wrong ones",
            BACK,
            DRAWN,
            sign=somewhere(1, lambda given, wanted: given != wanted),
        ),
    ),
)
