import random

import pytest
import torch
from torch.testing import assert_close

from attention_course import models
from attention_course.scores import AdditiveScore, ConstantScore
from attention_course.tasks.core import BOS, EOS, Task
from attention_course.tasks.scenes import (
    CELL,
    DIGIT,
    GRID,
    SIDE,
    SIZE,
    WORDS,
    Handwriting,
    ReadImages,
    _handwriting,
    _pools,
    captions,
    cells,
    compose,
    focus,
    pair,
)
from attention_course.training import TrainConfig, evaluate, train


@pytest.fixture(scope="module")
def task():
    return captions(train_size=300, held_out_size=50)


def test_they_are_tasks(task):
    for made in (task, focus(train_size=30, held_out_size=5)):
        assert isinstance(made, Task)
        assert len(made.validation) == len(made.test) < len(made.train)


def test_no_digit_is_in_two_splits():
    pools = [
        {tuple(image.flatten().tolist()) for image in pool.images}
        for pool in _pools(random.Random(0))
    ]
    everything = {tuple(image.flatten().tolist()) for image in _handwriting().images}

    assert sum(map(len, pools)) == len(everything) == len(set.union(*pools)) == 1797
    assert all(
        len(set(pool.values.tolist())) == 10 for pool in _pools(random.Random(0))
    )


def test_scenes_are_the_seeds():
    def made(seed):
        return captions(train_size=5, held_out_size=2, seed=seed).train

    assert_close(
        [s.source for s in made(0)], [s.source for s in made(0)], rtol=0, atol=0
    )
    assert (
        [s.target for s in made(0)]
        == [s.target for s in made(0)]
        != [s.target for s in made(1)]
    )


def test_cells_by_hand():
    """A digit of 8 pixels covers two cells of 4 in each direction."""
    assert cells(0, 0) == {0, 1, SIDE, SIDE + 1}
    assert cells(4, 16) == {SIDE + 4, SIDE + 5, 2 * SIDE + 4, 2 * SIDE + 5}
    assert max(cells(SIZE - DIGIT, SIZE - DIGIT)) == GRID - 1


def test_digits_stand_where_gold_says_and_captions_say_what_is_there():
    """Here all of a digit is of one brightness, which tells its value."""
    values = torch.arange(10)
    flat = Handwriting(
        (1.0 + values / 2)[:, None, None].expand(-1, DIGIT, DIGIT).contiguous(), values
    )
    for seed in range(50):
        image, words, gold = pair(random.Random(seed), flat)
        named = [t for t, word in enumerate(words) if word in WORDS]
        assert [t for t, positions in enumerate(gold) if positions] == named
        middles = []
        for t in named:
            middle = [
                sum(f(p) + 0.5 for p in gold[t]) / len(gold[t])
                for f in (lambda p: p // SIDE, lambda p: p % SIDE)
            ]
            row, column = (round(CELL * m) for m in middle)  # in pixels
            patch = image[0, row - 2 : row + 2, column - 2 : column + 2]
            assert abs(float(patch.mean()) - (1.0 + WORDS.index(words[t]) / 2)) < 0.2
            middles.append(middle)
        (first, second), above = middles, "above" in words
        assert words[0] == words[-2] == "a"
        assert first[0] < second[0] if above else first[1] < second[1]
        assert len(words) == (5 if above else 6)


def test_of_all_captions_one_is_true():
    """Two digits lie apart if they have no row, or no column, in common: here never
    both."""
    pool, said = next(_pools(random.Random(0))), set()
    for seed in range(100):
        _, words, gold = pair(random.Random(seed), pool)
        (row, column), (below, right) = (
            divmod(min(positions), SIDE) for positions in gold if positions
        )
        above, left = below - row >= 2, right - column >= 2
        assert (above, left) == ("above" in words, "left" in words)
        # and none that names them the other way around
        assert row - below < 2 and column - right < 2
        said.add((above, left))
    assert said == {(True, False), (False, True)}


def test_a_digit_lies_over_the_scraps():
    rng = random.Random(0)
    pool = next(_pools(rng))
    canvas, values = compose(rng, pool, [(8, 8)])
    assert canvas.shape == (1, SIZE, SIZE) and len(values) == 1
    off = (canvas[0, 8:16, 8:16] - pool.images).abs().mean(dim=(1, 2))
    assert off.min() < 0.12  # what the noise does
    assert int(pool.values[off.argmin()]) == values[0]
    assert (canvas[0] > 0.5).sum() > (canvas[0, 8:16, 8:16] > 0.5).sum()


def test_a_batch_of_images(task):
    batch = task.collate(task.test[:2])

    assert batch.source.shape == (2, 1, SIZE, SIZE)
    assert batch.lengths.tolist() == [GRID, GRID]
    words = list(task.test[0].target)
    assert batch.target_in[0].tolist()[: len(words) + 1] == [
        BOS,
        *task.target_vocabulary.encode(words),
    ]
    assert batch.target_out[0].tolist()[len(words)] == EOS
    assert task.view(task.test[0]) == f"24 x 24 pixels -> {' '.join(words)}"


def test_a_captioner_learns_where_the_digits_are_and_what_they_are():
    task = captions(train_size=6_000, held_out_size=200)
    torch.manual_seed(0)
    model = models.captioner(
        grid_size=GRID,
        target_size=len(task.target_vocabulary),
        output_dim=64,
        embedding_dim=16,
        hidden_dim=64,
        score=AdditiveScore(64, 64, 32),
    )
    train(model, task, TrainConfig(steps=200, learning_rate=5e-3))
    result = evaluate(model, task, task.test)
    assert result.exact_match > 0.2  # by chance one in hundreds
    assert result.hit_rate > 0.4  # by chance 4 / 36


def test_one_look_recognises_a_digit_better_than_the_mean_does():
    task, accuracy = focus(train_size=3_000, held_out_size=300), []
    for score in (AdditiveScore(32, 32, 32), ConstantScore()):
        torch.manual_seed(0)
        model = models.image_classifier(
            grid_size=GRID, num_classes=len(WORDS), output_dim=32, score=score
        )
        train(model, task, TrainConfig(steps=150, learning_rate=1e-2))
        accuracy.append(task.score(model, task.test))
        looks = task.hit_rate(model, task.test)
        assert looks > 0.4 if isinstance(score, AdditiveScore) else looks < 0.2
    assert accuracy[0] > 0.6 and accuracy[0] > accuracy[1] + 0.05


@pytest.mark.plain
def test_what_cannot_be_a_batch_is_refused():
    with pytest.raises(ValueError, match="at least one example, got 0"):
        ReadImages()([])
    with pytest.raises(
        ValueError, match=r"example 1 has shape \(1, 24, 23\), expected \(1, 24, 24\)"
    ):
        ReadImages()([torch.zeros(1, SIZE, SIZE), torch.zeros(1, SIZE, SIZE - 1)])
