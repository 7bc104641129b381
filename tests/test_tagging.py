import random
from collections import Counter, defaultdict
from functools import cache

import pytest
import torch

from attention_course import models
from attention_course.tasks.core import PAD, Task
from attention_course.tasks.labels import (
    NO_LABEL,
    LabelledExample,
    ReadTokens,
    accuracy,
)
from attention_course.tasks.tagging import GRAMMAR, TAGS, WORDS, sentence, tagging
from attention_course.training import TrainConfig, train


@pytest.fixture(scope="module")
def task():
    return tagging()


def test_it_is_a_task(task):
    assert isinstance(task, Task)
    assert list(map(len, (task.train, task.validation, task.test))) == [2000, 300, 300]
    assert isinstance(task.read, ReadTokens)


def test_no_sentence_is_in_two_splits(task):
    everything = [
        e.source for split in (task.train, task.validation, task.test) for e in split
    ]
    assert len(set(everything)) == len(everything)


def test_sentences_are_the_seeds():
    def sources(seed):
        return [
            e.source for e in tagging(train_size=30, held_out_size=5, seed=seed).train
        ]

    assert sources(0) == sources(0)
    assert not set(sources(0)) & set(sources(1))


def readings(words):
    """Find all taggings of a sentence that the grammar allows, by trying every way to
    cut it."""

    @cache
    def of_symbol(symbol, i, j):
        if symbol in GRAMMAR:
            return frozenset().union(
                *(of_symbols(tuple(form.split()), i, j) for form in GRAMMAR[symbol])
            )
        tag, choices = WORDS[symbol]
        return frozenset([(tag,)] if j == i + 1 and words[i] in choices else [])

    @cache
    def of_symbols(symbols, i, j):
        if len(symbols) == 1:
            return of_symbol(symbols[0], i, j)
        cuts = range(i + 1, j - len(symbols) + 2)
        return frozenset(
            a + b
            for k in cuts
            for a in of_symbol(symbols[0], i, k)
            for b in of_symbols(symbols[1:], k, j)
        )

    return of_symbol("sentence", 0, len(words))


def test_the_reader_of_the_test_sees_what_the_grammar_means():
    assert readings(("he", "will", "book", "the", "saw", ".")) == {
        ("PRON", "AUX", "VERB", "DET", "NOUN", "PUNCT")
    }
    assert readings(("he", "book", "the", "saw", ".")) == frozenset()


def test_every_sentence_has_one_reading_and_it_is_the_one_given():
    rng = random.Random(0)
    for _ in range(400):
        words, tags, _ = sentence(rng)
        assert readings(words) == {tags}, " ".join(words)


def test_the_lectures_words_are_ambiguous():
    classes = defaultdict(set)
    for tag, words in WORDS.values():
        for word in words:
            classes[word].add(tag)
    assert classes["book"] == {"NOUN", "VERB"}
    assert classes["can"] == {"NOUN", "VERB", "AUX"}
    assert classes["her"] == {"DET", "PRON"}
    assert {tag for tags in classes.values() for tag in tags} == set(TAGS)


def test_context_beats_the_most_frequent_tag(task):
    counts = defaultdict(Counter)
    for example in task.train:
        for word, tag in zip(example.source, example.labels):
            counts[word][tag] += 1
    baseline = [
        tuple(counts[word].most_common(1)[0][0] for word in example.source)
        for example in task.test
    ]
    without = accuracy(baseline, [example.labels for example in task.test])

    model = models.tagger(
        source_size=len(task.read.vocabulary),
        num_labels=len(TAGS),
        embedding_dim=16,
        hidden_dim=24,
    )
    train(model, task, TrainConfig(steps=120, learning_rate=1e-2, warmup_steps=20))
    assert without < 0.9
    assert task.score(model, task.test) > 0.97


# What all tasks with labels share


SHORT = LabelledExample(("he", "rose", "."), ("PRON", "VERB", "PUNCT"))


def test_labels_are_padded_with_what_does_not_count(task):
    batch = task.collate([task.test[0], SHORT])

    assert batch.lengths.tolist() == [len(task.test[0].source), 3]
    assert batch.labels[1].tolist()[:3] == [TAGS.index(tag) for tag in SHORT.labels]
    assert set(batch.labels[1].tolist()[3:]) == {NO_LABEL}
    assert set(batch.source[1].tolist()[3:]) == {PAD}


def says(*tags):
    """A model that is sure of one tag per position, and of the last one on padding."""

    def model(source, lengths):
        ids = torch.tensor([TAGS.index(tag) for tag in tags])[: source.size(1)]
        return 50.0 * torch.eye(len(TAGS))[ids].expand(len(source), -1, -1), None

    return model


def test_the_loss_counts_labels_and_no_padding(task):
    batch = task.collate([SHORT, LabelledExample(("he",), ("PRON",))])
    total, count = task.loss(says("PRON", "VERB", "ADJ"), batch)

    assert count == 4
    # one label in four is sure and wrong
    torch.testing.assert_close(total, torch.tensor(50.0), rtol=1e-4, atol=1e-4)


def test_label_smoothing_asks_for_a_share_of_every_label(task):
    batch = task.collate([SHORT, LabelledExample(("he",), ("PRON",))])
    total, _ = task.loss(says("PRON", "VERB", "ADJ"), batch, label_smoothing=0.2)

    # 0.8 of the one that is wrong; of each of the four 0.2, spread over all labels, of
    # which one costs nothing
    by_hand = 0.8 * 50.0 + 4 * 0.2 * 50.0 * (len(TAGS) - 1) / len(TAGS)
    torch.testing.assert_close(total, torch.tensor(by_hand), rtol=1e-4, atol=1e-4)


class Sure(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.somewhere = torch.nn.Parameter(torch.zeros(()))
        self.forward = says("PRON", "VERB", "ADJ")


def test_accuracy_is_over_labels_and_predictions_are_as_long_as_their_sources(task):
    examples = [SHORT, LabelledExample(("he",), ("PRON",))]
    assert task.predict(Sure(), examples) == [("PRON", "VERB", "ADJ"), ("PRON",)]
    assert task.score(Sure(), examples) == 0.75


def test_an_example_is_written_on_one_line(task):
    assert task.view(SHORT) == "he rose . -> PRON VERB PUNCT"


@pytest.mark.plain
def test_what_cannot_be_a_batch_is_refused(task):
    with pytest.raises(ValueError, match="at least one example, got 0"):
        task.collate([])
    with pytest.raises(ValueError, match="example 0 has 0 tokens"):
        task.collate([LabelledExample((), ())])
    with pytest.raises(ValueError, match="label 'X' is not one of the 11"):
        task.collate([LabelledExample(("he",), ("X",))])
