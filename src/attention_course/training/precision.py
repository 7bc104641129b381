"""Find out what a machine can compute on: GPUs, and bfloat16 on its processor."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


def check_gpus(processes: int) -> None:
    """Refuse to compute on fewer GPUs than there are processes on this machine.

    Raises:
        ValueError: there are fewer.
    """
    here = torch.cuda.device_count()
    if here < processes:
        needed = "1 GPU is" if processes == 1 else f"{processes} GPUs are"
        raise ValueError(f"{needed} needed, one for each process; {here} here")


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
