import math

import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from attention_course.attention import attend
from attention_course.blockwise import blockwise_attend
from attention_course.masks import causal_mask, padding_mask
from attention_course.scores import ScaledDotScore

B, H, T, S, D, DV = 2, 3, 5, 11, 7, 13


def vectors(*shape, **like):
    return [torch.randn(*shape, n, d, **like) for n, d in ((T, D), (S, D), (S, DV))]


def at_once(query, key, value, mask=None):
    return attend(ScaledDotScore()(query, key), value, mask)[0]


def masks(device=None):
    padding = padding_mask(torch.tensor([4, 11], device=device), S)
    empty = torch.ones(B, T, S, dtype=torch.bool, device=device)
    empty[0, 1], empty[1, 2, :6] = False, False
    return {
        "none": None,
        "padding": padding,
        "causal": causal_mask(S, device)[-T:],
        "empty rows and blocks": empty,
        "one number": padding[0, 0, 0],
    }


def test_two_blocks_by_hand():
    """Exponentials 1, 3 and 9; the second block has a larger score and shrinks the
    first: (1 * 13 + 3 * 26 + 9 * 39) / 13."""
    key = torch.tensor([[[0.0], [math.log(3.0)], [math.log(9.0)]]])
    value = torch.tensor([[[13.0], [26.0], [39.0]]])
    context = blockwise_attend(torch.ones(1, 1, 1), key, value, block_size=2)

    assert_close(context, torch.tensor([[[34.0]]]))


@pytest.mark.parametrize("block_size", [1, 2, 3, 11, 128])
@pytest.mark.parametrize("kind", masks())
def test_blocks_give_what_attend_gives(block_size, kind, device):
    inputs = [x.requires_grad_() for x in vectors(B, device=device)]
    mask, direction = masks(device)[kind], torch.randn(B, T, DV, device=device)
    context = blockwise_attend(*inputs, mask, block_size)
    expected = at_once(*inputs, mask)

    assert_close(context, expected)
    assert_close(
        torch.autograd.grad((context * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
        rtol=1e-4,
        atol=1e-5,
    )


def test_heads_are_a_leading_axis():
    query, key, value = vectors(B, H)
    mask = padding_mask(torch.tensor([4, 11]), S)[:, None]

    context = blockwise_attend(query, key, value, mask, block_size=4)
    assert_close(context, at_once(query, key, value, mask))


def test_a_query_that_may_attend_to_nothing_says_nothing():
    inputs = [x.requires_grad_() for x in vectors(B)]
    mask = masks()["empty rows and blocks"]
    with torch.autograd.set_detect_anomaly(True):
        context = blockwise_attend(*inputs, mask, block_size=3)
        context.square().sum().backward()

    assert not context[0, 1].any()
    assert context[0, 0].any()
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rising", [True, False])
def test_large_scores_do_not_overflow(dtype, rising):
    key = torch.tensor([[[-200.0], [0.0], [200.0]]], dtype=dtype)
    value = torch.tensor([[[1.0], [2.0], [3.0]]], dtype=dtype)
    if not rising:
        key, value = key.flip(1), value.flip(1)
    query = torch.full((1, 1, 1), 200.0, dtype=dtype)
    context = blockwise_attend(query, key, value, block_size=1)

    assert context.dtype == dtype
    assert_close(context.float(), torch.tensor([[[3.0]]]))


def test_halves_are_summed_in_single_precision():
    """1000 values of 1 in blocks of 1: in float16 a sum of exponentials ends at 2048,
    and one in bfloat16 at 256."""
    for dtype in (torch.float16, torch.bfloat16):
        zeros = torch.zeros(1, 4096, 1, dtype=dtype)
        context = blockwise_attend(zeros[:, :1], zeros, zeros + 1, block_size=1)
        assert_close(context.float(), torch.ones(1, 1, 1))


class Largest(TorchDispatchMode):
    """Watch how many numbers the largest tensor has that is made."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                stored = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.numbers = max(self.numbers, stored)
        return made


def test_no_tensor_of_all_pairs_is_made():
    x = torch.randn(1, 512, 2)
    with Largest() as blockwise, torch.no_grad():
        blockwise_attend(x, x, x, block_size=16)
    with Largest() as whole, torch.no_grad():
        at_once(x, x, x)

    assert whole.numbers == 512 * 512
    assert blockwise.numbers == 512 * 16


def test_a_source_of_nothing_says_nothing():
    query, key, value = vectors(B)

    assert not blockwise_attend(query, key[:, :0], value[:, :0]).any()


def test_runs_without_data():
    mask = masks(torch.device("meta"))["padding"]
    context = blockwise_attend(*vectors(B, device="meta"), mask, block_size=3)
    assert (context.device.type, context.shape) == ("meta", (B, T, DV))


# What follows is about our own errors, and about compiling: it runs where no hook
# checks shapes before us.


@pytest.mark.plain
def test_what_does_not_fit_is_refused():
    query, key, value = vectors(B)
    wide = torch.ones(B, T, S + 1, dtype=torch.bool)
    for match, wrong in {
        "at least 1 position, got 0": lambda: blockwise_attend(
            query, key, value, block_size=0
        ),
        r"\(2, 11, 7\) and values of \(2, 10, 13\)": lambda: blockwise_attend(
            query, key, value[:, 1:]
        ),
        r"\(1, 5, 7\) and keys of \(2, 11, 7\)": lambda: blockwise_attend(
            query[:1], key, value
        ),
        "width 6, got width 7": lambda: blockwise_attend(query[..., 1:], key, value),
        r"\(2, 5, 12\) does not broadcast": lambda: blockwise_attend(
            query, key, value, wide
        ),
        "torch.bool": lambda: blockwise_attend(query, key, value, wide[..., 1:].int()),
    }.items():
        with pytest.raises(ValueError, match=match):
            wrong()


@pytest.mark.plain
def test_blocks_compile_as_one_graph():
    inputs, mask = vectors(B), masks()["padding"]
    compiled = torch.compile(blockwise_attend, fullgraph=True, backend="aot_eager")

    assert_close(compiled(*inputs, mask, 3), blockwise_attend(*inputs, mask, 3))
