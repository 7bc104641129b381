import torch

from attention_course.masks import causal_mask, padding_mask


def test_padding_mask_by_hand(device):
    mask = padding_mask(torch.tensor([3, 5], device=device), 5)

    assert mask.device.type == device.type
    assert mask.tolist() == [[[True, True, True, False, False]], [[True, True, True, True, True]]]


def test_padding_mask_reaches_beyond_the_longest_sentence():
    assert padding_mask(torch.tensor([2, 0]), 3).tolist() == [[[True, True, False]], [[False, False, False]]]


def test_causal_mask_by_hand(device):
    mask = causal_mask(3, device)

    assert mask.device.type == device.type
    assert mask.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_masks_combine_with_and():
    both = padding_mask(torch.tensor([1, 3]), 3) & causal_mask(3)

    assert both.shape == (2, 3, 3)
    assert both[0].tolist() == [[True, False, False]] * 3
    assert both[1].tolist() == causal_mask(3).tolist()


def test_masks_are_made_where_they_are_asked_for():
    assert padding_mask(torch.ones(2, dtype=torch.long, device="meta"), 5).device.type == "meta"
    assert causal_mask(5, torch.device("meta")).device.type == "meta"
