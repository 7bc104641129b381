import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_course.masks import causal_mask, padding_mask, sliding_window_mask


def test_padding_mask_by_hand(device):
    mask = padding_mask(torch.tensor([3, 5], device=device), 5)

    assert mask.device.type == device.type
    assert mask.tolist() == [
        [[True, True, True, False, False]],
        [[True, True, True, True, True]],
    ]


def test_padding_mask_reaches_beyond_the_longest_sentence():
    assert padding_mask(torch.tensor([2, 0]), 3).tolist() == [
        [[True, True, False]],
        [[False, False, False]],
    ]


def test_causal_mask_by_hand(device):
    mask = causal_mask(3, device)

    assert mask.device.type == device.type
    assert mask.tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_masks_combine_with_and():
    both = padding_mask(torch.tensor([1, 3]), 3) & causal_mask(3)

    assert both.shape == (2, 3, 3)
    assert both[0].tolist() == [[True, False, False]] * 3
    assert both[1].tolist() == causal_mask(3).tolist()


def test_masks_are_made_where_they_are_asked_for():
    assert (
        padding_mask(torch.ones(2, dtype=torch.long, device="meta"), 5).device.type
        == "meta"
    )
    assert causal_mask(5, torch.device("meta")).device.type == "meta"
    assert sliding_window_mask(5, 1, torch.device("meta")).device.type == "meta"


def test_sliding_window_mask_by_hand(device):
    mask = sliding_window_mask(4, 1, device)

    yes, no = True, False
    assert mask.device.type == device.type
    assert mask.tolist() == [
        [yes, yes, no, no],
        [yes, yes, yes, no],
        [no, yes, yes, yes],
        [no, no, yes, yes],
    ]


def test_a_causal_window_looks_back_only():
    mask = sliding_window_mask(4, 1) & causal_mask(4)

    yes, no = True, False
    assert mask.tolist() == [
        [yes, no, no, no],
        [yes, yes, no, no],
        [no, yes, yes, no],
        [no, no, yes, yes],
    ]


@given(st.integers(1, 9), st.integers(0, 9))
def test_a_window_reaches_as_far_as_it_says(size, width):
    mask = sliding_window_mask(size, width)

    assert mask.tolist() == [
        [abs(t - s) <= width for s in range(size)] for t in range(size)
    ]


@pytest.mark.plain
def test_a_window_that_reaches_nowhere_is_refused():
    with pytest.raises(ValueError, match="0 tokens or more.*width -1"):
        sliding_window_mask(4, -1)
