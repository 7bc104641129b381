"""multi_head_attention: all heads at once."""

from dataclasses import replace

import torch
from torch import Tensor

from attention_course.attention import MultiHeadAttention
from attention_course.masks import padding_mask
from attention_course.scores import ScaledDotScore
from attention_labs.lab05_self_attention.merge_heads import merge_heads
from attention_labs.lab05_self_attention.shared import (
    BACK,
    DH,
    HEADS,
    MIXED,
    SCALE,
    TWICE,
    WEIGHT,
    B,
    H,
    S,
    T,
)
from attention_labs.lab05_self_attention.split_heads import split_heads
from attention_labs.pages import SCORING
from nbjudge import (
    ANYWHERE,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    close,
    each_of,
    edit,
    good_manners,
    manners,
    normal,
    of_output,
    parameters,
    right_in,
    same_gradients,
    same_numbers,
    some_allowed,
)

ASK = MultiHeadAttention.ask


def _looking(
    g: torch.Generator, mask: Tensor | None, heads: int = H, gradients: bool = False
) -> Request:
    dim = heads * DH
    inputs = (normal(g, B, T, dim), normal(g, B, S, dim), normal(g, B, S, dim), mask)
    weights = parameters(g, lambda: MultiHeadAttention(dim, heads))
    return Request(inputs, (dim, heads), weights, gradients)


def _unmasked_heads(g: torch.Generator) -> list[Request]:
    plain, differentiated = _looking(g, None), _looking(g, None, gradients=True)
    return [plain, differentiated, _looking(g, None, heads=1)]


def _no_loop(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    """A loop over heads calls some operators once per head."""
    calls, few = len(reply.operators), 3 * len(reference.operators)
    finding = Finding(f"{calls} operator calls for many heads", f"at most {few}")
    return finding if calls > few else None


MULTI_HEAD_ATTENTION = Question(
    name="multi_head_attention",
    reference=MultiHeadAttention,
    use=lambda module, query, key, value, mask: (
        module(query, key, value) if mask is None else module(query, key, value, mask)
    ),
    stand_ins={"split_heads": split_heads, "merge_heads": merge_heads},
    properties=(
        Property(
            "the weights of every head", 1, _unmasked_heads, of_output(1, same_numbers)
        ),
        Property("the contexts, and all gradients", 2, _unmasked_heads, same_gradients),
        Property(
            "masks with and without an axis for sentences",
            1,
            lambda g: (
                _looking(g, some_allowed(g, B, T, S), gradients=True),
                _looking(g, padding_mask(torch.tensor([S, S - 3]), S)),
                _looking(g, some_allowed(g, T, S)),
            ),
            same_gradients,
        ),
        Property(
            "all heads at once, without a loop",
            1,
            lambda g: [replace(_looking(g, None, heads=24), traced=True)],
            each_of(same_numbers, _no_loop),
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_looking(g, some_allowed(g, B, 1, S))),
            good_manners,
        ),
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
            "scaled by the width of the model, not of a head",
            SCALE + " Within a head that is Dh.",
            SCORING + "scale",
            edit(
                ScaledDotScore.forward,
                "sqrt(query.size(-1))",
                "sqrt(query.size(-1) * query.size(1))",
            ),
        ),
        Mistake(
            "scale missing",
            SCALE + " Within a head that is Dh.",
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
            "output map missing",
            "After the heads stand side by side again, `output_proj` mixes what they"
            " found.",
            HEADS + "equation",
            edit(ASK, "self.output_proj(context", "(context"),
        ),
        Mistake(
            "values taken from the keys",
            "`value_proj` maps the values; only in self-attention are keys and values"
            " the same.",
            SCORING + "context",
            edit(MultiHeadAttention.remember, "value_proj(value)", "value_proj(key)"),
        ),
        Mistake(
            "keys and values taken from the query",
            "Keys and values are maps of `key` and `value`; only in self-attention are"
            " all three the same.",
            SCORING + "context",
            edit(MultiHeadAttention.forward, "(key, value)", "(query, query)")
            & edit(
                ASK,
                "check_mask(mask, (query.size(0), query.size(1), k.size(2)))",
                "pass",
            ),
        ),
        Mistake(
            "the mean over the heads is returned",
            "Each head has weights of its own: (B, H, T, S).",
            HEADS + "equation",
            edit(ASK, "return output, weights", "return output, weights.mean(1)"),
        ),
        WEIGHT,
        *ANYWHERE,
        Mistake(
            "a loop over the heads",
            "The heads are an axis like the batch: one product of matrices serves all"
            " of them.",
            HEADS + "equation",
            sign=lambda request, reply, reference: (
                request.traced and all(map(close, reply.outputs, reference.outputs))
            ),
        ),
        Mistake(
            "the weights are right, the contexts are not",
            "Values are projected and split like the keys; the contexts are merged, and"
            " `output_proj` comes last.",
            HEADS + "equation",
            sign=right_in(1),
        ),
    ),
)
