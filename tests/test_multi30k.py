import gzip
import hashlib
import os
import shlex

import pytest
import torch
from measure import multi30k as measurement
from measure.multi30k import Rung

from attention_course import models
from attention_course.metrics import text_scores
from attention_course.runs.evaluation import evaluate_run
from attention_course.seq2seq import EncoderDecoder
from attention_course.tasks import multi30k as module
from attention_course.tasks.core import BOS, EOS, SPECIALS, UNK, Task
from attention_course.tasks.multi30k import SHA256, SPLITS, Subwords, join, multi30k
from attention_course.tasks.reversal import reversal

TRAIN = [
    ("Ein Hund läuft.", "A dog runs."),
    ("Zwei Hunde laufen am  Strand.", "Two dogs run on the beach."),
    ("Ein Mann, der läuft, lacht.", "A man who runs laughs."),
    ("Der Hund eines Mannes lacht.", "A man's dog laughs."),
    ("Männer laufen.", "Men run."),
]
HELD_OUT = [("Ein Strand!", "A beach!"), ("Zwei Männer lachen.", "Two men laugh.")]


def write(folder, splits):
    """Write a corpus, and return the checksums of its files."""
    sums = {}
    for split, pairs in splits.items():
        for language, sentences in zip(("de", "en"), zip(*pairs)):
            name = f"{split}.{language}.gz"
            (folder / name).write_bytes(
                gzip.compress("".join(f"{s}\n" for s in sentences).encode())
            )
            sums[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return sums


@pytest.fixture
def folder(tmp_path, monkeypatch):
    sums = write(tmp_path, dict(zip(SPLITS, (TRAIN, HELD_OUT[:1], HELD_OUT))))
    assert sums.keys() == SHA256.keys()
    monkeypatch.setattr(module, "SHA256", sums)
    return tmp_path


@pytest.fixture
def task(folder):
    return multi30k(folder, vocab_size=60)


def test_a_translation_is_scored_by_bleu_and_chrf_first(task, capsys):
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=8,
        num_heads=2,
        hidden_dim=8,
        num_layers=1,
    )
    scores, texts = evaluate_run(task, model, "test", {"beam_size": 2})
    wanted = text_scores(texts, [task.text(e.target) for e in task.test])
    names = ["BLEU", "BLEU, lower case", "chrF", "chrF, lower case"]

    assert [*scores][:5] == [*names, "exact match"]
    assert [scores[name] for name in names] == [score.score for score in wanted]
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.startswith("multi30k, test: 2 examples") and "case:mixed" in first
    predictions = task.predict(model, task.test, beam_size=2)
    assert texts == [task.text(prediction) for prediction in predictions]


# Subwords


@pytest.mark.parametrize(
    "text",
    [
        "Ein Hund läuft.",
        "a man's dog",
        "x",
        "",
        "What?! No (really) no 3,5",
        "日本 ß unseen",
        "_under_ score",
    ],
)
def test_pieces_join_to_the_text(text):
    subwords = Subwords([source for source, _ in TRAIN], 50)

    assert join(subwords.split(text)) == text


def test_what_is_frequent_stays_whole():
    subwords = Subwords(["the cat, the dog"] * 5 + ["a tic"], 100)

    assert subwords.split("the dog, the toc") == (
        "▁the",
        "▁dog",
        ",",
        "▁the",
        "▁t",
        "o",
        "c",
    )


def test_a_vocabulary_size_is_kept_to():
    texts = ["ab abc abcd abcde abcdef abcdefg", "b bc bcd bcde bcdef", "c cd cde cdef"]

    def used(vocab_size):
        return {
            piece for text in texts for piece in Subwords(texts, vocab_size).split(text)
        }

    assert len(used(9)) <= 9 < len(used(16)) <= 16


# The task


def test_splits_are_the_files(task):
    assert isinstance(task, Task)
    assert [task.view(e) for e in task.validation] == ["Ein Strand! -> A beach!"]
    assert [join(e.target) for e in task.test] == [english for _, english in HELD_OUT]
    assert (
        task.view(task.train[1])
        == "Zwei Hunde laufen am Strand. -> Two dogs run on the beach."
    )
    assert len(task.train) == 5


def test_vocabularies_come_from_the_training_pairs(task):
    assert set(task.source_vocabulary.tokens) == {
        *SPECIALS,
        *(p for e in task.train for p in e.source),
    }
    assert set(task.target_vocabulary.tokens) == {
        *SPECIALS,
        *(p for e in task.train for p in e.target),
    }
    assert "!" not in task.target_vocabulary.tokens
    assert task.collate(task.validation).target_out[0, -2:].tolist() == [UNK, EOS]


def test_a_sentence_from_outside_is_cut_as_those_of_the_corpus(task):
    assert task.example(*TRAIN[0]) == task.train[0]
    assert task.example("Ein Hund").target == ()


def test_sentences_of_like_length_are_trained_on_together(task):
    assert task.length(task.train[4]) == (
        len(task.train[4].target),
        len(task.train[4].source),
    )
    assert reversal(3, 20, 2).length is None


class Says(EncoderDecoder):
    """Says, one piece after the other, what it was told to say of each source, and
    looks at nothing else."""

    def __init__(self, task, sayings):
        torch.nn.Module.__init__(self)
        self.nothing = torch.nn.Parameter(torch.zeros(1))
        self.size = len(task.target_vocabulary)
        self.ids = {
            tuple(task.source_vocabulary.encode(e.source)): [
                *task.target_vocabulary.encode(said),
                EOS,
            ]
            for e, said in sayings
        }

    def encode(self, source, lengths):
        rows = [tuple(row[:n]) for row, n in zip(source.tolist(), lengths.tolist())]
        longest = max(map(len, self.ids.values()))
        return torch.tensor(
            [self.ids[row] + [EOS] * (longest - len(self.ids[row])) for row in rows]
        )

    def start(self, memory):
        return torch.zeros(len(memory), 1, dtype=torch.long)

    def step(self, token, memory, cache):
        said = memory.gather(1, cache.clamp(max=memory.size(1) - 1))
        logits = torch.full((len(memory), 1, self.size), -50.0).scatter(
            -1, said[..., None], 50.0
        )
        return logits, None, cache + 1


def test_predictions_keep_the_order_of_the_examples(task):
    sayings = [(e, e.target) for e in task.train]
    model = Says(task, sayings)

    assert task.predict(model, task.train, batch_size=2) == [
        e.target for e in task.train
    ]
    assert task.predict(model, task.train[::-1], beam_size=3) == [
        e.target for e in task.train[::-1]
    ]
    assert task.score(model, task.train) == pytest.approx(100)


def test_bleu_by_hand(task):
    """Of "A dog runs." and "A dog." for "A dog runs.": precisions 7/7, 4/5, 2/3, 1/1,
    and 7 tokens for 8."""
    example = task.train[0]
    other = task.example("Ein Mann läuft.", "A dog runs.")
    model = Says(
        task, [(example, example.target), (other, task.target_subwords.split("A dog."))]
    )
    precision = (1 * 4 / 5 * 2 / 3 * 1) ** 0.25

    assert task.score(model, [example, other]) == pytest.approx(
        100 * precision * torch.tensor(1 - 8 / 7).exp().item()
    )


def test_the_length_is_bounded_by_the_source_and_not_by_the_reference(task):
    short = task.example("Ein Hund", target="A dog runs. " * 30)
    endless = Says(task, [(short, ("▁",) * 200)])

    (said,) = task.predict(endless, [short])
    assert len(said) == 2 * len(short.source) + 10
    assert task.predict(endless, [short._replace(target=(), gold=())]) == [said]


def test_a_model_trains_on_it(task):
    torch.manual_seed(0)
    model = models.transformer(
        source_size=task.source_size,
        target_size=task.target_size,
        dim=16,
        num_heads=2,
        hidden_dim=32,
        num_layers=1,
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        total, count = task.loss(model, task.collate(task.train))
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()

    assert task.score(model, task.train) > 90
    assert BOS not in task.collate(task.train).target_out


# The measurement


def test_the_measurement_trains_goes_on_and_reports(
    folder, tmp_path, monkeypatch, capsys
):
    written = []
    sizes = "--model luong --dim 8 --hidden-dim 8 --layers 1 --vocab-size 60 --steps 4"
    monkeypatch.setattr(measurement, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(
        measurement, "RUNGS", {"tiny": Rung(sizes, bleu=101, millions=1)}
    )
    monkeypatch.setattr(
        measurement.report,
        "write",
        lambda name, rows, seconds: written.append((name, rows)),
    )

    measurement.main([str(folder)])
    history = (tmp_path / "runs" / "tiny" / "history.csv").read_text()
    measurement.main([str(folder)])
    # there was nothing left to train
    assert (tmp_path / "runs" / "tiny" / "history.csv").read_text() == history

    assert [name for name, _ in written] == ["multi30k"] * 2
    rows = {row.what.removeprefix("Multi30k / tiny / "): row for row in written[0][1]}
    assert shlex.split(rows["command"].value)[:4] == [
        "attention-course",
        "train",
        "--task",
        "multi30k",
    ]
    assert rows["steps"].value == 4
    assert rows["parameters"].holds and 1000 < rows["parameters"].value < 1_000_000
    assert rows["BLEU"].holds is False and "case:mixed" in rows["BLEU"].note
    assert (
        rows["BLEU, lower case"].holds is False
        and "case:lc" in rows["BLEU, lower case"].note
    )
    assert rows["published BLEU"].value == 101 and rows["published BLEU"].holds is None
    assert rows["chrF2"].holds is None
    capsys.readouterr()


# A folder that will not do


@pytest.mark.plain
def test_a_missing_file_is_named(folder):
    (folder / "val.en.gz").unlink()
    with pytest.raises(
        ValueError,
        match=(
            r"val\.en\.gz is missing; get it from data/task1/raw of https://.*multi30k"
        ),
    ):
        multi30k(folder)


@pytest.mark.plain
def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(
        ValueError, match=r"nowhere.train\.de\.gz is missing; get it from"
    ):
        multi30k(tmp_path / "nowhere")


@pytest.mark.plain
def test_a_changed_file_is_named(folder):
    with (folder / "test_2016_flickr.de.gz").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(
        ValueError,
        match=(
            r"test_2016_flickr\.de\.gz has SHA256 .{8}\.\.\., not .{8}\.\.\. as"
            r" published"
        ),
    ):
        multi30k(folder)


# The real corpus, where MULTI30K names its folder


@pytest.mark.skipif(
    "MULTI30K" not in os.environ, reason="MULTI30K names no folder with the corpus"
)
def test_the_real_corpus():
    task = multi30k(os.environ["MULTI30K"])

    assert list(map(len, (task.train, task.validation, task.test))) == [
        29_000,
        1_014,
        1_000,
    ]
    assert (
        task.view(task.train[2])
        == "Ein kleines Mädchen klettert in ein Spielhaus aus Holz. -> A little girl"
        " climbing into a wooden playhouse."
    )
    assert all(
        len(e.target) < 2 * len(e.source) + 10 for e in task.validation + task.test
    )
