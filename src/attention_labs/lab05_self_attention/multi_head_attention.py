"""Question `multi_head_attention`: attention with all heads at once."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import MultiHeadAttention
from attention_course.scores import ScaledDotScore
from attention_labs.lab05_self_attention.merge_heads import merge_heads
from attention_labs.lab05_self_attention.shared import (
    BACK,
    EMPTY_ROW,
    EVERYWHERE,
    HEADS,
    LEAVES_OUT,
    MIXED,
    SCALE,
    TWICE,
    WEIGHT,
    B,
    T,
)
from attention_labs.lab05_self_attention.split_heads import split_heads
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    MODULE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    each_of,
    edit,
    normal,
    of_output,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
)

ASK = MultiHeadAttention.ask
NEW_AXIS = "mask = mask[:, None]"


def _looking(d: Draw, *masks: Tensor | None) -> list[Request]:
    dim = d.H * d.W
    weights = parameters(d, lambda: MultiHeadAttention(dim, d.H))
    inputs = [normal(d, d.B, size, dim) for size in (d.T, d.S, d.S)]
    return [Request((*inputs, mask), (dim, d.H), weights) for mask in masks]


def _any_masks(d: Draw) -> list[Request]:
    """Draw masks of all shapes, with empty rows; the last for a single key.

    Keys and values may be the same tensor as the queries, or as each other.
    """
    few = some_allowed(d, d.B, d.T, d.S) & (torch.arange(d.T)[:, None] % 2 == 1)
    some = torch.rand(d.B, d.T, d.S, generator=d) < 0.6
    asked = _looking(
        *(d, few, few[0], few[:1], few[0, 1:2], some),
        *(some[:, :1], some[..., :1], some[:1, :1], some[0, :, :1]),
    )
    for request in _looking(d, None, some):
        query, key, _, mask = request.inputs
        own = None if mask is None else torch.rand(d.T, d.T, generator=d) < 0.6
        note = "keys and values are one tensor"
        asked.append(replace(request, inputs=(query, key, None, mask), about=note))
        note = "queries, keys and values are one tensor"
        asked.append(replace(request, inputs=(query, None, None, own), about=note))
    one = Draw(d.number(0, 10**9), {**d.sizes, "S": 1}, whole=d.whole)
    (single,) = _looking(one, torch.rand(d.B, d.T, 1, generator=d) < 0.5)
    asked.append(replace(single, about="a single key, forbidden to some queries"))
    asked = [replace(request, gradients=True) for request in asked]
    coarse = replace(asked[0], gradients=False, dtype=torch.float32)
    return [*asked, coarse, _one_by_one(d)]


def _one_by_one(d: Draw) -> Request:
    """Ask for one query, in eval mode, after one that looked at other vectors."""
    one = Draw(d.number(0, 10**9), {**d.sizes, "T": 1}, whole=d.whole)
    earlier, request = _looking(one, None)[0], _looking(one, None)[0]
    earlier = replace(earlier, init=None, parameters={}, training=False)
    about = "a single query in eval mode, after one of other keys"
    return replace(request, training=False, before=(earlier,), about=about)


def _many_heads(d: Draw) -> list[Request]:
    """Draw many heads, and so little else that another loop is short."""
    d.sizes.update(B=1, T=2, S=2, W=1, H=d.number(110, 130))
    masks = None, torch.ones(1, 2, 2, dtype=torch.bool)
    return [replace(request, traced=True) for request in _looking(d, *masks)]


def _use(
    module: nn.Module,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    mask: Tensor | None,
) -> Any:
    """Attend; without a key, keys are the queries, and without a value, the keys."""
    key = query if key is None else key
    value = key if value is None else value
    return module(query, key, value, *([] if mask is None else [mask]))


BATTERY = Battery(
    MODULE,
    lambda d: _looking(
        d,
        None,
        some_allowed(d, d.B, d.T, d.S),
        some_allowed(d, d.B, 1, d.S),
        some_allowed(d, d.T, d.S),
    ),
    {
        "B": B,
        "T": T,
        "S": Axis("keys", long=300),
        "H": Axis("heads", fixed=True),
        "W": Axis("width of a head", fixed=True),
    },
    leaves_out=LEAVES_OUT,
    # scores far below what may be put in for minus infinity
    large=(0.0, 1e5, 1e24),
)


def _no_loop(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """A loop over heads calls some operators once per head."""
    calls, few = len(reply.operators), 3 * len(reference.operators)
    finding = Finding(f"{calls} operator calls for many heads", f"at most {few}")
    return finding if calls > few else None


QUESTION = Question(
    name="multi_head_attention",
    reference=MultiHeadAttention,
    use=_use,
    stand_ins={"split_heads": split_heads, "merge_heads": merge_heads},
    battery=BATTERY,
    requirements={
        **EVERYWHERE,
        "projected": "$Q_h$, $K_h$ and $V_h$ are the pieces of the projected queries,"
        " keys and values that belong to head h.",
        "two": "The queries (B, T, D) may come from one sequence, and the keys and"
        " values (B, S, D) from a second one.",
        "names": "Apply the projections of section 1 first. Apply `output_proj`, which"
        " is $W^O$, last.",
        "no loop": "Compute all heads at once. A loop over the heads costs one point.",
        "scale": "Divide the scores by the square root of Dh, the width of the vectors"
        " that are multiplied.",
        "axes": "A mask with three axes, such as (B, T, S) or (B, 1, S), needs one"
        " more axis for the heads. A mask with two axes, (T, S), can be used as it is.",
        "empty": "If a query may not attend to anything, all its weights must be 0.",
        "query": "query: (B, T, D).",
        "key": "key: (B, S, D).",
        "value": "value: (B, S, D).",
        "mask": "mask: True = may attend, with two or three axes, broadcastable to"
        " (B, T, S); None allows everything.",
        "returns": "Contexts (B, T, D), and the weights of every head (B, H, T, S).",
    },
    properties=(
        BATTERY.numbers(
            "the weights of every head, without a mask and with masks of every allowed"
            " shape",
            1,
            of_output(1, same_numbers),
            ("projected", "two", "scale", "axes", "query", "key", "mask", "returns"),
        ),
        BATTERY.numbers(
            "the contexts, and all gradients",
            2,
            checks=("projected", "names", "value", "returns"),
        ),
        BATTERY.line(
            "all heads at once, without a loop",
            1,
            _many_heads,
            each_of(same_numbers, _no_loop),
            ("no loop",),
            times=1,
        ),
        BATTERY.edges(
            1,
            same_gradients,
            claim="queries that may attend to nothing; edges: length one, equal"
            " lengths, long inputs, large numbers, eval mode, repeated calls, two"
            " instances",
            checks=("lengths", "empty", "mask", "returns"),
            also=_any_masks,
        ),
        BATTERY.manners(1, checks=("manners",)),
    ),
    mistakes=(
        Mistake(
            "heads split by view, without transpose",
            MIXED,
            HEADS + "split",
            edit(
                MultiHeadAttention._split,
                "x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)",
                "x.reshape(x.size(0), self.num_heads, x.size(1), -1)",
            ),
        ),
        Mistake(
            "heads merged by view, without transpose",
            BACK,
            HEADS + "split",
            edit(
                ASK,
                "context.transpose(1, 2).flatten(2)",
                "context.reshape(context.size(0), context.size(2), -1)",
            ),
        ),
        Mistake(
            "scaled by the model width, not the head width",
            SCALE + " Within a head, this width is Dh.",
            SCORING + "scale",
            edit(
                ScaledDotScore.forward,
                "sqrt(query.size(-1))",
                "sqrt(query.size(-1) * query.size(1))",
            ),
        ),
        Mistake(
            "scaled by the number of heads",
            SCALE + " Within a head, this width is Dh.",
            SCORING + "scale",
            edit(ScaledDotScore.forward, "sqrt(query.size(-1))", "sqrt(query.size(1))"),
        ),
        Mistake(
            "scale factor missing",
            SCALE + " Within a head, this width is Dh.",
            SCORING + "scale",
            edit(
                ScaledDotScore.forward, "(query / math.sqrt(query.size(-1)))", "query"
            ),
        ),
        Mistake(
            "softmax applied twice",
            TWICE,
            SCORING + "softmax",
            edit(ASK, "self.score(q, k)", "self.score(q, k).softmax(-1)"),
        ),
        Mistake(
            "output projection missing",
            "Apply `output_proj` to the concatenated contexts of the heads.",
            HEADS + "equation",
            edit(ASK, "self.output_proj(context", "(context"),
        ),
        Mistake(
            "values taken from the keys",
            "Apply `value_proj` to `value`. Keys and values are the same only in"
            " self-attention.",
            SCORING + "context",
            edit(MultiHeadAttention.remember, "value_proj(value)", "value_proj(key)"),
        ),
        Mistake(
            "keys and values taken from the query",
            "Project `key` and `value`. They are the same as `query` only in"
            " self-attention.",
            SCORING + "context",
            edit(MultiHeadAttention.forward, "(key, value)", "(query, query)")
            & edit(
                ASK,
                "check_mask(mask, (query.size(0), query.size(1), k.size(2)))",
                "pass",
            ),
        ),
        Mistake(
            "weights averaged over the heads",
            "Return the weights of each head, (B, H, T, S).",
            HEADS + "equation",
            (
                edit(ASK, "return output, weights", "return output, weights.mean(1)"),
                edit(
                    ASK,
                    "return output, weights",
                    "return output, weights.mean(1, keepdim=True)",
                ),
            ),
        ),
        Mistake(
            "too many operator calls for many heads",
            "The heads are an axis like the batch, so one matrix product can compute"
            " all of them.",
            HEADS + "equation",
            sign=lambda request, reply, reference: (
                request.traced and all(map(close, reply.outputs, reference.outputs))
            ),
            undone=lambda request, reply, reference: reply._replace(
                operators=reference.operators
            ),
        ),
        Mistake(
            "no axis for the heads in the mask",
            "The scores are (B, H, T, S). Write the shape of a mask (B, T, S) below it,"
            " and align both at the last axis.",
            SCORING + "mask",
            edit(ASK, "mask.dim() == 3", "False"),
        ),
        Mistake(
            "an axis for the heads in a mask without sentences",
            "A mask with two axes, (T, S), broadcasts to (B, H, T, S) as it is. Look"
            " at how many axes a mask has.",
            SCORING + "mask",
            (
                edit(ASK, "mask.dim() == 3", "True"),
                edit(ASK, "mask.dim() == 3", "mask.size(0) == query.size(0)"),
            ),
        ),
        Mistake(
            "the first row of the mask for all queries",
            "Each query has its own row of the mask. Only a padding mask has the same"
            " row for all.",
            SCORING + "mask",
            (
                edit(ASK, NEW_AXIS, "mask = mask[:, None, :1]"),
                edit(
                    ASK, "torch.atleast_2d(mask)", "torch.atleast_2d(mask)[..., :1, :]"
                ),
            ),
        ),
        EMPTY_ROW,
        WEIGHT,
        *ANYWHERE,
        Mistake(
            "the weights are right, the contexts are wrong",
            "Project and split the values like the keys. Then merge the contexts, and"
            " apply `output_proj` last.",
            HEADS + "equation",
            sign=right_in(1),
        ),
    ),
)
