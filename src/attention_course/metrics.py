"""Metrics: exact match, token accuracy, BLEU and chrF; alignment hit rate and AER.

They take plain lists, not tensors.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF


def exact_match(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> float:
    """Compute the share of predictions in which every token is right.

    Args:
        predictions: one token sequence per example.
        references: the right sequences, in the same order.

    Returns:
        The share of examples that are right, in [0, 1].

    Raises:
        ValueError: the numbers of predictions and references differ, or both are zero.
    """
    _check_counts(len(predictions), len(references))
    return sum(tuple(p) == tuple(r) for p, r in zip(predictions, references)) / len(
        references
    )


def exact_match_by_length(
    predictions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    lengths: Sequence[int],
) -> dict[int, float]:
    """Compute exact match separately for each source length.

    Args:
        predictions: one token sequence per example.
        references: the right sequences, in the same order.
        lengths: the source length of each example, in tokens.

    Returns:
        Length -> share of the examples of that length that are right, in ascending
        order of length.

    Raises:
        ValueError: the numbers of predictions, references and lengths differ, or are
            zero.
    """
    _check_counts(len(predictions), len(references))
    _check_counts(len(predictions), len(lengths))
    right = defaultdict(list)
    for prediction, reference, length in zip(predictions, references, lengths):
        right[length].append(tuple(prediction) == tuple(reference))
    return {length: sum(right[length]) / len(right[length]) for length in sorted(right)}


def token_accuracy(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> float:
    """Compute the share of tokens that are in the right position.

    A missing or additional token counts as wrong.

    Args:
        predictions: one token sequence per example.
        references: the right sequences, in the same order.

    Returns:
        The number of right tokens, divided by the total length of the longer sequences
        of all pairs, in [0, 1].

    Raises:
        ValueError: the numbers of predictions and references differ or are zero, or all
            sequences are empty.
    """
    _check_counts(len(predictions), len(references))
    right = sum(p == r for pair in zip(predictions, references) for p, r in zip(*pair))
    tokens = sum(max(len(p), len(r)) for p, r in zip(predictions, references))
    if not tokens:
        raise ValueError(
            "all predictions and references are empty: there is no token to count"
        )
    return right / tokens


class TextScore(NamedTuple):
    """A corpus score, with what you need to know to compare it with others.

    Attributes:
        name: name of the metric.
        score: in [0, 100].
        signature: sacreBLEU's signature (Post, 2018): case, tokenization, smoothing,
            version.
    """

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.1f} ({self.signature})"


def text_scores(
    predictions: Sequence[str], references: Sequence[str]
) -> list[TextScore]:
    """Compute BLEU and chrF with sacreBLEU.

    BLEU is by Papineni et al. (2002), chrF by Popović (2015).

    Args:
        predictions: detokenized texts, in their original case and with no space before
            a comma.
        references: the right texts, in the same order.

    Returns:
        BLEU and chrF over the whole corpus, each first with case and then in lower
        case.

    Raises:
        ValueError: the numbers of predictions and references differ, or both are zero.
    """
    _check_counts(len(predictions), len(references))
    scores = []
    for metric in (BLEU(), BLEU(lowercase=True), CHRF(), CHRF(lowercase=True)):
        score = metric.corpus_score(list(predictions), [list(references)])
        scores.append(TextScore(score.name, score.score, str(metric.get_signature())))
    return scores


def alignment_hit_rate(
    weights: Sequence[Sequence[Sequence[float]]],
    gold: Sequence[Sequence[Collection[int]]],
) -> float:
    """Compute how often the largest weight is on a gold position.

    Target positions without a gold position (punctuation, for example) do not count.

    Args:
        weights: per example, T rows of S weights; rows beyond the gold alignment are
            ignored.
        gold: per example and target position, the source positions that it came from.

    Returns:
        The share of hits over all target positions with a gold position, in [0, 1].

    Raises:
        ValueError: the numbers of examples differ, an example has fewer rows of weights
            than gold rows, or there is nothing to count.
    """
    hits = [link in positions for link, positions in _links(weights, gold)]
    return sum(hits) / len(hits)


def alignment_error_rate(
    weights: Sequence[Sequence[Sequence[float]]],
    gold: Sequence[Sequence[Collection[int]]],
) -> float:
    r"""Compute the alignment error rate (AER) of the links with the largest weights.

    .. math:: AER = 1 - \frac{|\mathcal{A} \cap \mathcal{S}| + |\mathcal{A} \cap
        \mathcal{P}|}{|\mathcal{A}| + |\mathcal{S}|}

    Och and Ney (2003), where A are our links: each target position makes one, to its
    largest weight. S are the sure links (see `sure_links`), and P, all links of the
    gold alignment, are the possible ones. A link is missed only if it is sure, and
    wrong only if it is not even possible. A model that returns the gold alignment
    itself has an error of 0. Target positions without a gold position do not count.

    Args:
        weights: per example, T rows of S weights; rows beyond the gold alignment are
            ignored.
        gold: per example and target position, the source positions that it came from.

    Returns:
        The error rate, in [0, 1]; 0 is best. It is 1 if there is neither a link nor a
        sure link.

    Raises:
        ValueError: the numbers of examples differ, an example has fewer rows of weights
            than gold rows, or there is nothing to count.
    """
    links = _links(weights, gold)
    sure = sure_links([positions for _, positions in links])
    right = sum(
        (link in certain) + (link in possible)
        for (link, possible), certain in zip(links, sure)
    )
    made = sum(link is not None for link, _ in links)
    return 1 - right / max(made + sum(map(len, sure)), 1)


def sure_links(gold: Sequence[Collection[int]]) -> list[frozenset[int]]:
    """Choose the sure links of a gold alignment, in which all links are possible.

    A link is sure if its target position came from this source position alone. If a
    target position came from several, as a month's digits come from all letters of its
    name, any of them is right and none is required.

    Args:
        gold: per target position, the source positions that it came from.

    Returns:
        Per target position, its sure source positions: one or none.
    """
    return [frozenset(p if len(p) == 1 else ()) for p in gold]


def _links(
    weights: Sequence[Sequence[Sequence[float]]],
    gold: Sequence[Sequence[Collection[int]]],
) -> list[tuple[int | None, Collection[int]]]:
    """Pair the largest weight's position with the gold positions, if any."""
    _check_counts(len(weights), len(gold))
    links = []
    for rows, positions in zip(weights, gold):
        if len(rows) < len(positions):
            raise ValueError(
                f"{len(rows)} rows of weights for {len(positions)} target tokens"
            )
        links += [(_largest(row), p) for row, p in zip(rows, positions) if p]
    if not links:
        raise ValueError(
            "no target position has a gold position: there is no alignment to score"
        )
    return links


def _largest(row: Sequence[float]) -> int | None:
    """Return the position of the largest weight; None for a row of zeros."""
    largest = max(range(len(row)), key=row.__getitem__)
    return largest if row[largest] > 0 else None


def _check_counts(given: int, expected: int) -> None:
    if given != expected or not given:
        raise ValueError(f"{given} predictions for {expected} examples")
