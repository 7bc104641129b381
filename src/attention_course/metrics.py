"""Metrics: how often is a prediction right, and how often does attention look where it should?"""

from collections import defaultdict
from collections.abc import Collection, Sequence


def exact_match(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
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
    return sum(tuple(p) == tuple(r) for p, r in zip(predictions, references)) / len(references)


def exact_match_by_length(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], lengths: Sequence[int]
) -> dict[int, float]:
    """Compute exact match separately for each source length.

    Args:
        predictions: one token sequence per example.
        references: the right ones, in the same order.
        lengths: the source length of each example, in tokens.

    Returns:
        Length -> share of the examples of that length that are right, in ascending order of length.

    Raises:
        ValueError: not one reference and one length per prediction.
    """
    _check_counts(len(predictions), len(references))
    _check_counts(len(predictions), len(lengths))
    right = defaultdict(list)
    for prediction, reference, length in zip(predictions, references, lengths):
        right[length].append(tuple(prediction) == tuple(reference))
    return {length: sum(right[length]) / len(right[length]) for length in sorted(right)}


def alignment_hit_rate(
    weights: Sequence[Sequence[Sequence[float]]], gold: Sequence[Sequence[Collection[int]]]
) -> float:
    """Count how often the source position with the largest weight is one that the gold alignment names.

    Target positions without a gold position (punctuation, say) do not count.

    Args:
        weights: per example, T rows of S weights; rows beyond the gold alignment's are ignored.
        gold: per example and target position, the source positions that it came from.

    Returns:
        The share of hits over all target positions with a gold position, in [0, 1].

    Raises:
        ValueError: not one gold alignment per example, fewer rows of weights than gold rows, or nothing to count.
    """
    _check_counts(len(weights), len(gold))
    hits = []
    for rows, positions in zip(weights, gold):
        if len(rows) < len(positions):
            raise ValueError(f"{len(rows)} rows of weights for {len(positions)} target tokens")
        hits += [_points_into(row, p) for row, p in zip(rows, positions) if p]
    if not hits:
        raise ValueError("no target position has a gold position: there is no alignment to score")
    return sum(hits) / len(hits)


def _points_into(row: Sequence[float], positions: Collection[int]) -> bool:
    """Whether the largest weight is on one of the positions; a row of zeros points nowhere."""
    largest = max(range(len(row)), key=row.__getitem__)
    return row[largest] > 0 and largest in positions


def _check_counts(given: int, expected: int) -> None:
    if given != expected or not given:
        raise ValueError(f"{given} predictions for {expected} examples")
