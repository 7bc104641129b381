"""Question `grouped_queries`: grouped-query attention, with a key-value cache."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from attention_course.transformer import (
    GroupedQueryAttention as CourseGroupedQueryAttention,
)
from attention_course.transformer import RotaryPositions
from attention_course.transformer.rotary import _by_heads
from attention_labs.lab08_today.shared import EVERYWHERE, SHARE, TURN
from attention_labs.pages import MASK, SCORING
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    MODULE,
    Axis,
    Battery,
    Changed,
    Draw,
    Mistake,
    Question,
    Request,
    comparable,
    edit,
    error_like,
    normal,
    parameters,
    right_in,
)

WEIGHTS = 1  # where they stand among the outputs
OTHERS = "returned something else than contexts, weights and a KeyValue"
KEPT = "attention_course.transformer.rotary.GroupedQueryAttention"


class GroupedQueryAttention(CourseGroupedQueryAttention):
    """The course's attention, called with tokens and a cache as the lab's is."""

    def forward(  # type: ignore[override]
        self, x: Tensor, past: KeyValue | None = None
    ) -> tuple[Tensor, Tensor | None, KeyValue]:
        """Let T tokens ask themselves and what came before them."""
        now = self.remember(x, x)
        seen = now if past is None else past.extend(now)
        mask = causal_mask(seen.key.size(2), x.device)[-x.size(1) :]
        output, weights = self.ask(x, seen, mask)
        return output, weights, seen


class _Places(RotaryPositions):
    """Positions that are no distances: a vector shrinks with its place in the row."""

    def forward(self, x: Tensor, past: int = 0) -> Tensor:
        """Scale (..., T, Dh), of which the first vector stands at `past`."""
        places = torch.arange(x.size(-2), device=x.device) + past
        return x / (1 + places[:, None].to(x.dtype) % 256)


def _make(thing: Any, dim: int, heads: int, key_heads: int, base: float | None) -> Any:
    """Construct an answer: without positions, with those of a base, or with places."""
    turned = RotaryPositions(dim // heads, base) if base else _Places(dim // heads)
    return thing(dim, heads, key_heads, None if base is None else turned)


def _use(attention: Any, x: Tensor, pieces: list[int], cache: bool) -> Any:
    """Go through a sequence piece by piece, each with the cache of those before it.

    Returns:
        The contexts and the weights of all tokens; or what the cache holds at the end.
    """
    seen: KeyValue | None = None
    outputs: list[Tensor] = []
    weights: list[Tensor] = []
    changed = False
    for number, piece in enumerate(x.split(pieces, dim=1)):
        before = None if seen is None else KeyValue(*(part.clone() for part in seen))
        if (
            seen is not None and number > 1
        ):  # another way on from the same past, as a beam tries it
            attention(piece.flip(-1), seen)
        said = attention(*([piece] if seen is None else [piece, seen]))
        if said is None:
            return None
        if not isinstance(said, tuple | list) or [
            isinstance(part, KeyValue) for part in said
        ] != [False, False, True]:
            raise TypeError(OTHERS)
        output, looked, now = said
        # another text of the same length, before this one goes on
        attention(*([piece.flip(-1)] if seen is None else [piece.flip(-1), seen]))
        if before is not None and not x.is_meta:
            changed = changed or not all(map(torch.equal, before, seen or ()))
        outputs.append(output)
        weights.append(F.pad(looked, (0, x.size(1) - looked.size(-1))))
        seen = now
    assert seen is not None
    looks = torch.cat(outputs, dim=1), torch.cat(weights, dim=2)
    result = (seen.key, seen.value) if cache else looks
    return Changed(result) if changed else result


def _asked(
    d: Draw, pieces: list[int], base: float | None, cache: bool = False
) -> Request:
    heads = d.G * d.R
    dim = heads * 2 * d.W
    weights = parameters(d, lambda: CourseGroupedQueryAttention(dim, heads, d.G))
    x = normal(d, d.B, sum(pieces), dim)
    about = (
        f"{heads} heads, {d.G} heads of keys,"
        f" {'no' if base is None else 'rotary' if base else 'other'} positions, tokens"
        " by step:"
        f" {', '.join(map(str, pieces))}"
    )
    inputs, init = (x, pieces, cache), (dim, heads, d.G, base)
    return Request(inputs, init, weights, about=about)


def _whole(d: Draw) -> list[Request]:
    return [_asked(d, [d.T], base) for base in (None, 1e4)]


def _steps(d: Draw, cache: bool = False) -> list[Request]:
    """Draw sequences of several steps, of which some have one token and some many."""
    ways = [d.T, 1, 1], [1, d.T, 2], [2, d.T]
    bases = None, 1e4, 0.0
    return [_asked(d, pieces, base, cache) for pieces, base in zip(ways, bases)]


def _ordinary(d: Draw) -> Request:
    """Draw a sequence of one step or of two."""
    return _asked(d, [d.P, d.T] if d.P else [d.T], d.one_of((None, 1e4)))


def _as_many_keys(d: Draw) -> Request:
    """Ask for a whole sequence after one step with as many keys, one of them new."""
    whole = _asked(d, [d.T + 1], 1e4)
    earlier = _asked(d, [d.T, 1], 1e4)
    about = f"{whole.about}, after one new token with {d.T} in the past"
    return replace(whole, before=(replace(earlier, init=None),), about=about)


def _rare(d: Draw) -> list[Request]:
    by_step = [replace(x, gradients=True) for x in _steps(d)]
    return [_as_many_keys(d), *by_step, *([] if d.whole else [_very_long(d)])]


def _very_long(d: Draw) -> Request:
    """Ask one narrow head for more tokens than a mask of 1,024 has."""
    return _asked(BATTERY.sized(d, B=1, G=1, R=1, W=1), [1_025, 1], None)


BATTERY = Battery(
    MODULE,
    _ordinary,
    {
        "B": Axis("sentences", most=4),
        "T": Axis("tokens", long=100),
        "P": Axis("tokens before", least=0, long=100),
        "G": Axis("heads of keys", most=3, fixed=True),
        "R": Axis("heads in a group", most=4, fixed=True),
        "W": Axis("pairs of entries in a head", most=4, fixed=True),
    },
    leaves_out={"in front": "the lab's shapes have the axes that they have"},
    large=(0.0, 1e5, 1e50),  # in float64
)

ask = partial(edit, CourseGroupedQueryAttention.ask)
forward = partial(edit, GroupedQueryAttention.forward)
KEYS = "k = k.repeat_interleave(group_size, dim=1)"
VALUES = "v = v.repeat_interleave(group_size, dim=1)"
TURNED = "q = self.positions(q, past=k.size(2) - q.size(2))"
GROUPS = (
    "With H = 4 and G = 2, heads 0 and 1 share key head 0, and heads 2 and 3 share key"
    " head 1."
)
PLACES = (
    "The keys have the positions 0 to P + T - 1. The queries have the last T of these"
    " positions."
)
KEEP = (
    "Keep the G heads of keys and values as the projections compute them. Rotate and"
    " repeat copies of them in each step."
)


@comparable
def _ahead(request: Request, reply: Any, reference: Any) -> bool:
    """Whether a token looks at a later one."""
    if request.inputs[2] or len(reply.outputs) < 2:
        return False
    weight = reply.outputs[WEIGHTS][reference.outputs[WEIGHTS] == 0]
    return bool((weight.abs() > 1e-6).any())


QUESTION = Question(
    name="grouped_queries",
    reference=GroupedQueryAttention,
    use=_use,
    make=_make,
    forbidden=(*ATTENTION, KEPT),
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "groups": r"\alpha_{hts} = \mathrm{softmax}_s"
        r" \frac{q_{ht}^\top k_{gs}}{\sqrt{D_h}}, \qquad c_{ht} = \sum_s \alpha_{hts}"
        r" v_{gs}, \qquad g = \lfloor h G / H \rfloor",
        "names": "Project x to queries, keys and values with `query_proj`, `key_proj`"
        " and `value_proj`, and split each result into its heads. Concatenate the"
        " contexts of all heads, and apply `output_proj` to the result.",
        "causal": "Let each token attend to itself and to all earlier tokens,"
        " including those of the past, but not to any later token.",
        "past": "`past` is the cache that your module returned for the P tokens before"
        " x. Extend it by the new keys and values, and do not change `past` itself.",
        "cache": "Return a cache with G heads of keys and values as the projections"
        " compute them. Do not repeat or rotate the keys and values in the cache.",
        "positions": "Before you compare queries and keys, rotate both with"
        " `self.positions`. The positions of the keys start at 0, and those of the"
        " queries start at P. Do not rotate the values. If `self.positions` is None, do"
        " not rotate anything.",
        "x": "x: (B, T, D), the new tokens.",
        "argument": "past: `KeyValue` of the P earlier tokens, each (B, G, P, Dh);"
        " None if there are none.",
        "returns": "Contexts (B, T, D), weights (B, H, T, P + T), and the `KeyValue` of"
        " all P + T tokens.",
    },
    properties=(
        BATTERY.numbers(
            "a whole sequence, with and without positions: contexts, weights and"
            " gradients",
            2,
            checks=("groups", "names", "causal", "positions", "x", "returns"),
            requests=_whole,
        ),
        BATTERY.line(
            "a sequence in several steps gives the same contexts and weights",
            1,
            _steps,
            checks=("past", "causal", "positions", "argument"),
        ),
        BATTERY.line(
            "the cache holds only the key heads, not repeated and not rotated",
            1,
            lambda d: _steps(d, cache=True),
            checks=("cache", "returns"),
        ),
        BATTERY.edges(
            1,
            checks=("lengths", "positions", "argument"),
            also=_rare,
        ),
        BATTERY.manners(1, checks=("manners", "past")),
    ),
    mistakes=(
        Mistake(
            "key heads repeated in the wrong order",
            "Neighbouring heads belong to the same group. `repeat_interleave` repeats"
            " each head, and `repeat` repeats the whole row of heads. " + GROUPS,
            SHARE,
            ask(KEYS, "k = k.repeat(1, group_size, 1, 1)")
            & ask(VALUES, "v = v.repeat(1, group_size, 1, 1)"),
        ),
        Mistake(
            "keys and values come from different heads",
            "Use the same head of keys and of values for a query head. " + GROUPS,
            SHARE,
            (
                ask(VALUES, "v = v.repeat(1, group_size, 1, 1)"),
                ask(KEYS, "k = k.repeat(1, group_size, 1, 1)"),
            ),
        ),
        Mistake(
            "scaled by the model width, not the head width",
            "Divide the scores by the square root of Dh, the width of the vectors that"
            " are multiplied.",
            SCORING + "scale",
            ask(
                "attend(self.score(q, k), v, mask)",
                "attend(self.score(q, k) / self.num_heads**0.5, v, mask)",
            ),
        ),
        Mistake(
            "scale factor missing",
            "Divide the scores by the square root of Dh, the width of the vectors that"
            " are multiplied.",
            SCORING + "scale",
            ask("attend(self.score(q, k), v, mask)", "attend(q @ k.mT, v, mask)"),
        ),
        Mistake(
            "no causal mask",
            "A token must not attend to later tokens. For a whole sequence, the mask"
            " is a lower triangle.",
            MASK,
            forward("self.ask(x, seen, mask)", "self.ask(x, seen)"),
        ),
        Mistake(
            "only the queries are rotated",
            "Rotate the keys, too, so that the score depends on the distance.",
            TURN,
            ask("k = self.positions(k)", "pass"),
        ),
        Mistake(
            "only the keys are rotated",
            "Rotate the queries, too, so that the score depends on the distance.",
            TURN,
            ask(TURNED, "pass"),
        ),
        Mistake(
            "the values are rotated, too",
            "Rotate only what is compared: queries and keys.",
            TURN,
            ask("k = self.positions(k)", "k, v = self.positions(k), self.positions(v)"),
        ),
        Mistake(
            "positions start at 0 in every step",
            PLACES,
            TURN,
            ask(TURNED, "q = self.positions(q)"),
        ),
        Mistake(
            "rotated along the heads",
            "Positions count the tokens. Move the heads before the tokens, (B, H, T,"
            " Dh), before you rotate.",
            TURN,
            ask(TURNED, "q = self.positions(q.transpose(1, 2)).transpose(1, 2)")
            & ask(
                "k = self.positions(k)",
                "k = self.positions(k.transpose(1, 2)).transpose(1, 2)",
            ),
        ),
        Mistake(
            "the past is ignored",
            "The new tokens also attend to the past: `past.extend(new)`.",
            SHARE,
            forward("now if past is None else past.extend(now)", "now"),
        ),
        Mistake(
            "output projection missing",
            "Apply `output_proj` to the concatenated contexts of the heads.",
            SHARE,
            ask("self.output_proj(context", "(context"),
        ),
        Mistake(
            "heads merged by view, without transpose",
            "First bring the heads of one token together, (B, T, H, Dh). Then merge"
            " the last two axes into one.",
            SHARE,
            ask(
                "context.transpose(1, 2).flatten(2)",
                "context.reshape(context.size(0), context.size(2), -1)",
            ),
        ),
        Mistake(
            "heads split by view, without transpose",
            "Split the vector of each token on its own. A head's piece must not"
            " contain numbers of a different token.",
            SHARE,
            edit(
                _by_heads,
                "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)",
                "x.reshape(x.size(0), num_heads, x.size(1), -1)",
            ),
        ),
        Mistake(
            "all heads use one head of keys",
            "Each group has its own head of keys. " + GROUPS,
            SHARE,
            ask(KEYS, "k = k[:, :1].expand(-1, self.num_heads, -1, -1)")
            & ask(VALUES, "v = v[:, :1].expand(-1, self.num_heads, -1, -1)"),
        ),
        Mistake(
            "the result is not contexts, weights and a cache",
            "Return three things in this order: the contexts, the weights, and a"
            " `KeyValue` with all keys and values so far.",
            SHARE,
            sign=error_like(OTHERS),
        ),
        Mistake(
            "a wrong cache",
            KEEP,
            SHARE,
            sign=lambda request, reply, reference: bool(request.inputs[2]),
        ),
        Mistake(
            "a later token has nonzero weight",
            "The new tokens are the last T of P + T tokens. Row t of the mask allows"
            " the columns up to and including P + t.",
            MASK,
            sign=_ahead,
        ),
        *ANYWHERE,
        Mistake(
            "wrong with more than one step",
            PLACES + " The new tokens attend to old and new tokens.",
            SHARE,
            sign=lambda request, reply, reference: (
                len(request.inputs[1]) > 1 and not request.inputs[2]
            ),
        ),
        Mistake(
            "the weights are right, the contexts are wrong",
            "Use the values of each head's own group. Then concatenate the contexts,"
            " and apply `output_proj` last.",
            SHARE,
            sign=right_in(WEIGHTS),
        ),
        Mistake(
            "wrong only with positions",
            PLACES,
            TURN,
            sign=lambda request, reply, reference: bool(
                request.init and request.init[3] is not None
            ),
        ),
    ),
)
