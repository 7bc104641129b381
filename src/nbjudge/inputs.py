"""Draw what requests hold: random tensors, masks and parameters, in several dtypes.

Never saturated, never symmetric, every axis of another length.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbjudge.question import Request


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw from the standard normal distribution, in double precision."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def some_allowed(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw a random mask.

    Every row allows at least one position and forbids at least one.
    """
    order = torch.rand(*shape, generator=generator).argsort(dim=-1)
    return (order == 0) | (
        (order > 1) & (torch.rand(*shape, generator=generator) < 0.5)
    )


def parameters(
    generator: torch.Generator, make: Callable[[], nn.Module]
) -> dict[str, Tensor]:
    """Draw parameters for a module, small enough that nothing saturates."""
    with torch.device("meta"):
        shapes = {
            name: parameter.shape for name, parameter in make().named_parameters()
        }
    return {
        name: normal(generator, *shape) / max(shape[-1], 2) ** 0.5
        for name, shape in shapes.items()
    }


def manners(request: Request) -> Iterator[Request]:
    """Ask the same again in other dtypes and on another device."""
    for dtype in (torch.float32, torch.bfloat16):
        yield replace(request, dtype=dtype)
    yield replace(request, device="meta")
