"""See what an answer does inside torch: on which devices, and with which operators.

Torch's modes see every call: without a GPU, they tell an answer that would fail on one.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nbjudge.question import Request

# Operators that accept tensors on several devices: copies, and those with an index or
# lengths on the CPU.
SEVERAL_DEVICES = frozenset(
    ("copy_", "_to_copy", "index", "index_put", "index_put_", "_pack_padded_sequence")
)
# Functions that create a tensor.
FACTORIES = frozenset(
    getattr(torch, name)
    for name in (
        *("zeros", "ones", "empty", "full", "eye", "arange", "linspace", "logspace"),
        *("tensor", "as_tensor", "rand", "randn", "randint", "randperm"),
        *("tril_indices", "triu_indices", "scalar_tensor", "normal"),
    )
)


@contextlib.contextmanager
def watch(request: Request) -> Iterator[tuple[list[str], "FactoriesElsewhere"]]:
    """Watch an answer at work: yields the operators it calls, and what it fetches.

    On another device than the CPU, operators that would fail on a GPU are refused.
    """
    operators, elsewhere = _Operators(), FactoriesElsewhere()
    with (
        elsewhere if request.elsewhere else contextlib.nullcontext(),
        _OneDevice() if request.device != "cpu" else contextlib.nullcontext(),
        operators if request.traced else contextlib.nullcontext(),
    ):
        yield operators.names, elsewhere


def _address(x: Tensor) -> int:
    """Return the address of a tensor's storage; 0 within `torch.func.vmap`."""
    with contextlib.suppress(NotImplementedError):
        return x.untyped_storage().data_ptr()
    return 0


class FactoriesElsewhere(TorchFunctionMode):
    """Put tensors that are created without a device on another device than the inputs.

    Loops over values still work, as on a GPU and unlike on device meta, which has no
    values. A tensor without axes may be combined with tensors on any device. A tensor
    that is fetched to the CPU counts as being on another device until it is moved back
    to the inputs' device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fetched: dict[int, Tensor] = {}  # by the address of their storage

    def has_fetched(self, x: Any) -> bool:
        """Return whether something is a fetched tensor, or shares memory with one."""
        numbers = isinstance(x, Tensor) and not x.is_meta and x.numel()
        return bool(numbers) and _address(x) in self.fetched

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if any(isinstance(x, Tensor) and x.is_meta for x in tree_leaves(args)):
            # Both are on the CPU: one was made there, the other fetched.
            args = tree_map(lambda x: x.to("meta") if self.has_fetched(x) else x, args)
        made = func(*args, **(kwargs or {}))
        fetched = func is Tensor.cpu or (func is Tensor.to and "cpu" in args[1:])
        from_fetched = func is not Tensor.to and any(map(self.has_fetched, args))
        if isinstance(made, Tensor) and (fetched or from_fetched):
            made = made.clone() if fetched else made
            if address := _address(made):
                self.fetched[address] = made
        named = (kwargs or {}).get("device")
        # An answer that passes on the inputs' device passes no string.
        if func in FACTORIES and named in (None, "cpu") and made.dim():
            return made.to("meta")
        return made


class _OneDevice(TorchDispatchMode):
    """Refuse what fails on a GPU but passes on device meta: gather by a CPU's index."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        leaves = tree_leaves((args, kwargs))
        devices = {x.device.type for x in leaves if isinstance(x, Tensor) and x.dim()}
        if len(devices) > 1 and func.overloadpacket.__name__ not in SEVERAL_DEVICES:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found"
                f" {' and '.join(sorted(devices))}"
            )
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    """Record the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))
