"""The task of writing on: the extract, its pieces, windows, loss and bits."""

import hashlib
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attention_course.models import gpt2
from attention_course.tasks.core import BOS, EOS, PAD, SPECIALS, Task
from attention_course.tasks.writing import (
    EXTRACT,
    SHA256,
    Window,
    cut,
    learn_pieces,
    read_extract,
    writing,
)
from attention_course.training import TrainConfig, train, validation_loss


@pytest.fixture(scope="module")
def task():
    return writing(vocab_size=300, window=16, stride=8)


class Uniform(nn.Module):
    def forward(self, given):
        return torch.zeros(*given.shape, 300)


# The extract


def test_the_extract_is_the_file_that_the_chapter_was_written_with():
    content = EXTRACT.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    assert SHA256.startswith("e3df8f1b13754d1e")
    assert len(content) <= 150_000


def test_another_file_is_refused(tmp_path):
    other = tmp_path / "extract.txt"
    other.write_bytes(EXTRACT.read_bytes() + b"\n")
    with pytest.raises(ValueError, match="SHA256"):
        read_extract(other)


def test_documents_are_whole_and_in_one_split():
    documents = read_extract()
    whole = "".join(f"=== {d.split} {d.name}\n{d.text}" for d in documents)
    assert whole == EXTRACT.read_text(encoding="utf-8")
    assert len({d.name for d in documents}) == len(documents)
    assert [d.split for d in documents] == ["train"] * 8 + ["validation"] + ["test"] * 3


# Pieces


def test_pieces_know_every_text_and_give_it_back():
    tokenizer = learn_pieces(["a text"], 270)
    assert [tokenizer.token_to_id(token) for token in SPECIALS] == [PAD, BOS, EOS, 3]
    text = "def f(x):\n    return 'déjà vu' <pad?>\n"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids) == text
    assert min(ids) >= len(SPECIALS)


def test_the_most_frequent_pair_is_merged_first():
    tokenizer = learn_pieces(["attend attend attends attention intend intend pen"], 262)
    assert tokenizer.encode("pen attend").tokens == [
        "p",
        "en",
        "Ġ",
        "a",
        "t",
        "ten",
        "d",
    ]


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    with pytest.raises(ValueError, match="260 tokens or more, got 259"):
        learn_pieces(["a"], 259)


# Windows


def test_windows_hold_each_token_and_character_once(task):
    text = "Attention, é and more\n" * 9
    windows = cut(task.tokenizer, text, 16)
    ids = [token for window in windows for token in window.tokens]
    assert ids == [*task.tokenizer.encode(text).ids, EOS]
    assert {len(window.tokens) for window in windows[:-1]} == {16}
    assert sum(window.characters for window in windows) == len(text)


def test_a_stride_makes_windows_overlap(task):
    text = "one two three four five six seven eight nine ten"
    ids = [*task.tokenizer.encode(text).ids, EOS]
    windows = cut(task.tokenizer, text, 8, stride=3)
    assert [w.tokens for w in windows] == [
        tuple(ids[i : i + 8]) for i in range(0, len(ids), 3)
    ]
    for window in windows[:-3]:
        assert window.characters == len(task.tokenizer.decode(list(window.tokens)))


@pytest.mark.parametrize(("window", "stride"), [(0, None), (4, 0)])
def test_a_window_of_nothing_is_refused(task, window, stride):
    with pytest.raises(ValueError, match="at least 1"):
        cut(task.tokenizer, "text", window, stride)


# The task


def test_it_is_a_task(task):
    assert isinstance(task, Task)
    assert task.source_size == task.target_size == 300
    assert task.view(cut(task.tokenizer, "x\ny", 4)[0]).startswith("x|\\n|y")


def test_held_out_windows_are_those_of_the_documents(task):
    assert [*task.documents] == [
        "07_luong.md",
        "08_who_asks.md",
        "14_decoding.md",
        "masks.py",
    ]
    assert task.validation == task.documents["07_luong.md"]
    assert sum(w.characters for w in task.test) == sum(
        len(d.text) for d in read_extract() if d.split == "test"
    )


def test_the_answers_are_the_inputs_shifted_by_one(task):
    batch = task.collate([Window((5, 6, 7), 3), Window((8,), 1)])
    assert batch.given.tolist() == [[BOS, 5, 6], [BOS, PAD, PAD]]
    assert batch.wanted.tolist() == [[5, 6, 7], [8, PAD, PAD]]


def test_prompts_are_padded_on_the_right(task):
    source, lengths = task.read(["x", "", "xyx"])
    assert lengths.tolist() == [1, 0, 3]
    assert source[0, 1:].tolist() == [PAD, PAD]


@pytest.mark.parametrize("examples", [[], [Window((), 0)]])
def test_an_empty_batch_is_refused(task, examples):
    with pytest.raises(ValueError, match="at least one window"):
        task.collate(examples)
    with pytest.raises(ValueError, match="at least one prompt"):
        task.read([])


def test_a_uniform_model_takes_the_logarithm_of_the_vocabulary(task):
    windows = [Window((5, 6, 7), 6), Window((8,), 2)]
    total, count = task.loss(Uniform(), task.collate(windows))
    assert count == 4
    assert_close(total.item(), 4 * math.log(300))
    assert_close(task.bits(Uniform(), windows), 4 * math.log2(300))
    assert_close(task.score(Uniform(), windows, 1), -4 * math.log2(300) / 8)


def test_padding_changes_no_loss(task):
    model = gpt2(
        vocab_size=300, dim=8, num_heads=2, hidden_dim=8, num_layers=1, max_length=16
    ).eval()
    windows = task.test[:2] + [Window(task.test[2].tokens[:3], 3)]
    apart = sum(task.bits(model, [window]) for window in windows)
    assert_close(task.bits(model, windows), apart, rtol=1e-4, atol=1e-4)


def test_a_model_learns_it(task):
    model = gpt2(
        vocab_size=300, dim=16, num_heads=2, hidden_dim=32, num_layers=1, max_length=16
    )
    before = validation_loss(model, task)
    train(model, task, TrainConfig(30, 16, learning_rate=1e-2, warmup_steps=3))
    assert validation_loss(model, task) < before - 0.5
