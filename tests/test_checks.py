import pytest
import torch

from attention_course.checks import check_mask, check_width

pytestmark = pytest.mark.plain


def test_the_last_axis_has_the_width():
    check_width(torch.zeros(2, 3, 7), 7)
    with pytest.raises(ValueError, match="of width 3, got width 7$"):
        check_width(torch.zeros(2, 3, 7), 3)
    with pytest.raises(ValueError, match=r"got width 7; was it turned\?$"):
        check_width(torch.zeros(2, 3, 7), 2, "; was it turned?")


@pytest.mark.parametrize(
    "shape", [(2, 3, 5), (2, 1, 5), (1, 3, 1), (3, 5), (1, 5), (5,), (1,), ()]
)
def test_a_mask_that_broadcasts_fits(shape):
    check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 5))


@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 1, 5), (2, 5), (3,), (1, 2, 3, 5)])
def test_a_mask_that_does_not_broadcast_is_refused(shape):
    with pytest.raises(ValueError, match=r"does not broadcast.*\(2, 3, 5\)"):
        check_mask(torch.ones(shape, dtype=torch.bool), (2, 3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_mask_that_is_not_of_bools_is_refused(dtype):
    with pytest.raises(ValueError, match=f"got {dtype}"):
        check_mask(torch.ones(2, 3, 5, dtype=dtype), (2, 3, 5))
