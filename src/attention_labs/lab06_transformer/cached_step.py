"""Question `cached_step`: a decoder step with a cache of keys and values."""

from collections.abc import Callable, Sequence
from dataclasses import replace
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
    LENGTHS,
    NO_NOTHING,
    SENTENCES,
    SIZES,
    SOURCE,
    STATES,
    TARGET,
    DecoderBlock,
    flattened,
    tensors_of,
)
from attention_labs.pages import MASK
from nbjudge import (
    ANYWHERE,
    ATTENTION,
    MODULE,
    Axis,
    Battery,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    Sign,
    close,
    comparable,
    edit,
    error_like,
    good_manners,
    normal,
    of_output,
    of_outputs,
    parameters,
    same_gradients,
    same_numbers,
    some_allowed,
)

Undone = Callable[[Request, Reply, Reply], Reply]
# A step: so many tokens after so many steps, in a tree that begins with nothing.
Steps = Sequence[tuple[int, int]]


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
    steps: Steps,
    rows: Sequence[int],
) -> Any:
    """Step over a target; each step goes on from an earlier one, its rows reordered.

    Every second target has another source. Count what goes through the blocks, caches
    that are no tuples, and results that are something else than the lab says.
    """
    memory = TransformerMemory(tuple(map(KeyValue, key, value)), mask)
    layers = tuple(map(KeyValue, key.flip(1), value.flip(1)))
    another = TransformerMemory(layers, mask.flip(0))
    counted = [0]
    for block in decoder.blocks:
        block.register_forward_hook(
            lambda module, inputs, output: counted.append(output[0][..., 0].numel())
        )
    caches, logits, others, odd = [decoder.start(memory)], [], 0, 0
    memories, begun = [memory], 0
    pieces = target.split([tokens for tokens, _ in steps], dim=1)
    for tokens, (_, after) in zip(pieces, steps):
        cache = caches[after]
        if after and rows:
            cache = tuple(KeyValue(*(x[rows] for x in layer)) for layer in cache)
        begun += not after
        memory = memories[after] if after or begun % 2 else another
        memories.append(memory)
        out = decoder.step(tokens, memory, cache)
        if not isinstance(out, tuple) or len(out) != 3:
            return flattened(out)
        logits.append(out[0])
        caches.append(out[2])
        others += not isinstance(out[2], tuple)
        odd += out[1] is not None
        odd += any(x is not None and not hasattr(x, "key") for x in out[2])
    work = logits[0].new_tensor([sum(counted), others, odd])
    return torch.cat(logits, dim=1), *tensors_of(caches[-1]), work


def _stepwise(d: Draw, steps: Steps, rows: Sequence[int] = ()) -> Request:
    dim, shape = 2 * d.H * d.DH, (d.L, d.B, d.H, d.S, 2 * d.DH)
    init = d.V, dim, d.H, d.HIDDEN, d.L
    weights = parameters(d, lambda: _with_positions(TransformerDecoder, *init))
    target = torch.randint(d.V, (d.B, sum(n for n, _ in steps)), generator=d)
    memory = normal(d, *shape), normal(d, *shape), some_allowed(d, d.B, 1, d.S)
    return Request((target, *memory, list(steps), list(rows)), init, weights)


def _at_once(d: Draw) -> Request:
    return _stepwise(d, [(d.T, 0)])


def _one_by_one(d: Draw) -> Request:
    return _stepwise(d, [(1, t) for t in range(d.number(3, 6))])


def _in_pieces(d: Draw) -> Request:
    return _stepwise(d, [(d.number(2, 3), 0), (d.T, 1), (1, 2)])


def _like_beams(d: Draw) -> list[Request]:
    """Write two beginnings in turns, and go on from one of them twice.

    As many tokens come after a long beginning, and then after a short one.
    """
    turns = [(2, 0), (d.T, 0), (1, 1), (2, 2), (1, 1), (3, 3)]
    back = [(1, 0), (4, 1), (2, 2), (2, 1), (3, 0)]
    order = torch.randint(d.B, (d.B,), generator=d).tolist()
    return [_stepwise(d, turns), _stepwise(d, turns, order), _stepwise(d, back)]


def _rare(d: Draw) -> list[Request]:
    deep = replace(_at_once(BATTERY.sized(d, L=3)), training=False)
    asked = [replace(x, gradients=True) for x in (_in_pieces(d), deep)]
    return [*asked, *_like_beams(d)]


BATTERY = Battery(
    MODULE,
    _in_pieces,
    {
        "B": SENTENCES,
        "T": TARGET,
        "S": SOURCE,
        "V": Axis("tokens in the vocabulary", long=300, fixed=True),
        "L": Axis("blocks", most=2, fixed=True),
        **SIZES,
    },
    leaves_out={"in front": "the text says (B, T)", **NO_NOTHING},
)


def _each_once(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    if reply.error or reply.outputs[-1].shape != (3,):
        return Finding(reply.error or "no counts of calls", "no error")
    counted, others, odd = reply.outputs[-1].tolist()
    few = reference.outputs[-1][0].item()
    if counted > few:
        return Finding(f"{counted:.0f} tokens through the blocks", f"{few:.0f}")
    if others:
        return Finding("a cache that is no tuple", "a tuple")
    wanted = "logits, None, and a tuple of `KeyValue`"
    return Finding("other results", wanted) if odd else None


def _without(place: int) -> Undone:
    """Undo what one of the counts of odd things says."""

    def undone(request: Request, reply: Reply, reference: Reply) -> Reply:
        if reply.outputs[-1].shape != (3,):
            return reply
        work = reply.outputs[-1].clone()
        work[place] = 0
        return reply._replace(outputs=(*reply.outputs[:-1], work))

    return undone


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
    """Whether what is said is right, and too much is computed for it."""
    right = _right_at(slice(None))(request, reply, reference)
    return right and bool(reply.outputs[-1][0] > reference.outputs[-1][0])


def _in_turns(request: Request, reply: Reply, reference: Reply) -> bool:
    """Whether some step does not go on from the one before it."""
    return any(after != i for i, (_, after) in enumerate(request.inputs[4]))


def _only_later_pieces(request: Request, reply: Reply, reference: Reply) -> bool:
    (first, _), *later = request.inputs[4]
    fails = error_like("broadcast")(request, reply, reference)
    same = _right_at(slice(None))(request, reply, reference)
    right = _right_at(slice(first))(request, reply, reference)
    in_turns = _in_turns(request, reply, reference) or request.before
    return bool(later) and not in_turns and (fails or right) and not same


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

QUESTION = Question(
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
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "stack": "Now you write the decoder, too: embed the tokens, apply all blocks,"
        " then apply the norm and the head.",
        "one and many": "The decoder's method `step` takes T tokens that come after P"
        " earlier tokens. It must work for one token and for many, at the beginning of"
        " a target and later.",
        "cache": "It is a tuple with one entry per block. Each entry is None at the"
        " start, and later it is the `KeyValue` that the block returned. Compute only"
        " the new positions in a step.",
        "past": "You can read P off the shape of the keys in the cache, (B, H, P, Dh).",
        "embedding": "`self.embedding(token, past)` embeds the tokens and adds"
        " positions that count from `past`. Use P as `past`.",
        "rows": "The new tokens are the last T of P + T tokens. Which T rows of the"
        " causal mask belong to them? Give the blocks only these rows, (T, P + T).",
        "sources": "`memory.layers` holds the `KeyValue` of the source for each"
        " block, and `memory.mask` is the mask of the source.",
        "predicts": "Predict the next token after each of T tokens.",
        "token": "token: token ids (B, T).",
        "memory": "memory: has `layers`, a `KeyValue` of the source for each block, and"
        " `mask` (B, 1, S).",
        "of cache": "cache: a tuple with one entry per block: None, or the block's"
        " `KeyValue` of the P earlier tokens.",
        "returns": "Logits (B, T, V), None, and the next cache.",
    },
    properties=(
        BATTERY.numbers(
            "all tokens at once",
            2,
            of_output(STATES, same_numbers),
            checks=("stack", "sources", "predicts", "token", "memory"),
            gradients=False,
            requests=_at_once,
        ),
        BATTERY.line(
            "one token at a time, with the same logits",
            2,
            _one_by_one,
            of_outputs(0, -1, same_numbers),
            checks=("one and many", "past", "embedding", "cache", "of cache"),
        ),
        BATTERY.line(
            "each position passes through the blocks once; the cache is a tuple",
            1,
            lambda d: [_one_by_one(d), _in_pieces(d)],
            _each_once,
            checks=("cache",),
        ),
        BATTERY.edges(
            1,
            of_outputs(0, -1, same_gradients),
            claim="pieces of several tokens; sentences in turns; reordered rows of the"
            " cache; edge cases",
            also=_rare,
            checks=("lengths", "one and many", "past", "rows", "returns"),
        ),
        BATTERY.manners(1, of_outputs(0, -1, good_manners)),
    ),
    mistakes=(
        Mistake(
            "every step begins at position 0",
            "The new tokens come after the P tokens of the past: `embedding(token,"
            " past)`.",
            CACHE,
            edit(STEP, EMBED, "x = self.embedding(token)"),
        ),
        Mistake(
            "the past is ignored",
            "Give each block its own entry of the cache, which is the `KeyValue` that"
            " it returned in the step before.",
            CACHE,
            (NO_PAST, NO_PAST & LAST_ROWS),
        ),
        Mistake(
            "all blocks get the first block's past",
            "Each block has its own keys and values. Loop over blocks, sources and"
            " cache together.",
            CACHE,
            edit(STEP, "layers, cache)", "layers, cache[:1] * len(cache))"),
        ),
        Mistake(
            "all blocks get the first block's source",
            "Each block has its own keys and values of the source. Loop over blocks,"
            " sources and cache together.",
            CACHE,
            (
                edit(STEP, "memory.layers", "memory.layers[:1] * len(cache)"),
                edit(STEP, "memory.layers", "memory.layers[-1:] * len(cache)"),
            ),
        ),
        Mistake(
            "no causal mask once there is a past",
            "A later step may take several tokens, too. None of them may attend to a"
            " later one.",
            MASK,
            edit(STEP, "source, mask,", "source, None if past else mask,"),
        ),
        Mistake(
            "the cache is not passed on",
            "Return what the blocks returned as the next cache, one entry per block.",
            CACHE,
            edit(STEP, "tuple(all_seen)", "(None,) * len(all_seen)"),
        ),
        Mistake(
            "no causal mask",
            "If a step takes several tokens, each of them may attend only to itself"
            " and to earlier tokens.",
            MASK,
            edit(STEP, "source, mask,", "source, None,"),
        ),
        Mistake(
            "first rows of the mask instead of the last",
            "The new tokens are the *last* T of P + T tokens, so their rows are the"
            " last T rows of the mask.",
            MASK,
            FIRST_ROWS,
        ),
        Mistake(
            "a mask for the new positions only",
            "The new tokens attend to all P + T positions. The mask needs T rows and P"
            " + T columns.",
            MASK,
            NEW_ALONE,
        ),
        Mistake(
            "the source mask is missing",
            "No token may attend to padding in the source. Pass memory.mask to every"
            " block.",
            MASK,
            edit(STEP, "memory.mask", "None"),
        ),
        Mistake(
            "the final norm is missing",
            "The output of the last pre-norm block is a sum that is not normalized."
            " Apply `self.norm` once, before the head.",
            BLOCK,
            edit(STEP, "self.norm(x)", "x"),
        ),
        Mistake(
            "a wrong cache is returned",
            "The logits are right. The next cache must hold the keys and values that"
            " each block returned last.",
            CACHE,
            sign=_other_cache,
        ),
        Mistake(
            "the cache is not a tuple",
            "Return the next cache as a tuple with one entry per block. `tuple(...)`"
            " turns a list into a tuple.",
            CACHE,
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][1] > 0)),
            undone=_without(1),
        ),
        Mistake(
            "other results than logits, None, and a tuple of `KeyValue`",
            "Return the logits, None in the place of the weights, and a tuple of what"
            " the blocks returned: a `KeyValue` per block.",
            CACHE,
            edit(STEP, "weights, tuple(all_seen)", "x, tuple(all_seen)"),
            sign=comparable(lambda *asked: bool(asked[1].outputs[-1][2] > 0)),
            undone=_without(2),
        ),
        Mistake(
            "wrong when a step continues an earlier cache",
            "Take everything about the past from the cache. The step before may have"
            " belonged to a different sentence.",
            CACHE,
            sign=comparable(_in_turns),
        ),
        Mistake(
            "wrong when tokens come in several pieces",
            "The new tokens have a past. Their positions begin at P, their mask has P"
            " + T columns, and each block gets its own past.",
            CACHE,
            sign=_only_later_pieces,
        ),
        *ANYWHERE,
        Mistake(
            "the prefix is computed again",
            "The numbers are right, but no work is saved. Pass only the new tokens"
            " through the blocks.",
            CACHE,
            sign=_same_logits,
        ),
        Mistake(
            "right only at the last token",
            "The last token may attend to all tokens. Which tokens may the earlier"
            " ones attend to?",
            MASK,
            sign=_right_at(slice(-1, None)),
        ),
        Mistake(
            "the decoder is put together in a wrong way",
            "Embed the tokens. Call every block with its own source, the mask, the"
            " source's mask and its own past. Then apply the norm and the head.",
            BLOCK,
            sign=comparable(lambda *asked: len(asked[0].inputs[4]) == 1),
        ),
        Mistake(
            "logits for the wrong number of tokens",
            "Return logits for every token, (B, T, V), even if T is more than 1.",
            BLOCK,
            edit(STEP, "self.norm(x)", "self.norm(x[:, -1:])"),
            sign=lambda request, reply, reference: (
                not reply.error
                and reply.outputs[0].shape[1:2] != reference.outputs[0].shape[1:2]
            ),
        ),
    ),
)
