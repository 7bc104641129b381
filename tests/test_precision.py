"""Processors without bfloat16 compute in it with torch's own kernels."""

import pytest
import torch

from attention_course.training.precision import check_gpus, fallback_kernels


@pytest.mark.parametrize(
    ("half", "supported", "onednn"),
    [(True, False, False), (True, True, True), (False, False, True)],
)
def test_onednn_is_left_out_where_it_cannot_compute(
    monkeypatch, half, supported, onednn
):
    monkeypatch.setattr(
        torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported
    )
    with fallback_kernels(torch.autocast("cpu", torch.bfloat16, enabled=half)):
        assert torch._C._get_mkldnn_enabled() is onednn
    assert torch._C._get_mkldnn_enabled()


def test_each_process_needs_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check_gpus(1)
    with pytest.raises(ValueError, match="2 GPUs are needed, .*; 1 here"):
        check_gpus(2)
