import pytest

from attention_course.metrics import alignment_hit_rate, exact_match, exact_match_by_length


def test_exact_match_by_hand():
    predictions = ["abc", "abd", "ab", "", "x"]
    references = ["abc", "abc", "abc", "", "x"]

    assert exact_match(predictions, references) == pytest.approx(3 / 5)


def test_exact_match_compares_tokens_in_lists_and_tuples_alike():
    assert exact_match([["a", "b"], ("a", "b")], [("a", "b"), ("b", "a")]) == pytest.approx(1 / 2)


def test_exact_match_by_length_by_hand():
    predictions = ["aaa", "b", "ccc", "x", "e", "ff"]
    references = ["aaa", "b", "cxc", "d", "e", "ff"]

    # The lengths are the sources', which need not be the targets'.
    curve = exact_match_by_length(predictions, references, lengths=[7, 5, 7, 5, 5, 2])
    assert list(curve) == [2, 5, 7]
    assert curve == pytest.approx({2: 1.0, 5: 2 / 3, 7: 1 / 2})


def test_hit_rate_by_hand():
    first = [
        [0.1, 0.7, 0.2],  # largest at 1: hit
        [0.5, 0.3, 0.2],  # largest at 0, gold is 1 or 2, although they have as much together: miss
        [0.0, 0.1, 0.9],  # no gold position: does not count
        [0.4, 0.0, 0.6],  # largest at 2, one of two gold positions: hit
    ]
    first_gold = [{1}, {1, 2}, set(), {0, 2}]
    second, second_gold = [[0.2, 0.8]], [frozenset({1})]  # hit

    assert alignment_hit_rate([first, second], [first_gold, second_gold]) == pytest.approx(3 / 4)


def test_hit_rate_ignores_rows_beyond_the_gold_alignment():
    rows = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]  # the last is what the model did for EOS, or for padding

    assert alignment_hit_rate([rows], [[{0}, {1}]]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(("predictions", "references"), [(3, 2), (2, 3), (0, 0), (0, 2)])
def test_counts_that_differ_or_are_zero_are_refused(predictions, references):
    named = f"{predictions} predictions for {references} examples"
    with pytest.raises(ValueError, match=named):
        exact_match(["a"] * predictions, ["a"] * references)
    with pytest.raises(ValueError, match=named):
        exact_match_by_length(["a"] * predictions, ["a"] * references, [1] * references)
    with pytest.raises(ValueError, match=named):
        alignment_hit_rate([[[1.0]]] * predictions, [[{0}]] * references)


def test_a_missing_length_is_refused():
    with pytest.raises(ValueError, match="2 predictions for 1 examples"):
        exact_match_by_length(["a", "b"], ["a", "b"], [1])


def test_too_few_rows_of_weights_are_refused():
    with pytest.raises(ValueError, match="1 rows of weights for 2 target tokens"):
        alignment_hit_rate([[[0.5, 0.5]]], [[{0}, {1}]])


def test_nothing_to_count_is_refused():
    with pytest.raises(ValueError, match="no target position has a gold position"):
        alignment_hit_rate([[[0.5, 0.5]]], [[set()]])


def test_a_row_of_zeros_points_nowhere():
    weights = [[[0.0, 0.0], [0.0, 1.0]]]
    assert alignment_hit_rate(weights, [[{0}, {1}]]) == pytest.approx(0.5)
