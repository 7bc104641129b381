import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch.testing import assert_close

from attention_course import models
from attention_course.tasks.core import Task
from attention_course.tasks.frames import (
    AVERAGES,
    BANDS,
    HOP,
    RATE,
    SILENCE,
    VOWELS,
    ReadFrames,
    frames,
    pulses,
    resonate,
    spectra,
    utterance,
)
from attention_course.training import TrainConfig, train


@pytest.fixture(scope="module")
def task():
    return frames(train_size=200, held_out_size=40)


def test_it_is_a_task(task):
    assert isinstance(task, Task)
    assert list(map(len, (task.train, task.validation, task.test))) == [200, 40, 40]
    assert task.labels == (SILENCE, *VOWELS)


def test_no_utterance_is_in_two_splits(task):
    everything = [
        tuple(e.source.flatten().tolist())
        for split in (task.train, task.validation, task.test)
        for e in split
    ]
    assert len(set(everything)) == 280


def test_utterances_are_the_seeds():
    one, same, other = (utterance(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert_close(one.source, same.source, rtol=0, atol=0)
    assert one.labels == same.labels
    assert one.source.shape != other.source.shape or not torch.equal(
        one.source, other.source
    )


def test_every_frame_has_a_label_and_silence_lies_around():
    for seed in range(20):
        source, labels, _ = utterance(np.random.default_rng(seed))
        assert source.shape == (len(labels), BANDS)
        said = [i for i, label in enumerate(labels) if label != SILENCE]
        assert said == list(range(said[0], said[-1] + 1))
        assert 0 < said[0] <= 5 and 0 < len(labels) - 1 - said[-1] <= 5
        loud = source.amax(dim=1)  # in the lowest bands, above the noise
        assert loud[said[2:-2]].min() > loud[0]


def test_the_folds_open_once_per_period():
    opened = np.abs(np.fft.rfft(pulses(np.full(RATE, 125.0), np.random.default_rng(0))))
    assert opened[1:].argmax() + 1 == 125  # a second of sound: bin k is k Hz
    between = [opened[k] for k in range(130, 245)]
    assert max(between) < opened[250] / 3


@pytest.mark.parametrize("formants", [(270, 2290, 3010), (730, 1090, 2440)])
def test_sound_is_loudest_at_the_formants(formants):
    """The response to one click, against the peaks asked for."""
    click = np.zeros(RATE)
    click[0] = 1.0
    response = np.abs(
        np.fft.rfft(
            resonate(
                click, np.repeat(np.array(formants, dtype=float)[:, None], RATE, axis=1)
            )
        )
    )
    for formant in formants:
        near = response[formant - 60 : formant + 61]
        assert abs(int(near.argmax()) - 60) <= 15
    # a resonator lets what does not change pass as it is
    assert_close(response[0], 1.0, rtol=1e-6, atol=1e-6)


def test_a_tone_is_in_its_band():
    tone = np.sin(2 * math.pi * 1_000 * np.arange(10 * HOP) / RATE)
    bands = spectra(tone)
    assert bands.shape == (10, BANDS)
    # bands of 125 Hz: 1,000 Hz is where the eighth ends
    assert set(bands.argmax(dim=1).tolist()) <= {7, 8}


def test_the_averages_are_in_order():
    """Table II: children's formants lie above women's, and those above men's; F1 < F2 <
    F3."""
    assert (np.diff(AVERAGES[:, 1:], axis=1) > 0).all()
    assert (np.diff(AVERAGES[:, 1:].mean(axis=2), axis=0) > 0).all()
    assert AVERAGES.shape == (3, 4, len(VOWELS))
    assert AVERAGES[0, 1:, VOWELS.index("i")].tolist() == [270, 2290, 3010]
    assert AVERAGES[2, 1:, VOWELS.index("ɝ")].tolist() == [560, 1820, 2160]


def test_frames_are_padded_and_counted(task):
    batch = task.collate(task.test[:3])
    lengths = [len(e.labels) for e in task.test[:3]]

    assert batch.lengths.tolist() == lengths
    assert batch.source.shape == (3, max(lengths), BANDS)
    for row, example in zip(batch.source, task.test):
        assert_close(row[: len(example.labels)], example.source)
        assert not row[len(example.labels) :].any()


def test_hearing_what_comes_before_and_after_helps(task):
    def one_by_one(examples):
        return torch.cat([e.source for e in examples]).numpy(), [
            label for e in examples for label in e.labels
        ]

    scale = StandardScaler()
    (x, y), (x_test, y_test) = one_by_one(task.train), one_by_one(task.test)
    alone = (
        LogisticRegression(max_iter=1000)
        .fit(scale.fit_transform(x), y)
        .score(scale.transform(x_test), y_test)
    )

    model = models.frame_labeller(
        frame_dim=BANDS, num_labels=len(task.labels), embedding_dim=24, hidden_dim=32
    )
    train(
        model,
        task,
        TrainConfig(steps=150, batch_size=32, learning_rate=1e-2, warmup_steps=20),
    )
    assert task.score(model, task.test) > alone + 0.01


@pytest.mark.plain
def test_what_cannot_be_a_batch_is_refused():
    with pytest.raises(ValueError, match="at least one example, got 0"):
        ReadFrames()([])
    with pytest.raises(ValueError, match="example 1 has 0 frames"):
        ReadFrames()([torch.zeros(3, BANDS), torch.zeros(0, BANDS)])
    with pytest.raises(
        ValueError, match=r"example 1 has shape \(3, 31\), expected \(frames, 32\)"
    ):
        ReadFrames()([torch.zeros(3, BANDS), torch.zeros(3, BANDS - 1)])
