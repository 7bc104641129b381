"""Metrics of plain lists: exact match, BLEU; against gold, hit rate and AER."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF


def exact_match(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> float:
    """Count a prediction only if every token is right.

    Args:
        predictions: one token sequence per example.
        references: the right ones, in the same order.

    Returns:
        The share of examples that are right, in [0, 1].

    Raises:
        ValueError: not one reference per prediction, or none at all.
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
        references: the right ones, in the same order.
        lengths: the source length of each example, in tokens.

    Returns:
        Length -> share of the examples of that length that are right, in ascending
        order of length.

    Raises:
        ValueError: not one reference and one length per prediction.
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
    """Count the tokens that stand where they should.

    One that is missing or too many is wrong.

    Args:
        predictions: one token sequence per example.
        references: the right ones, in the same order.

    Returns:
        The share of right tokens among those of each example's longer sequence, in [0,
        1].

    Raises:
        ValueError: not one reference per prediction, none at all, or all of them are
            empty.
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
    """A corpus score, and what one has to know to compare it.

    Attributes:
        name: of the metric.
        score: in [0, 100].
        signature: sacreBLEU's (Post, 2018): case, tokenisation, smoothing, version.
    """

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.1f} ({self.signature})"


def text_scores(
    predictions: Sequence[str], references: Sequence[str]
) -> list[TextScore]:
    """Compare texts by BLEU and chrF, as sacreBLEU computes them.

    BLEU is of Papineni et al. (2002), chrF of Popović (2015).

    Args:
        predictions: texts as people write them, with their case and with no space
            before a comma.
        references: the right ones, in the same order.

    Returns:
        BLEU and chrF over the whole corpus, each as it is and then in lower case.

    Raises:
        ValueError: not one reference per prediction, or none at all.
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
    """Count how often the largest weight is on a position that gold names.

    Target positions without a gold position (punctuation, say) do not count.

    Args:
        weights: per example, T rows of S weights; rows beyond the gold alignment's are
            ignored.
        gold: per example and target position, the source positions that it came from.

    Returns:
        The share of hits over all target positions with a gold position, in [0, 1].

    Raises:
        ValueError: not one gold alignment per example, fewer rows of weights than gold
            rows, or nothing to count.
    """
    hits = [link in positions for link, positions in _links(weights, gold)]
    return sum(hits) / len(hits)


def alignment_error_rate(
    weights: Sequence[Sequence[Sequence[float]]],
    gold: Sequence[Sequence[Collection[int]]],
) -> float:
    r"""Compare the links of the largest weights with the sure and the possible ones.

    .. math:: AER = 1 - \frac{|\mathcal{A} \cap \mathcal{S}| + |\mathcal{A} \cap
        \mathcal{P}|}{|\mathcal{A}| + |\mathcal{S}|}

    Och and Ney (2003), where A are our links: each target position makes one, to its
    largest weight. S are the sure links, and P, all links of the gold alignment, the
    possible ones. A link is missed only if it is sure, and wrong only if it is not even
    possible. See `sure_links`. With its own gold alignment a model has an error of 0.
    Target positions without a gold position do not count.

    Args:
        weights: per example, T rows of S weights; rows beyond the gold alignment's are
            ignored.
        gold: per example and target position, the source positions that it came from.

    Returns:
        The error rate, in [0, 1]; 0 is best. Without a link and without a sure one, 1.

    Raises:
        ValueError: not one gold alignment per example, fewer rows of weights than gold
            rows, or nothing to count.
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
    """Choose the sure links of a gold alignment, all of which are possible.

    A link is sure if its target position came from this source position alone. Where a
    target position came from several, as a month's digits come from all letters of its
    name, any of them is right and none is required.

    Args:
        gold: per target position, the source positions that it came from.

    Returns:
        Per target position, the sure ones among them: one, or none.
    """
    return [frozenset(p if len(p) == 1 else ()) for p in gold]


def _links(
    weights: Sequence[Sequence[Sequence[float]]],
    gold: Sequence[Sequence[Collection[int]]],
) -> list[tuple[int | None, Collection[int]]]:
    """Pair the largest weight's position with those of gold, where there are some."""
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
    """Return where the largest weight is; a row of zeros points nowhere."""
    largest = max(range(len(row)), key=row.__getitem__)
    return largest if row[largest] > 0 else None


def _check_counts(given: int, expected: int) -> None:
    if given != expected or not given:
        raise ValueError(f"{given} predictions for {expected} examples")
