"""A key-value cache that is written in place, into buffers with room for later tokens.

`KeyValue.extend` copies all keys and values for every new token. Here, the first step
of decoding moves them into buffers; from then on, a step writes only its own keys and
values and copies nothing. The model does not notice, because it still gets a
`KeyValue`, which is also the version to read; tests/test_cache.py checks that both give
the same results.
"""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from attention_course.attention import KeyValue
from attention_course.seq2seq import select

# Positions added at a time on a CPU. A slice of much larger buffers is so slow to read
# there (its rows lie far apart) that room for all steps costs more than it saves.
AHEAD = 8


class Growing(KeyValue):
    """Keys and values that fill the beginning of buffers with room for more.

    Each `extend` returns a new object that shares the buffers, so only the newest may
    be extended.

    Attributes:
        room: the whole buffers, each (B, H, M, Dh).
    """

    room: KeyValue

    @classmethod
    def filled(cls, room: KeyValue, size: int) -> "Growing":
        """View the first positions of the buffers.

        Args:
            room: the buffers.
            size: how many of their positions are filled.

        Returns:
            Keys and values (B, H, `size`, Dh), as views without a copy.
        """
        made = cls(*(buffer.narrow(2, 0, size) for buffer in room))
        made.room = room
        return made

    def extend(self, new: KeyValue) -> KeyValue:
        """Append positions in place; if there is no room left, make more first."""
        begin, count = self.key.size(2), new.key.size(2)
        if begin + count > self.room.key.size(2):
            return make_room(KeyValue(*self), max(count, AHEAD)).extend(new)
        for buffer, part in zip(self.room, new):
            buffer.narrow(2, begin, count).copy_(part)
        return Growing.filled(self.room, begin + count)


def make_room(cache: Any, steps: int) -> Any:
    """Move the keys and values of a cache into buffers.

    Args:
        cache: what a model's step returned; everything except `KeyValue` stays as it
            is.
        steps: how many positions are still to come. On a CPU, there is room for the
            next few of them, elsewhere for all.

    Returns:
        The cache, with a `Growing` in place of each `KeyValue`.
    """
    if isinstance(cache, KeyValue):
        batch, heads, size, width = cache.key.shape
        on_cpu = cache.key.device.type == "cpu"
        shape = (batch, heads, size + (min(steps, AHEAD) if on_cpu else steps), width)
        room = KeyValue(*(part.new_empty(shape) for part in cache))
        return Growing.filled(room, 0).extend(cache)
    if isinstance(cache, tuple):
        return _rebuilt(cache, [make_room(part, steps) for part in cache])
    return cache


class Lineage:
    """Remember which row wrote each position, to find what a new order changes.

    Beams of one sentence share their prefixes: a row that continues another row has the
    same keys and values as that row, except for the last few positions.

    Args:
        rows: N, rows in the batch.
        device: where the cache is. On a CPU, the search checks which positions have
            changed. On another device it would have to wait for the answer, so
            everything written since the first step counts as changed.
    """

    def __init__(self, rows: int, device: torch.device):
        self._all = torch.arange(rows, device=device)
        self._looks = device.type == "cpu"
        self._steps = 0
        # Column t: which row wrote the position of step t. Counting starts after the
        # first step, in which all rows of a sentence are the same.
        self._writers = self._all.new_empty(rows, 0)

    def changed(self, parent: Int[Tensor, " N"]) -> int:
        """Record, after a step, that row r continues row `parent[r]`.

        Returns:
            How many of the last positions of a row may differ from those of its parent.
        """
        steps, self._steps = self._steps, self._steps + 1
        if not self._looks:
            return steps
        old = self._writers
        new = old.index_select(0, parent)
        self._writers = torch.cat([new, self._all[:, None]], dim=1)
        first = (new != old).any(dim=0).nonzero()[:1, 0].tolist()
        return steps - first[0] if first else 0


def reorder(cache: Any, parent: Int[Tensor, " N"], changed: int) -> Any:
    """Put the rows of a cache into a new order; in a `Growing`, do it in place.

    Args:
        cache: a tensor with the batch on axis 0, None, or a tuple of these.
        parent: for each row, the old row that replaces it.
        changed: how many of the last positions may differ between a row and its parent.

    Returns:
        The cache whose row r is the old row `parent[r]`.
    """
    if cache is None or isinstance(cache, Tensor):
        return select(cache, parent)
    if isinstance(cache, Growing):
        for part in cache if changed else ():
            last = part.narrow(2, part.size(2) - changed, changed)
            last.copy_(last.index_select(0, parent))
        return cache
    return _rebuilt(cache, [reorder(part, parent, changed) for part in cache])


def _rebuilt(tree: Any, parts: list[Any]) -> Any:
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
