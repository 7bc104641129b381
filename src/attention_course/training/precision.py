"""Compute in bfloat16 on a processor that has no instructions for it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


@contextmanager
def fallback_kernels(autocast: AbstractContextManager) -> Iterator[None]:
    """Leave oneDNN out where it cannot compute in bfloat16.

    On a processor without AVX-512, torch hands an LSTM to oneDNN all the same, which
    raises; torch's own kernels compute it.

    Args:
        autocast: the context in which the model computes.
    """
    with autocast:
        half = torch.is_autocast_enabled("cpu")
    if not half or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        yield
        return
    with torch.backends.mkldnn.flags(False, deterministic=None, allow_tf32=None):
        yield
