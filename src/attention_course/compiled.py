"""Compiled decoding steps (`torch.compile`) for Transformers.

A compiled step reads whole buffers, so that its shapes repeat. The version to read is
the `step` of `TransformerDecoder` and `TransformerLM`; their cache grows by one
position at every step, so compiling it would need a new graph for every step.
tests/test_compiled.py checks, token by token, that both give the same results, and
counts the graphs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import KeyValue
from attention_course.cache import Growing
from attention_course.seq2seq import EncoderDecoder
from attention_course.transformer import TransformerDecoder, TransformerLM

# Positions in the shortest window that is worth a graph of its own.
SHORTEST = 32
# More graphs than windows, because batches may have several sizes.
GRAPHS = 64


class Compiled(nn.Module):
    """A Transformer, or a language model, whose steps after the first are compiled.

    It takes the model's place: `greedy(Compiled(model), ...)`. Its buffers are
    allocated once per shape and then reused, so it can serve only one search at a time.
    On CUDA, a step is one CUDA graph. Teacher forcing is not compiled.

    Args:
        model: switch it to `eval()` first.
        backend: backend of `torch.compile`. "inductor" needs a compiler; "aot_eager",
            which only traces, is for tests.

    Raises:
        ValueError: the model has no step that can be compiled; recurrent models have
            none.
    """

    def __init__(self, model: nn.Module, backend: str = "inductor"):
        super().__init__()
        stack = model.decoder if isinstance(model, EncoderDecoder) else model
        if not isinstance(stack, TransformerDecoder | TransformerLM):
            raise ValueError(
                "a compiled step is for Transformers; this model has a"
                f" {type(stack).__name__}: decode without compiling"
            )
        self._model: Any = model
        self._stack = stack
        self._rooms: dict[tuple, tuple[KeyValue, ...]] = {}
        cuda = next(model.parameters()).device.type == "cuda"
        mode = "reduce-overhead" if cuda and backend == "inductor" else None
        self._compiled = torch.compile(
            _logits, fullgraph=True, backend=backend, mode=mode
        )

    def forward(self, *given: Any, **asked: Any) -> Any:
        """Call the model itself, without compiling."""
        return self._model(*given, **asked)

    def encode(self, source: Tensor, lengths: Tensor) -> Any:
        """Encode the source once. See `EncoderDecoder.encode`."""
        return self._model.encode(source, lengths)

    def start(self, memory: Any) -> Any:
        """Return the cache before the first step. See `EncoderDecoder.start`."""
        return self._model.start(memory)

    def make_room(
        self, cache: tuple[KeyValue, ...], steps: int
    ) -> tuple[KeyValue, ...]:
        """Move the cache after the first step into this model's own buffers.

        Args:
            cache: from `step`.
            steps: how many positions are still to come.

        Returns:
            The cache, with room for exactly these positions.
        """
        batch, heads, size, width = cache[0].key.shape
        shape = (batch, heads, size + steps, width)
        dtype, device = cache[0].key.dtype, cache[0].key.device
        like: dict[str, Any] = {"dtype": dtype, "device": device}
        kind = (shape, dtype, device)
        if kind not in self._rooms:
            with torch.inference_mode(False):  # so that any search can use them
                self._rooms[kind] = tuple(
                    KeyValue(torch.empty(shape, **like), torch.empty(shape, **like))
                    for _ in cache
                )
        for buffer in (part for room in self._rooms[kind] for part in room):
            # Positions not yet written are read, too. Their weights are zero, but zero
            # times what an earlier search left there is not always zero.
            buffer.zero_()
        return tuple(
            cast(KeyValue, Growing.filled(room, 0).extend(layer))
            for room, layer in zip(self._rooms[kind], cache)
        )

    def step(
        self, token: Int[Tensor, "B 1"], memory: Any, cache: tuple
    ) -> tuple[Float[Tensor, "B 1 V"], None, tuple]:
        """Predict one token. See `EncoderDecoder.step`; this step returns no weights.

        Raises:
            ValueError: there is no room for another token.
        """
        if not isinstance(cache[0], Growing):
            logits, _, cache = self._model.step(token, memory, cache)
            return logits, None, cache
        filled, room = cache[0].key.size(2), cache[0].room.key.size(2)
        if filled == room:
            raise ValueError(f"the buffers have room for {room} positions, and no more")
        size = next(size for size in windows(room) if size > filled)
        looked_at = [
            KeyValue(*(part.narrow(2, 0, size) for part in layer.room))
            for layer in cache
        ]
        for part in (part for layer in looked_at for part in layer):
            torch._dynamo.mark_static(part, 2)
            # CUDA graphs write only to tensors that are marked as staying in place.
            torch._dynamo.mark_static_address(part)
        place = torch.full((1,), filled, device=token.device)
        with torch._dynamo.config.patch(recompile_limit=GRAPHS):
            logits = self._compiled(self._stack, token, memory, looked_at, place)
        grown = tuple(Growing.filled(layer.room, filled + 1) for layer in cache)
        return logits, None, grown


@contextmanager
def compiling() -> Iterator[None]:
    """Report in one line why a machine cannot compile.

    Raises:
        ValueError: something could not be compiled.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch._dynamo.exc.BackendCompilerFailed):
            raise
        reason = error.inner_exception
        first, *_ = str(reason).strip().splitlines() or [type(reason).__name__]
        raise ValueError(
            f"nothing can be compiled here ({first}): leave out compile"
        ) from error


def windows(room: int) -> list[int]:
    """List the parts of the buffers that a step may read: all, a half, a quarter, ...

    Args:
        room: T, positions in the buffers.

    Returns:
        At most 1 + log2(T / 32) lengths if T is at least 32, otherwise one; the
        shortest first.
    """
    sizes = [room]
    while sizes[-1] // 2 >= SHORTEST:
        sizes.append(sizes[-1] // 2)
    return sizes[::-1]


class _Window(KeyValue):
    """The part of the buffers that a block reads; new positions are written into it.

    Attributes:
        place: (1,), where the new position belongs.
        order: the order in which to read, so that the new position comes last; None:
            the order in which they are stored.
    """

    place: Tensor
    order: Tensor | None

    def extend(self, new: KeyValue) -> KeyValue:
        for buffer, part in zip(self, new):
            buffer.index_copy_(2, self.place, part)
        if self.order is None:
            return KeyValue(*self)
        return KeyValue(*(buffer.index_select(2, self.order) for buffer in self))


def _logits(
    stack: TransformerDecoder | TransformerLM,
    token: Int[Tensor, "B 1"],
    memory: Any,
    looked_at: list[KeyValue],
    place: Int[Tensor, "1"],
) -> Float[Tensor, "B 1 V"]:
    """Write a token's keys and values to their place and predict the next token."""
    slot = torch.arange(looked_at[0].key.size(2), device=token.device)
    order = None
    if any(getattr(b.self_attention, "positions", None) for b in stack.blocks):
        # Rotary positions count from the first slot, and the query must be in the last.
        slot = order = (slot + place + 1) % len(slot)
    past, mask = place.expand(token.size(0)), (slot <= place)[None]  # (B), (1, slots)
    if isinstance(stack, TransformerLM) and memory is not None:
        padding = (~memory.mask).sum(dim=1)
        past = place - padding
        mask = mask & (slot >= padding[:, None])[:, None]  # (B, 1, slots)
    x = stack.embedding(token, past)
    for i, block in enumerate(stack.blocks):
        window = _Window(*looked_at[i])
        window.place, window.order = place, order
        if isinstance(stack, TransformerLM):
            x, _ = block(x, mask, window)
        else:
            x, _, _ = block(x, memory.layers[i], mask, memory.mask, window)
    return stack.head(stack.norm(x))
