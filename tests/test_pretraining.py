import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from attention_course.models import encoder_only
from attention_course.pooling import Labeller
from attention_course.tasks.core import Task
from attention_course.tasks.labels import NO_LABEL, LabelledExample
from attention_course.tasks.pretraining import MASK, NOT_ASKED, hide, pretraining
from attention_course.tasks.tagging import tagging
from attention_course.training import TrainConfig, train


@pytest.fixture(scope="module")
def task():
    return pretraining(train_size=1000, held_out_size=60)


def asked(example):
    return [s for s, label in enumerate(example.labels) if label != NOT_ASKED]


@pytest.mark.parametrize(
    ("words", "hidden"), [(1, 1), (3, 1), (9, 1), (10, 2), (13, 2), (17, 3), (20, 3)]
)
def test_of_a_sentence_15_percent_are_asked_for(words, hidden):
    sentence = [f"w{s}" for s in range(words)]
    for seed in range(9):
        example = hide(sentence, ["x"], random.Random(seed))

        assert len(asked(example)) == hidden
        assert len(example.source) == len(example.labels) == words
        for s in range(words):
            if s in asked(example):
                assert example.labels[s] == sentence[s]
                assert example.source[s] in (MASK, "x", sentence[s])
            else:
                assert example.source[s] == sentence[s]


def test_masks_random_words_and_the_words_themselves_are_80_10_10():
    rng, sentence = random.Random(0), ["w"] * 20
    shown = [
        example.source[s]
        for example in (hide(sentence, ["x"], rng) for _ in range(1000))
        for s in asked(example)
    ]

    assert len(shown) == 3000
    # Three standard deviations of 3000 draws are 66 and 49.
    assert abs(shown.count(MASK) - 2400) < 66
    assert abs(shown.count("x") - 300) < 49
    assert abs(shown.count("w") - 300) < 49


def test_any_place_may_be_asked_for():
    rng, counts = random.Random(0), [0] * 7
    for _ in range(700):
        (s,) = asked(hide(["w"] * 7, ["x"], rng))
        counts[s] += 1

    assert all(70 < count < 130 for count in counts)


def test_only_what_is_asked_for_is_in_the_loss(task):
    assert isinstance(task, Task)
    examples = [
        LabelledExample(
            (MASK, task.labels[7], task.labels[8]),
            (task.labels[5], NOT_ASKED, task.labels[8]),
        ),
        LabelledExample((task.labels[9],), (task.labels[6],)),
    ]
    batch = task.collate(examples)
    assert batch.labels.tolist() == [[5, NO_LABEL, 8], [6, NO_LABEL, NO_LABEL]]
    assert batch.source[0].tolist()[1:] == [7, 8]  # a label's id is its token's
    assert task.read.vocabulary.tokens == task.labels


class Knows(nn.Module):
    """Says of every token that it is what it is."""

    def __init__(self, size):
        super().__init__()
        self.logits = nn.Parameter(torch.eye(size))

    def forward(self, source, lengths):
        return self.logits[source], None


def test_the_score_counts_what_is_asked_for(task):
    a, b, c = task.labels[5:8]
    right = LabelledExample((a, b, c), (a, NOT_ASKED, c))
    half = LabelledExample((b, b), (a, b))
    model = Knows(len(task.labels))

    assert task.score(model, [right]) == 1
    assert task.score(model, [right, half]) == pytest.approx(3 / 4)


def test_the_sentences_are_those_of_tagging(task):
    tags = tagging(train_size=1000, held_out_size=60)
    for masked, tagged in zip(
        (task.train, task.validation, task.test),
        (tags.train, tags.validation, tags.test),
    ):
        assert len(masked) == len(tagged)
        for example, whole in zip(masked, tagged):
            shown = [
                label or word for word, label in zip(example.source, example.labels)
            ]
            assert tuple(shown) == whole.source


def test_no_held_out_sentence_of_tagging_is_trained_on(task):
    few = tagging(train_size=20, held_out_size=60)
    trained = {
        example.source for example in tagging(train_size=1000, held_out_size=60).train
    }

    assert not trained & {example.source for example in few.validation + few.test}
    assert {example.source for example in few.train} <= trained


def test_an_example_is_written_on_one_line(task):
    example = LabelledExample(
        ("a", MASK, "in", "garden"), (NOT_ASKED, "cat", NOT_ASKED, "garden")
    )

    assert task.view(example) == f"a {MASK} in garden -> cat garden"


def test_pretraining_is_the_seeds():
    def examples(seed):
        task = pretraining(train_size=40, held_out_size=5, seed=seed)
        return [*task.train, *task.validation, *task.test]

    assert examples(0) == examples(0)
    assert len(set(examples(0)) & set(examples(1))) < 3


SIZES = {"dim": 64, "num_heads": 4, "hidden_dim": 128, "num_layers": 2}


def accuracy_with_few_labels(task, encoder):
    model = Labeller(encoder, nn.Linear(SIZES["dim"], len(task.labels)))
    train(
        model,
        task,
        TrainConfig(steps=100, batch_size=16, learning_rate=2e-3, warmup_steps=10),
    )
    return task.score(model, task.test)


def test_what_was_learned_without_labels_helps_where_there_are_few(tmp_path):
    task = pretraining()
    few = replace(tagging(30), read=task.read)
    model = Labeller(
        encoder_only(vocab_size=len(task.labels), **SIZES),
        nn.Linear(SIZES["dim"], len(task.labels)),
    )
    train(model, task, TrainConfig(steps=500, learning_rate=5e-3))
    torch.save(model.encoder.state_dict(), tmp_path / "encoder.pt")

    pretrained = encoder_only(vocab_size=len(task.labels), **SIZES)
    pretrained.load_state_dict(torch.load(tmp_path / "encoder.pt", weights_only=True))
    from_scratch = accuracy_with_few_labels(
        few, encoder_only(vocab_size=len(task.labels), **SIZES)
    )
    assert accuracy_with_few_labels(few, pretrained) > from_scratch + 0.03
