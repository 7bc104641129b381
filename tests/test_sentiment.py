import random

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import nn

from attention_course import models
from attention_course.scores import AdditiveScore
from attention_course.tasks.core import UNK, Task
from attention_course.tasks.sentiment import (
    ADJECTIVES,
    LABELS,
    NEGATIONS,
    OTHER,
    PEOPLE,
    PLACES,
    THINGS,
    opposite,
    review,
    sentiment,
    valence,
)
from attention_course.training import TrainConfig, train


@pytest.fixture(scope="module")
def task():
    return sentiment()


def test_it_is_a_task(task):
    assert isinstance(task, Task)
    assert list(map(len, (task.train, task.validation, task.test))) == [4000, 500, 500]


def test_no_review_is_in_two_splits(task):
    everything = [
        e.source for split in (task.train, task.validation, task.test) for e in split
    ]
    assert len(set(everything)) == len(everything)


def test_reviews_are_the_seeds():
    def sources(seed):
        return [
            e.source for e in sentiment(train_size=30, held_out_size=5, seed=seed).train
        ]

    assert sources(0) == sources(0)
    assert not set(sources(0)) & set(sources(1))


def test_what_a_word_is_worth_is_the_lexicons():
    assert valence()["delicious"] == 2.7
    assert valence()["horrible"] == -2.5
    assert all(abs(worth) >= 1 for worth in valence().values())
    share = sum(worth > 0 for worth in valence().values()) / len(ADJECTIVES)
    assert 0.4 < share < 0.6


def clauses(words):
    """Cut a review at its joints, which stand between clauses and nowhere else."""
    cut, start = [], 0
    for i, word in enumerate(words):
        if word in ("and", "but", ",", ";", ".") and words[i - 1] != "anything":
            cut.append((start, words[start:i]))
            start = i + 1
    return cut


def test_labels_and_gold_are_what_a_reader_finds():
    """Read again by other rules: the writer's own clause is the one that speaks of
    here, of this place, or of I."""
    rng, negative, more = random.Random(0), 0, 0
    for _ in range(500):
        words, (label,), (gold,) = review(rng, THINGS, PLACES, PEOPLE)
        own = [(at, c) for at, c in clauses(words) if {"this", "here", "i"} & set(c)]
        assert len(own) == 1, " ".join(words)
        start, clause = own[0]
        negation = next((n for n in NEGATIONS if " ".join(n) in " ".join(clause)), ())
        positive = (valence()[clause[-1]] > 0) != bool(negation)
        assert label == LABELS[positive]
        assert [words[i] for i in sorted(gold)] == [*negation, clause[-1]]
        assert start <= min(gold) and max(gold) == start + len(clause) - 1
        negative += bool(negation)
        more += len(clauses(words)) > 1
    assert 120 < negative < 220  # of 500, a third
    assert more > 350
    assert not any({"this", "here", "i"} & set(form.split()) for form in OTHER)


def test_an_opposite_differs_in_one_adjective_and_in_the_label_if_that_decides():
    rng, alone = random.Random(0), 0
    for _ in range(200):
        example = review(rng, THINGS, PLACES, PEOPLE)
        for deciding in (True, False):
            if not (other := opposite(rng, example, deciding)):
                assert (
                    not deciding
                    and sum(word in ADJECTIVES for word in example.source) == 1
                )
                alone += 1
                continue
            (place,) = [
                s
                for s, (a, b) in enumerate(zip(example.source, other.source))
                if a != b
            ]
            assert (valence()[example.source[place]] > 0) != (
                valence()[other.source[place]] > 0
            )
            assert (
                (place in example.gold[0])
                == deciding
                == (other.labels != example.labels)
            )
    assert 20 < alone < 80


def test_some_words_of_held_out_reviews_are_unknown(task):
    unknown = [UNK in row for row in task.collate(task.test).source.tolist()]
    assert sum(unknown) > 200
    # and the unknown word itself is known from training
    assert UNK in task.collate(task.train).source
    train_words = {word for e in task.train for word in e.source}
    unseen = {word for e in task.test for word in e.source} - train_words
    assert len(unseen) > 10
    assert unseen <= {*THINGS, *PLACES, *PEOPLE}


def test_words_alone_do_not_say_it_and_attention_finds_the_words_that_do(task):
    def text(examples):
        return [" ".join(e.source) for e in examples]

    counts = CountVectorizer(token_pattern=r"\S+")
    baseline = LogisticRegression(max_iter=1000).fit(
        counts.fit_transform(text(task.train)), labels(task.train)
    )
    assert baseline.score(counts.transform(text(task.test)), labels(task.test)) < 0.7

    sizes = {"embedding_dim": 16, "hidden_dim": 32, "score": AdditiveScore(32, 64, 32)}
    model = models.classifier(
        source_size=len(task.read.vocabulary),
        num_classes=2,
        **sizes,
        look_up_words=True,
        cell=nn.LSTM,
    )
    train(model, task, TrainConfig(steps=400, learning_rate=1e-2))
    assert task.score(model, task.test) > 0.95
    assert task.hit_rate(model, task.test) > 0.6


def labels(examples):
    return [e.labels[0] for e in examples]


def test_only_some_nouns_of_training_reviews_are_unknown(task):
    unknown = task.collate(task.train).source == UNK
    assert 0 < unknown.float().mean() < 0.1
