"""cached_step: what came before is kept, and not computed again."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.attention import KeyValue
from attention_course.masks import causal_mask
from attention_course.transformer import (
    SinusoidalPositions,
    TokenEmbedding,
    TransformerMemory,
)
from attention_course.transformer import TransformerDecoder as CourseDecoder
from attention_labs.lab06_transformer.shared import (
    BLOCK,
    CACHE,
    DH,
    HIDDEN,
    STATES,
    B,
    D,
    DecoderBlock,
    H,
    S,
    T,
    V,
    flattened,
    tensors_of,
)
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    Finding,
    Mistake,
    Property,
    Question,
    Reply,
    Request,
    Sign,
    close,
    comparable,
    edit,
    error_like,
    good_manners,
    manners,
    normal,
    of_output,
    of_outputs,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)

LAYERS = 2


class TransformerDecoder(CourseDecoder):
    """The course's decoder, constructed from numbers as the lab's is."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
    ):
        super().__init__(
            TokenEmbedding(vocab_size, dim, positions),
            [DecoderBlock(dim, num_heads, hidden_dim) for _ in range(num_layers)],
            nn.LayerNorm(dim),
            nn.Linear(dim, vocab_size),
        )


def _with_positions(decoder: Any, *init: int) -> Any:
    return decoder(*init, SinusoidalPositions(init[1]))


def _use_steps(
    decoder: Any,
    target: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    pieces: Sequence[int],
) -> Any:
    """Go over the target in pieces, and count what goes through the first block."""
    memory = TransformerMemory(tuple(map(KeyValue, key, value)), mask)
    counted: list[int] = []
    decoder.blocks[0].register_forward_hook(
        lambda module, inputs, output: counted.append(inputs[0].size(1))
    )
    cache, logits = decoder.start(memory), []
    for tokens in target.split(list(pieces), dim=1):
        out = decoder.step(tokens, memory, cache)
        if not isinstance(out, tuple) or len(out) != 3:
            return flattened(out)
        said, _, cache = out
        logits.append(said)
    work = said.new_full((1,), sum(counted))
    return torch.cat(logits, dim=1), *tensors_of(cache), work


def _stepwise(
    g: torch.Generator, *pieces: int, gradients: bool = False, layers: int = LAYERS
) -> Request:
    tokens, init = sum(pieces), (V, D, H, HIDDEN, layers)
    memory = (normal(g, layers, B, H, S, DH), normal(g, layers, B, H, S, DH))
    weights = parameters(g, lambda: _with_positions(TransformerDecoder, *init))
    target = torch.randint(V, (B, tokens), generator=g)
    inputs = (target, *memory, some_allowed(g, B, 1, S), list(pieces))
    return Request(inputs, init, weights, gradients)


def _each_once(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or len(reply.outputs) != len(reference.outputs):
        seen = reply.error or f"{len(reply.outputs)} tensors returned"
        return Finding(seen, "no error")
    counted, few = (float(x.outputs[-1].sum()) for x in (reply, reference))
    if counted <= few:
        return None
    return Finding(f"{counted:.0f} positions through the first block", f"{few:.0f}")


def _other_cache(request: Request, reply: Reply, reference: Reply) -> bool:
    if request.device == "meta" or len(reply.outputs) != len(reference.outputs):
        return False
    (logits, *kept, _), (wanted, *to_keep, _) = reply.outputs, reference.outputs
    return close(logits, wanted) and not all(map(close, kept, to_keep))


def _right_at(tokens: slice) -> Sign:
    """Look for replies whose logits are right at some of the tokens."""
    return comparable(
        lambda request, reply, reference: close(
            reply.outputs[STATES][:, tokens], reference.outputs[STATES][:, tokens]
        )
    )


def _same_logits(request: Request, reply: Reply, reference: Reply) -> bool:
    cut = len(request.inputs[-1]) > 1
    return cut and _right_at(slice(None))(request, reply, reference)


def _only_later_pieces(request: Request, reply: Reply, reference: Reply) -> bool:
    first, *later = request.inputs[-1]
    fails = error_like("broadcast")(request, reply, reference)
    same = _same_logits(request, reply, reference)
    right = _right_at(slice(first))(request, reply, reference)
    return bool(later) and (fails or right) and not same


STEP = TransformerDecoder.step
EMBED = "x = self.embedding(token, past)"
ALL = "mask = causal_mask(past + token.size(1), token.device)"
FIRST_ROWS = edit(STEP, EMBED, f"{ALL}[: token.size(1)]; {EMBED}")
# A step that makes a mask for a single token, too, fails otherwise without the past.
LAST_ROWS = edit(STEP, EMBED, f"{ALL}[past:]; {EMBED}")
NEW_ALONE = edit(
    STEP, EMBED, f"mask = causal_mask(token.size(1), token.device); {EMBED}"
)
NO_PAST = edit(STEP, "layers, cache)", "layers, (None,) * len(cache))")

CACHED_STEP = Question(
    name="cached_step",
    reference=TransformerDecoder,
    use=_use_steps,
    make=_with_positions,
    forbidden=(
        *ATTENTION,
        "attention_course.transformer.TransformerDecoder",
        "attention_course.models.transformer_decoder",
    ),
    stand_ins={"causal_mask": causal_mask, "DecoderBlock": DecoderBlock},
    properties=(
        Property(
            "all tokens at once",
            2,
            lambda g: [_stepwise(g, T)],
            of_output(STATES, same_numbers),
        ),
        Property(
            "one token after the other: the same logits",
            2,
            lambda g: [_stepwise(g, *(1,) * T)],
            of_outputs(0, -1, same_numbers),
        ),
        Property(
            "pieces of several tokens: the same logits",
            1,
            lambda g: [
                _stepwise(g, 2, 3, gradients=True),
                _stepwise(g, 3, 1, 2, layers=1),
            ],
            of_outputs(0, -1, same_gradients),
        ),
        Property(
            "each position goes through the blocks once",
            1,
            lambda g: [_stepwise(g, *(1,) * T)],
            _each_once,
        ),
        Property(
            "inputs unchanged, dtype kept, works on any device",
            1,
            lambda g: manners(_stepwise(g, 2, 3)),
            good_manners,
        ),
    ),
    mistakes=(
        Mistake(
            "every step stands at position 0",
            "So many tokens came before: `embedding(token, past)`.",
            CACHE,
            edit(STEP, EMBED, "x = self.embedding(token)"),
        ),
        Mistake(
            "the past is ignored",
            "Each block wants what it returned at the step before: its place in the"
            " cache.",
            CACHE,
            (NO_PAST, NO_PAST & LAST_ROWS),
        ),
        Mistake(
            "one layer's past for all",
            "Each layer has keys and values of its own: go through blocks, sources and"
            " cache together.",
            CACHE,
            edit(STEP, "layers, cache)", "layers, cache[:1] * len(cache))"),
        ),
        Mistake(
            "the cache is not handed on",
            "What the blocks returned is the next step's cache: one entry per layer.",
            CACHE,
            edit(STEP, "tuple(all_seen)", "(None,) * len(all_seen)"),
        ),
        Mistake(
            "no causal mask",
            "Where several tokens go in at once, each may see itself and what came"
            " before, and no more.",
            MASK,
            edit(STEP, "source, mask,", "source, None,"),
        ),
        Mistake(
            "the first rows of the mask",
            "The new tokens are the *last* of past + T positions: theirs are the mask's"
            " last T rows.",
            MASK,
            FIRST_ROWS,
        ),
        Mistake(
            "a mask for the new positions alone",
            "The new tokens ask all past + T positions: T rows, past + T columns.",
            MASK,
            NEW_ALONE,
        ),
        Mistake(
            "the source's mask left out",
            "Padding in the source may not be attended to: memory.mask goes into every"
            " block.",
            MASK,
            edit(STEP, "memory.mask", "None"),
        ),
        Mistake(
            "the last norm left out",
            "The sum that pre-norm blocks leave is normalised once, before the head.",
            BLOCK,
            edit(STEP, "self.norm(x)", "x"),
        ),
        Mistake(
            "something else is in the cache",
            "The logits are right. The cache has, for each layer, what its block"
            " returned last: keys and values.",
            CACHE,
            sign=_other_cache,
        ),
        Mistake(
            "wrong from the second piece on",
            "What is new has a past: its positions count on, its mask is wider, and"
            " each block gets its own past.",
            CACHE,
            sign=_only_later_pieces,
        ),
        *ANYWHERE,
        Mistake(
            "the beginning is computed again",
            "The numbers are right, the work is not saved: only the new tokens go"
            " through the blocks.",
            CACHE,
            sign=_same_logits,
        ),
        Mistake(
            "right at the last token alone",
            "The last token may see everything. What may the others see?",
            MASK,
            sign=_right_at(slice(-1, None)),
        ),
        Mistake(
            "the stack is put together in another way",
            "Embed, then every block with its own source, mask, source mask and past;"
            " then the norm, then the head.",
            BLOCK,
            sign=comparable(lambda request, reply, reference: True),
        ),
        Mistake(
            "not as many logits as tokens",
            "Every token that goes in gets its logits: (B, T, V), also when T is more"
            " than one.",
            BLOCK,
            sign=lambda request, reply, reference: (
                not reply.error
                and reply.outputs[0].shape[1:2] != reference.outputs[0].shape[1:2]
            ),
        ),
    ),
)
