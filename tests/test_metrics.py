import pytest

from attention_course.metrics import (
    alignment_error_rate,
    alignment_hit_rate,
    exact_match,
    exact_match_by_length,
    sure_links,
    text_scores,
    token_accuracy,
)


def test_exact_match_by_hand():
    predictions = ["abc", "abd", "ab", "", "x"]
    references = ["abc", "abc", "abc", "", "x"]

    assert exact_match(predictions, references) == pytest.approx(3 / 5)


def test_exact_match_compares_tokens_in_lists_and_tuples_alike():
    assert exact_match(
        [["a", "b"], ("a", "b")], [("a", "b"), ("b", "a")]
    ) == pytest.approx(1 / 2)


def test_exact_match_by_length_by_hand():
    predictions = ["aaa", "b", "ccc", "x", "e", "ff"]
    references = ["aaa", "b", "cxc", "d", "e", "ff"]

    # The lengths are the sources', which need not be the targets'.
    curve = exact_match_by_length(predictions, references, lengths=[7, 5, 7, 5, 5, 2])
    assert list(curve) == [2, 5, 7]
    assert curve == pytest.approx({2: 1.0, 5: 2 / 3, 7: 1 / 2})


def test_token_accuracy_by_hand():
    # abc: 2 of 3; a token is missing: 2 of 3; one too many: 2 of 3; nothing at all: of
    # none.
    assert token_accuracy(
        ["abx", "ab", "abc", ""], ["abc", "abc", "ab", ""]
    ) == pytest.approx(6 / 9)


def test_tokens_are_compared_where_they_stand():
    assert token_accuracy(["bca"], ["abc"]) == 0.0


def test_no_token_to_count_is_refused():
    with pytest.raises(ValueError, match="no token to count"):
        token_accuracy([""], [""])


def test_text_scores_by_hand():
    prediction, reference = (
        "A black dog runs over the green grass.",
        "A black dog runs on the green grass.",
    )
    bleu, lower_bleu, chrf, lower_chrf = text_scores([prediction], [reference])

    # Of 9 tokens, the full stop being one, 8 are right; of 8 pairs 6, of 7 triples 4,
    # of 6 quadruples 2.
    assert bleu.score == pytest.approx(100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** (1 / 4))
    assert lower_bleu.score == pytest.approx(bleu.score)
    assert 70 < chrf.score < 100
    assert chrf.score == pytest.approx(lower_chrf.score)
    assert [score.name for score in (bleu, lower_bleu, chrf, lower_chrf)] == [
        "BLEU",
        "BLEU",
        "chrF2",
        "chrF2",
    ]


def test_case_counts_in_two_of_four_scores():
    cased, lowered, cased_chrf, lowered_chrf = text_scores(
        ["A DOG runs on the grass"], ["a dog runs on the grass"]
    )

    assert [lowered.score, lowered_chrf.score] == pytest.approx([100, 100])
    assert cased.score < 90 and cased_chrf.score < 90
    assert "case:mixed" in cased.signature and "case:lc" in lowered.signature
    assert str(lowered) == f"BLEU 100.0 ({lowered.signature})"
    assert "version:" in lowered.signature


def test_a_corpus_is_not_the_mean_of_its_sentences():
    predictions, references = ["a b c d e f g h", "x y"], ["a b c d e f g h", "u v"]
    single = [text_scores([p], [r])[0].score for p, r in zip(predictions, references)]

    # 8 of 10 unigrams, 7 of 8 bigrams; the second sentence has no trigram that could be
    # wrong.
    corpus = text_scores(predictions, references)[0].score
    assert corpus == pytest.approx(100 * (8 / 10 * 7 / 8) ** (1 / 4))
    assert corpus != pytest.approx(sum(single) / 2, rel=0.1)


def test_alignment_error_by_hand():
    weights = [
        [0.1, 0.7, 0.2],
        [0.5, 0.3, 0.2],
        [0.0, 0.1, 0.9],
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ]
    gold = [{1}, {1, 2}, set(), {0}]

    # Links at 1 and 0, none from a row of zeros. Sure are those of the first row and of
    # the last; one link is sure, and no other is possible: 1 - (1 + 1) / (2 + 2).
    assert alignment_error_rate([weights], [gold]) == pytest.approx(1 / 2)


def test_a_possible_link_is_right_but_not_required():
    first, second, third = [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.1, 0.9]
    gold = [{0, 1}, {2}]

    assert sure_links(gold) == [frozenset(), {2}]
    # Either possible link does; leaving it out costs nothing, but a wrong one does.
    zeros = [0.0, 0.0, 0.0]
    for row in (first, second, zeros):
        assert alignment_error_rate([[row, third]], [gold]) == pytest.approx(0)
    # 1 - (1 + 1) / (2 + 1)
    assert alignment_error_rate([[third, third]], [gold]) == pytest.approx(1 / 3)
    # A possible one without the sure one: 1 - (0 + 1) / (2 + 1), 1 - (0 + 1) / (1 + 1)
    assert alignment_error_rate([[first, first]], [gold]) == pytest.approx(2 / 3)
    assert alignment_error_rate([[first, zeros]], [gold]) == pytest.approx(1 / 2)
    # Nothing is linked, and nothing sure: nothing is right.
    assert alignment_error_rate([[zeros]], [[{0, 1}]]) == pytest.approx(1)


def test_where_every_token_has_one_source_the_error_is_the_rest_of_the_hit_rate():
    weights = [[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [[0.5, 0.4]]]
    gold = [[{0}, {1}, {1}], [{1}]]

    assert alignment_error_rate(weights, gold) == pytest.approx(
        1 - alignment_hit_rate(weights, gold)
    )
    assert alignment_error_rate(weights, gold) == pytest.approx(1 / 2)


def test_hit_rate_by_hand():
    first = [
        [0.1, 0.7, 0.2],  # largest at 1: hit
        # largest at 0, gold is 1 or 2, although they have as much together: miss
        [0.5, 0.3, 0.2],
        [0.0, 0.1, 0.9],  # no gold position: does not count
        [0.4, 0.0, 0.6],  # largest at 2, one of two gold positions: hit
    ]
    first_gold = [{1}, {1, 2}, set(), {0, 2}]
    second, second_gold = [[0.2, 0.8]], [frozenset({1})]  # hit

    assert alignment_hit_rate(
        [first, second], [first_gold, second_gold]
    ) == pytest.approx(3 / 4)


def test_hit_rate_ignores_rows_beyond_the_gold_alignment():
    # the last is what the model did for EOS, or for padding
    rows = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]

    assert alignment_hit_rate([rows], [[{0}, {1}]]) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("predictions", "references"), [(3, 2), (2, 3), (0, 0), (0, 2)]
)
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
