import pytest
import torch
from torch.testing import assert_close

from attention_course.tasks.repeats import repeated_strings


def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("all_different", [True, False])
def test_every_letter_comes_again_after_a_period(all_different):
    strings, periods = repeated_strings(
        50, 23, (3, 7), 11, all_different, generator=generator()
    )

    assert strings.shape == (50, 23) and set(periods.tolist()) == {3, 4, 5, 6, 7}
    assert strings.min() == 0 and strings.max() == 10
    for string, period in zip(strings, periods.tolist()):
        assert_close(string[period:], string[:-period])
        beginning = string[:period].tolist()
        if all_different:
            assert len(set(beginning)) == period


def test_letters_occur_twice_unless_they_should_not():
    strings, _ = repeated_strings(50, 7, (7, 7), 11, generator=generator())

    assert any(len(set(string)) < 7 for string in strings.tolist())


def test_letters_and_periods_are_equally_likely():
    strings, periods = repeated_strings(20_000, 1, (1, 4), 5, generator=generator())

    for drawn, size, first in ((strings[:, 0], 5, 0), (periods, 4, 1)):
        shares = torch.bincount(drawn, minlength=first + size)[first:] / len(drawn)
        assert_close(shares, torch.full((size,), 1 / size), atol=0.015, rtol=0)


@pytest.mark.plain
def test_bad_periods():
    for periods in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"{periods[0]} to {periods[1]} letters"):
            repeated_strings(2, 5, periods)
    with pytest.raises(ValueError, match="period of 6 different letters .* from 5"):
        repeated_strings(2, 5, (3, 6), 5, all_different=True)
