"""`make operators`: what a training step and a step of decoding ask of the device."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

# What the host waits for, or may: copies, values that are read, sizes that depend on
# values.
WAITS = ("_to_copy", "_local_scalar_dense", "nonzero")


class Operators(TorchDispatchMode):
    """Counts the operators that reach the device while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count one, and run it."""
        self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

    @property
    def waits(self) -> dict[str, int]:
        """Return those of `WAITS` that there were."""
        return {name: self.counts[name] for name in WAITS if self.counts[name]}

    @property
    def total(self) -> int:
        """Return how many operators there were."""
        return self.counts.total()
