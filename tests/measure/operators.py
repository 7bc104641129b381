"""What asks a device for more than it computes: operators, counted while they run."""

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

# What the host waits for, or may: copies from device to device, values that are read,
# sizes that depend on values.
COPY = "_to_copy"
WAITS = (COPY, "_local_scalar_dense", "nonzero")


class Operators(TorchDispatchMode):
    """Counts the operators that are called while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Count one, and run it."""
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        self.total += 1
        # Another dtype on the same device is computed there.
        converts = name == COPY and kwargs.get("device") in (None, args[0].device)
        if name in WAITS and not converts:
            self.waits[name] += 1
        return func(*args, **kwargs)
