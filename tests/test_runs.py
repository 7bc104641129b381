"""The folder of a run: it stands alone, is read with care, and says how to go on."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attention_course.registry import SIZES, make_model
from attention_course.runs.about import About, about_of
from attention_course.runs.listing import list_runs
from attention_course.runs.loading import load, load_model
from attention_course.runs.training import alone, output_folder
from attention_course.tasks.core import Vocabulary
from attention_course.tasks.kept import keep_task, make_again
from attention_course.tasks.multi30k import Subwords, TranslationTask
from attention_course.tasks.pretraining import pretraining
from attention_course.tasks.reversal import reversal
from attention_course.tasks.scenes import captions, focus
from attention_course.tasks.series import series
from attention_course.tasks.writing import writing
from attention_course.training import Checkpoints, TrainConfig, train
from attention_course.training.folder import VERSION, read

RUNS = Path(__file__).parent / "runs"
SMALL = {"dim": 8, "hidden_dim": 12, "layers": 1, "heads": 2, "dropout": 0.0}


def translation():
    """A task of subwords, in small."""
    pairs = [("Ein Hund läuft.", "A dog runs."), ("Eine Katze schläft.", "A cat.")] * 4
    german, english = (Subwords(texts, 60) for texts in zip(*pairs))
    task = TranslationTask(
        name="multi30k",
        train=(),
        validation=(),
        test=(),
        source_vocabulary=Vocabulary(
            p for text, _ in pairs for p in german.split(text)
        ),
        target_vocabulary=Vocabulary(
            p for _, text in pairs for p in english.split(text)
        ),
        source_subwords=german,
        target_subwords=english,
    )
    examples = [task.example(*pair) for pair in pairs]
    return replace(task, train=examples, test=examples[:2])


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (lambda: reversal(4, 20, 5), "abc"),
        (translation, "Eine Katze läuft."),
        (lambda: series(2, 20, 5), "1.35 promotion | ? holiday"),
    ],
    ids=["letters", "subwords", "series"],
)
def test_a_task_of_sequences_is_kept_without_its_examples(make, source):
    task = make()
    again = make_again(keep_task(task))
    torch.manual_seed(0)
    ends = task.source_size, task.target_size
    sizes = {name: SMALL[name] for name in ("dim", "hidden_dim", "layers", "dropout")}
    model = make_model("luong", *ends, **sizes)
    example = task.example(source)

    assert type(again) is type(task) and len(again.train) == 0
    assert again.example(source) == example
    assert again.predict(model, [again.example(source)]) == task.predict(
        model, [example]
    )
    assert again.text(("a", "b")) == task.text(("a", "b"))
    assert keep_task(again) == keep_task(task)


@pytest.mark.parametrize(
    "make",
    [lambda: captions(20, 5), lambda: focus(20, 5), lambda: pretraining(20, 5)],
    ids=["captions", "focus", "pretraining"],
)
def test_other_tasks_are_kept_as_well(make):
    task = make()
    again = make_again(keep_task(task))
    sources = [example.source for example in task.test]

    for ours, theirs in zip(again.read(sources), task.read(sources)):
        assert_close(ours, theirs)
    assert again.target_size == task.target_size
    assert again.source_size == task.source_size
    assert keep_task(again) == keep_task(task)


def test_a_text_keeps_its_pieces():
    task = writing(300, 16, 500)
    again = make_again(keep_task(task))

    assert_close(again.read(["Attention is"]), task.read(["Attention is"]))
    assert len(again.tokenizer.encode("Attention is").ids) > 2


@pytest.mark.plain
def test_what_was_kept_can_be_edited_and_is_refused():
    kept = keep_task(reversal(4, 20, 5))
    for edited in (kept | {"class": "os"}, {"class": "LabelTask"}, {}):
        with pytest.raises(ValueError, match="no task can be made of it"):
            make_again(edited)


# A checkpoint as this version writes it, committed on 2026-11-22 with
#   attention-course train --task reversal --max-length 4 --model transformer --dim 8 \
#       --hidden-dim 12 --layers 1 --heads 2 --learning-rate 0.02 --validate-every 150
# What a later version cannot read any more needs a new VERSION and another folder here.


def test_a_committed_checkpoint_can_be_read():
    about, task, model, step = load_model(RUNS / f"format{VERSION}", "cpu")
    expected = json.loads((RUNS / f"format{VERSION}" / "expected.json").read_text())

    assert about == About(
        "reversal",
        {"max_length": 4},
        "transformer",
        {"dim": 8, "hidden_dim": 12, "layers": 1, "heads": 2, "dropout": 0.0},
    )
    assert step == 300 == load(RUNS / f"format{VERSION}", device="cpu").step
    said = task.decode(model, [task.example(word) for word in expected["said"]])
    assert [task.text(one.tokens) for one in said] == [*expected["said"].values()]
    assert_close([one.score for one in said], expected["scores"], rtol=0, atol=1e-4)


@pytest.fixture
def folder(tmp_path):
    """The committed run, to break."""
    return Path(shutil.copytree(RUNS / f"format{VERSION}", tmp_path / "run"))


def rewrite(folder, **parts):
    """Edit a checkpoint; a part of value ... is taken away."""
    state = torch.load(folder / "checkpoint.pt", weights_only=True) | parts
    kept = {name: part for name, part in state.items() if part is not ...}
    torch.save(kept, folder / "checkpoint.pt")


@pytest.mark.plain
@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ({"format": "attention-course checkpoint 1"}, "has format 1, that of an older"),
        ({"format": "attention-course checkpoint 99"}, "format 99, that of a newer"),
        ({"format": "weights 1"}, "is not a checkpoint of this package"),
        ({"model": ...}, "its part 'model' is not what training wrote"),
        ({"history": {}}, "its part 'history' is not what training wrote"),
        ({"about": {"dim": 8}}, "it does not say its task and model"),
        ({"about": {"task": "reversal", "model": "transformer"}}, "its max_length"),
        ({"about": {"task": "reversal", "model": "tagger"}}, "there is no model for"),
        ({"about": {"task": [1], "model": {}}}, "was edited or is of no run"),
        ({"task": {"class": "SequenceTask"}}, "no task can be made of it"),
        ({"best": ("a",)}, "was edited or is of no run"),
        (
            {"best": (1, 0.5, {"head.weight": torch.zeros(2)})},
            "was edited or is of no run",
        ),
    ],
)
def test_an_edited_checkpoint_is_refused_in_a_line(folder, edited, told):
    rewrite(folder, **edited)

    with pytest.raises(ValueError, match=told) as error:
        load_model(folder, "cpu")
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.plain
def test_a_truncated_checkpoint_is_refused_in_a_line(folder):
    path = folder / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:-2000])

    with pytest.raises(ValueError, match="damaged or no checkpoint"):
        load_model(folder, "cpu")


@pytest.mark.plain
def test_other_vocabularies_are_refused_where_examples_are_made_again(folder):
    state = read(folder)
    letters = {"tokens": state["task"]["source_vocabulary"]["tokens"][::-1][:-1]}
    rewrite(folder, task=state["task"] | {"source_vocabulary": letters})

    with pytest.raises(ValueError, match="its source vocabulary differs"):
        load(folder, device="cpu")


@pytest.mark.plain
def test_an_edited_optimizer_is_refused_on_resuming(tmp_path):
    task = reversal(4, 20, 5)
    model = make_model(
        "final-state",
        task.source_size,
        task.target_size,
        **{name: SMALL[name] for name in ("dim", "hidden_dim", "layers", "dropout")},
    )
    config = TrainConfig(steps=2, batch_size=4)
    train(model, task, config, checkpoints=Checkpoints(tmp_path))
    rewrite(tmp_path, optimizer={"state": {}})

    with pytest.raises(ValueError, match="cannot be gone on from"):
        train(model, task, config, checkpoints=Checkpoints(tmp_path))


def test_a_table_says_what_a_run_is_of():
    sizes = {name: size.default for name, size in SIZES.items() if name != "heads"}
    about = About("reversal", {"max_length": 4}, "luong", sizes)

    assert about_of(about.kept) == about
    assert about_of(about.kept | {"validated_by": "loss"}) == about
    with pytest.raises(ValueError, match="its depth, which this version does not"):
        about_of(about.kept | {"depth": 3})
    assert about.unit == "token"
    assert About("focus", {}, "image-classifier", {}).unit == "label"


# The list


def test_runs_are_listed(folder):
    (folder / "scores.json").write_text(
        json.dumps({"test": {"step": 300, "scores": {"exact match": 0.5}}})
    )
    (folder.parent / "broken").mkdir()
    (folder.parent / "broken" / "run.json").write_text("{")
    shutil.copy(folder / "checkpoint.pt", folder.parent / "broken")
    shutil.copytree(folder, folder.parent / "cut")
    whole_bytes = (folder / "checkpoint.pt").read_bytes()
    (folder.parent / "cut" / "checkpoint.pt").write_bytes(whole_bytes[:-200])
    (folder.parent / "empty").mkdir()
    (folder.parent / "empty" / "run.json").write_text("{}")
    shutil.copytree(folder, folder.parent / "bare")
    (folder.parent / "bare" / "run.json").unlink()
    bare, broken, cut, empty, whole = list_runs(folder.parent)

    assert bare[:2] == (str(folder.parent / "bare"), "its summary is missing")
    assert cut[:2] == (str(folder.parent / "cut"), "its checkpoint is damaged")
    assert broken[:2] == (str(folder.parent / "broken"), "its summary cannot be read")
    assert empty[:2] == (str(folder.parent / "empty"), "its checkpoint is missing")
    assert whole[:3] == (str(folder), "reversal", "transformer")
    assert whole[4] == "300 of 300" and whole[6] == "exact match 0.500 (test)"


def test_scores_of_an_earlier_step_are_not_listed(folder):
    (folder / "scores.json").write_text(
        json.dumps({"test": {"step": 200, "scores": {"exact match": 0.5}}})
    )
    ((*_, score, _),) = list_runs(folder.parent)

    best = json.loads((folder / "run.json").read_text())["best"]["metric"]
    assert score == f"loss {-best:.3f} (validation)"


# The folder itself


@pytest.mark.plain
def test_an_empty_folder_is_taken_away_again(tmp_path):
    with pytest.raises(RuntimeError), output_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
        raise RuntimeError
    assert not (tmp_path / "a").exists()
    with output_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "checkpoint.pt").touch()
    assert (tmp_path / "a" / "b" / "checkpoint.pt").exists()


@pytest.mark.plain
def test_no_second_training_uses_a_folder(tmp_path):
    with alone(tmp_path):
        with pytest.raises(ValueError, match="another training is going on in"):
            with alone(tmp_path):
                pass
        assert (tmp_path / "training.lock").exists()
    assert not any(tmp_path.iterdir())
    with alone(tmp_path):
        pass


@pytest.mark.plain
def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="nothing can be written to .*file"):
        with output_folder(tmp_path / "file"):
            pass


def test_a_process_that_trains_with_the_first_is_let_in(tmp_path, monkeypatch):
    with alone(tmp_path):
        monkeypatch.setenv("RANK", "1")
        with alone(tmp_path):
            pass


# Ctrl-C


@pytest.mark.plain
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_control_c_saves_a_checkpoint_and_says_how_to_go_on(tmp_path, name):
    words = ["train", "--task", "reversal", "--max-length", "4", "--model"]
    words += ["final-state", "--dim", "8", "--hidden-dim", "12", "--layers", "1"]
    words += ["--steps", "100000", "--device", "cpu", "--out", str(tmp_path / "my run")]
    # the others may be sent twice
    times = "1" if name == "SIGINT" else "2"
    script = INTERRUPTED.replace("SIGINT", name).replace("TIMES", times)
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )

    assert done.returncode == 130, done.stderr
    history = read(tmp_path / "my run")["history"]
    assert len(history) == 4
    assert f"after step {len(history)} of 100000, which is saved" in done.stderr
    assert ("Ctrl-C once more" in done.stderr) == (name == "SIGINT")
    again = done.stderr.strip().splitlines()[-1]
    assert shlex.split(again) == ["attention-course", *words, "--resume"]
    assert (tmp_path / "my run" / "history.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.plain
@pytest.mark.parametrize("command", ["translate", "write", "evaluate", "train"])
def test_control_c_ends_a_command_that_is_being_imported(tmp_path, command):
    (tmp_path / "checkpoint.pt").touch()
    (tmp_path / "torch.py").write_text(SWALLOWS)
    words = ["--run", tmp_path, *(["a prompt"] if command == "write" else [])]
    if command == "train":
        words = ["--task", "reversal", "--model", "bahdanau", "--out", tmp_path / "new"]
    begin = "import signal; signal.signal(2, signal.default_int_handler)\n"
    begin += "from attention_course import cli; cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", begin, command, *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )

    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.plain
def test_two_processes_stop_after_the_same_step_and_save_it(tmp_path):
    words = ["train", "--task", "reversal", "--max-length", "4", "--model"]
    words += ["final-state", "--dim", "8", "--hidden-dim", "12", "--layers", "1"]
    words += ["--steps", "100000", "--devices", "2", "--out", str(tmp_path / "run")]
    trains = subprocess.Popen(
        [sys.executable, "-m", "attention_course.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        for _ in range(1000):
            if (tmp_path / "run" / "run.json").exists():
                break
            time.sleep(0.1)
        trains.terminate()
        _, told = trains.communicate(timeout=100)
    finally:
        trains.kill()

    history = read(tmp_path / "run")["history"]
    assert trains.returncode == 130, told
    assert told.count("stopping after this step") == 1
    assert told.count(f"after step {len(history)} of 100000, which is saved") == 1


# A module that turns Ctrl-C into another error.
SWALLOWS = """
import os
try:
    os.kill(os.getpid(), 2)
except BaseException:
    raise ImportError
"""

# In the fourth step, Ctrl-C is pressed.
INTERRUPTED = """
import os, signal
from attention_course import cli
from attention_course.training import loop

in_time, steps = loop.train_step, []
def pressing(*arguments, **settings):
    steps.append(1)
    for _ in range(TIMES * (len(steps) == 4)):
        os.kill(os.getpid(), signal.SIGINT)
    return in_time(*arguments, **settings)
loop.train_step = pressing
signal.signal(signal.SIGINT, signal.SIG_DFL)  # it may be ignored here
cli.main()
"""


@pytest.fixture
def interruptible():
    """Take Ctrl-C as a terminal sends it; a process in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.plain
def test_a_second_control_c_stops_at_once(interruptible):
    from attention_course.training.interrupts import held_back

    with pytest.raises(KeyboardInterrupt), held_back() as asked:
        signal.raise_signal(signal.SIGINT)
        assert asked.is_set()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.plain
def test_what_nohup_ignores_stays_ignored():
    from attention_course.training.interrupts import held_back

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert not asked.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
