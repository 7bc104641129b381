"""The command line, from a shell's point of view: words in, text and files out."""

import inspect
import io
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attention_course import cli
from attention_course.registry import (
    MODELS,
    OPTIONS,
    SIZES,
    TASKS,
    Kind,
    make_model,
    make_task,
    task_maker,
)
from attention_course.runs.loading import load, parameters
from attention_course.tasks.frames import frames
from attention_course.tasks.labels import LabelledExample
from attention_course.tasks.reversal import reversal
from attention_course.tasks.scenes import captions, focus
from attention_course.tasks.sentiment import sentiment
from attention_course.tasks.sequences import SequenceTask
from attention_course.tasks.tagging import tagging
from attention_course.tasks.writing import writing
from attention_course.training import evaluate, validation_loss
from attention_course.training.folder import read

ROOT = Path(__file__).parent.parent
WIDTHS = ["--dim", "8", "--hidden-dim", "12"]
TRAIN = [
    "train",
    "--task",
    "reversal",
    "--max-length",
    "4",
    *WIDTHS,
    "--layers",
    "1",
    "--batch-size",
    "7",
    "--device",
    "cpu",
]


@pytest.fixture
def shell(monkeypatch, capsys):
    """Run a command; return what it wrote, and what it said when it failed."""

    def run(*words, stdin=""):
        monkeypatch.setattr(sys, "argv", ["attention-course", *map(str, words)])
        given = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        told = capsys.readouterr()
        return told.out, end.value.code or told.err

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train for five steps, once for all tests."""
    folder = tmp_path_factory.mktemp("runs") / "reversal"
    words = [
        *TRAIN,
        "--model",
        "bahdanau",
        "--steps",
        "5",
        "--validate-every",
        "2",
        "--out",
        str(folder),
    ]
    cli.app(words, standalone_mode=False)
    return folder


@pytest.fixture
def trained(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "run"))


def test_a_run_leaves_a_checkpoint_that_knows_it(trained):
    state = read(trained)

    assert (trained / "history.csv").read_text().count("\n") == 6
    assert (trained / "history.png").read_bytes().startswith(b"\x89PNG")
    assert (
        state["about"]
        | {
            "task": "reversal",
            "model": "bahdanau",
            "dim": 8,
            "max_length": 4,
        }
        == state["about"]
    )
    assert (
        state["settings"] | {"steps": 5, "batch_size": 7, "validate_every": 2}
        == state["settings"]
    )


def test_translations_are_those_of_the_best_weights(shell, trained):
    words = ["abc", "bd", "x"]
    _, task, model, _ = load(trained, device="cpu")
    expected = [
        task.text(tokens)
        for tokens in task.predict(model, [task.example(word) for word in words])
    ]

    best = read(trained)["best"]
    assert best[1] == pytest.approx(-validation_loss(model, task))
    assert shell("translate", "--run", trained, *words)[0].splitlines() == expected
    assert (
        shell("translate", "--run", trained, stdin="abc\nbd\nx\n")[0].splitlines()
        == expected
    )


def test_a_beam_is_asked_for_by_its_size(shell, trained, monkeypatch):
    asked = []
    of_task = SequenceTask.decode

    def spy(self, *arguments, **settings):
        asked.append(settings)
        return of_task(self, *arguments, **settings)

    monkeypatch.setattr(SequenceTask, "decode", spy)
    _, failed = shell(
        "translate", "--run", trained, "--beam-size", 3, "--length-penalty", 0.5, "abc"
    )

    assert not failed
    assert asked == [{"beam_size": 3, "length_penalty": 0.5}]


def test_evaluation_prints_the_metrics_and_writes_the_predictions(
    shell, trained, tmp_path
):
    file = tmp_path / "said.txt"
    out, failed = shell(
        "evaluate", "--run", trained, "--split", "validation", "--out", file
    )
    _, task, model, _ = load(trained, device="cpu")
    first, second, *lines = out.splitlines()
    assert first == f"{trained}: bahdanau on reversal, after 5 steps"
    assert second == (
        f"reversal, validation: 1,000 examples; {parameters(model):,} parameters"
    )
    expected = evaluate(model, task, task.validation)

    assert not failed
    assert file.read_text().splitlines() == [
        task.text(prediction) for prediction in expected.predictions
    ]
    printed = dict(line.rsplit(maxsplit=1) for line in lines)
    assert float(printed["exact match"]) == pytest.approx(
        expected.exact_match, abs=1e-4
    )
    assert float(printed["alignment hit rate"]) == pytest.approx(
        expected.hit_rate, abs=1e-4
    )
    assert float(printed["alignment error rate"]) == pytest.approx(
        1 - expected.hit_rate, abs=1e-4
    )
    assert 0 < float(printed["token accuracy"]) < 1


def test_labels_are_evaluated_as_well(shell, tmp_path):
    words = [
        "--model",
        "classifier",
        *WIDTHS,
        "--steps",
        "3",
        "--validate-every",
        "2",
        "--device",
        "cpu",
    ]
    assert not shell("train", "--task", "sentiment", *words, "--out", tmp_path)[1]
    out, failed = shell("evaluate", "--run", tmp_path, "--out", tmp_path / "said.txt")
    _, task, model, _ = load(tmp_path, device="cpu")

    assert not failed
    assert (tmp_path / "said.txt").read_text().splitlines() == [
        label for (label,) in task.predict(model, task.test)
    ]
    printed = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[1:])
    assert float(printed["accuracy"]) == pytest.approx(
        task.score(model, task.test), abs=1e-4
    )
    assert float(printed["alignment hit rate"]) == pytest.approx(
        task.hit_rate(model, task.test), abs=1e-4
    )
    assert "--beam-size does nothing for the task sentiment" in only_line(
        shell("evaluate", "--run", tmp_path, "--beam-size", "1")[1]
    )
    said, _ = shell("translate", "--run", tmp_path, "the soup here is superb .")
    example = LabelledExample(tuple("the soup here is superb .".split()), ("positive",))
    assert (said.strip(),) == task.predict(model, [example])[0]


def test_a_run_is_gone_on_with_only_if_asked_for(shell, trained):
    again = [
        *TRAIN,
        "--model",
        "bahdanau",
        "--validate-every",
        "2",
        "--out",
        trained,
        "--steps",
    ]
    before = (trained / "checkpoint.pt").read_bytes()

    assert "go on with it by --resume" in shell(*again, "5")[1]
    assert (
        "its steps is 5, not 6; the learning rate falls to zero at the last step"
        in shell(*again, "6", "--resume")[1]
    )
    silent = [word for word in again if word not in ("--validate-every", "2")]
    assert "its validate_every is 2, not None" in shell(*silent, "5", "--resume")[1]
    half = ["5", "--resume", "--precision", "bf16-mixed"]
    assert "its precision is '32-true', not 'bf16-mixed'" in shell(*again, *half)[1]
    assert (trained / "checkpoint.pt").read_bytes() == before
    out, failed = shell(*again, "5", "--resume")
    assert not failed and "nothing is left to do after step 5 of 5" in out


def test_two_processes_train_to_what_one_does(shell, tmp_path):
    """Shares of a batch differ in size and in tokens: the mean of their means would be
    another loss."""
    words = [
        *TRAIN,
        "--model",
        "bahdanau",
        "--steps",
        "8",
        "--validate-every",
        "4",
        "--warmup",
        "2",
    ]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
        ]
        + ["-m", "attention_course.cli", *words, "--out", str(tmp_path / "two")],
        check=True,
        capture_output=True,
    )
    shell(*words, "--out", tmp_path / "one")

    one, two = read(tmp_path / "one"), read(tmp_path / "two")
    for ours, theirs in zip(one["history"], two["history"]):
        assert ours[:2] == theirs[:2]
        assert ours[2] == pytest.approx(theirs[2], rel=1e-4)
        assert (ours[3] is None) == (theirs[3] is None)
    assert one["best"][1] == pytest.approx(two["best"][1], rel=1e-4)
    assert_close(one["model"], two["model"], rtol=0, atol=1e-4)
    assert len(two["random"]) == 2


# What goes wrong


def only_line(failed):
    assert failed.startswith("attention-course: ") and "\n" not in failed
    return failed


@pytest.mark.plain
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["--task", "datess", "--model", "luong"],
            f"there is no task 'datess'; there are {', '.join(TASKS)}",
        ),
        (
            ["--task", "dates", "--model", "loung"],
            (
                "there is no model for dates called 'loung'; there are final-state,"
                " context, "
            ),
        ),
        (
            ["--task", "tagging", "--model", "luong"],
            "no model for tagging called 'luong'; there are tagger, encoder",
        ),
        (["--task", "multi30k", "--model", "luong"], "name it with --data"),
        (
            ["--task", "multi30k", "--model", "luong", "--data", "no_such"],
            "train.de.gz is missing",
        ),
        (
            ["--task", "dates", "--model", "luong", "--steps", "0"],
            ": --steps is at least 1, got 0",
        ),
        (
            [
                "--task",
                "dates",
                "--model",
                "luong",
                "--batch-size",
                "1",
                "--devices",
                "2",
            ],
            ": --batch-size 1 is below --devices 2, which share each batch",
        ),
        (
            ["--task", "dates", "--model", "luong", "--clip", "-1"],
            ": --clip is above 0, got -1.0",
        ),
        (
            ["--task", "reversal", "--model", "transformer", "--heads", "3"],
            "--heads 3 does not divide --dim 32",
        ),
        (
            ["--task", "dates", "--model", "luong", "--hidden-dim", "0"],
            "--hidden-dim is at least 1, got 0",
        ),
        (
            ["--task", "dates", "--model", "luong", "--dropout", "nan"],
            "--dropout is a share, at least 0 and below 1, got nan",
        ),
        (
            ["--task", "reversal", "--model", "luong", "--max-length", "0"],
            "--max-length is at least 1, got 0",
        ),
    ],
)
def test_what_cannot_be_trained_is_said_in_a_line(shell, tmp_path, words, named):
    assert named in only_line(
        shell("train", *words, "--device", "cpu", "--out", tmp_path / "run")[1]
    )
    assert not (tmp_path / "run").exists()


IDLE = [
    ("image-classifier", "focus", "--heads", "99"),
    ("image-classifier", "focus", "--dim", "9"),
    ("captioner", "captions", "--layers", "2"),
    ("classifier", "sentiment", "--layers", "2"),
    ("gnmt", "dates", "--dropout", "0.5"),
    ("luong", "dates", "--heads", "4"),
]


@pytest.mark.plain
@pytest.mark.parametrize(("model", "task", "option", "value"), IDLE)
def test_sizes_that_do_nothing_are_refused(shell, tmp_path, model, task, option, value):
    words = ["--task", task, "--model", model, option, value, "--out", tmp_path / "run"]
    told = only_line(shell("train", *words)[1])

    assert told == f"attention-course: {option} does nothing for the model {model}"
    assert not (tmp_path / "run").exists()


@pytest.mark.plain
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--vocab-size", "9"], "--vocab-size does nothing for the task dates"),
        (["--max-length", "20"], "--max-length does nothing for the task dates"),
        (["--data", "there"], "--data does nothing for the task dates"),
        (["--patience", "3"], "--patience does nothing without --validate-every"),
        (["--validate-by", "loss"], "--validate-by does nothing without --validate-"),
        (
            ["--teacher-forcing", "0.5"],
            "--teacher-forcing does nothing for the task tagging",
        ),
    ],
)
def test_other_options_that_do_nothing_are_refused(shell, tmp_path, given, told):
    run = ("tagging", "tagger") if "tagging" in told else ("dates", "luong")
    words = ["--task", run[0], "--model", run[1], *given, "--out", tmp_path / "run"]

    assert told in only_line(shell("train", *words)[1])


@pytest.mark.plain
def test_what_does_nothing_for_a_run_is_refused(shell, trained):
    beam = "--length-penalty does nothing without a --beam-size above 1"
    for command in ("translate", "evaluate"):
        words = [command, "--run", trained, "--length-penalty", "0.6"]
        assert beam in only_line(shell(*words)[1])
    words = ["evaluate", "--run", trained, "--data", "there"]
    told = "--data does nothing for the task reversal"
    assert told in only_line(shell(*words)[1])


@pytest.mark.plain
@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_what_is_no_run_is_said_in_a_line(shell, tmp_path, command):
    assert "there is no checkpoint in" in only_line(
        shell(command, "--run", tmp_path)[1]
    )
    torch.save({"weights": torch.zeros(3)}, tmp_path / "checkpoint.pt")
    assert "not a checkpoint of this package" in only_line(
        shell(command, "--run", tmp_path)[1]
    )


@pytest.mark.plain
@pytest.mark.parametrize("name", ["history.csv", "scores.json"])
@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_files_of_another_run_are_not_overwritten(shell, tmp_path, name, more):
    (tmp_path / name).write_text("{}")
    words = ["--task", "reversal", "--model", "final-state", "--out", tmp_path, *more]
    told = only_line(shell("train", *words)[1])
    assert f"has {name} but no checkpoint" in told
    assert (tmp_path / name).read_text() == "{}"


@pytest.mark.plain
def test_nothing_to_translate_is_said_in_a_line(shell, trained):
    assert "nothing to decode" in only_line(shell("translate", "--run", trained)[1])


@pytest.mark.plain
def test_a_file_that_is_named_as_a_source_is_pointed_out(shell, trained, tmp_path):
    named = tmp_path / "sources.txt"
    named.write_text("abc")
    out, told = shell("translate", "--run", trained, named, "abc")
    assert f"to decode the file's lines: < {named}" in told
    assert len(out.splitlines()) == 2


@pytest.mark.plain
def test_a_prompt_that_is_no_utf_8_is_refused_in_a_line(shell, tmp_path):
    told = only_line(shell("write", "--run", tmp_path, "a\udcffb")[1])
    assert "the prompt is no UTF-8 from character 2 on ('a'): give it in UTF-8" in told


@pytest.mark.plain
def test_gpus_that_are_not_there_are_said_in_a_line(shell, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    words = [
        "train",
        "--task",
        "reversal",
        "--model",
        "luong",
        "--device",
        "cuda",
        "--out",
        tmp_path,
    ]
    assert "1 GPU is needed, one for each process; 0 here" in only_line(
        shell(*words)[1]
    )


# The tables and the words


SMALL = {
    "captions": lambda: captions(20, 5),
    "focus": lambda: focus(20, 5),
    "frames": lambda: frames(5, 2),
    "reversal": lambda: reversal(4, 20, 5),
    "sentiment": lambda: sentiment(20, 5),
    "tagging": lambda: tagging(20, 5),
    "writing": lambda: writing(300, 16, 500),
}


@pytest.mark.parametrize(
    ("task_name", "name"),
    [
        (task, model)
        for task in SMALL
        for model in MODELS
        if MODELS[model].kind == TASKS[task].kind
    ],
)
def test_every_model_of_the_table_can_be_trained(task_name, name):
    task = SMALL[task_name]()
    sizes = {size: LARGE[size] for size in MODELS[name].sizes}
    model = make_model(name, task.source_size, task.target_size, **sizes)
    total, _ = task.loss(model, task.collate(task.train[:5]))
    total.backward()

    assert all(parameter.grad is not None for parameter in model.parameters())


LARGE = {"dim": 8, "hidden_dim": 12, "layers": 3, "heads": 2, "dropout": 0.1}
OTHER = {"dim": 12, "hidden_dim": 14, "layers": 2, "heads": 4, "dropout": 0.4}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_the_sizes_of_its_row_and_no_others(name):
    small = next(task for task in SMALL if TASKS[task].kind == MODELS[name].kind)
    task, row = SMALL[small](), MODELS[name].sizes

    def loss(**changed):
        sizes = {size: LARGE[size] for size in row} | changed
        torch.manual_seed(0)
        model = make_model(name, task.source_size, task.target_size, **sizes)
        return task.loss(model, task.collate(task.train[:5]))[0].item()

    usual = loss()
    assert loss() == usual
    assert len({usual, *(loss(**{size: OTHER[size]}) for size in row)}) == 1 + len(row)
    for size in set(SIZES) - set(row):
        with pytest.raises(ValueError, match=f"{name} takes {', '.join(row)}; got .*"):
            loss(**{size: OTHER[size]})


def test_the_small_tasks_are_of_all_kinds():
    assert {TASKS[name].kind for name in SMALL} == set(Kind)
    assert {row.kind for row in MODELS.values()} == set(Kind)


def test_options_reach_their_task():
    task = make_task("reversal", max_length=4)

    assert max(len(example.source) for example in task.train) == 4


@pytest.mark.parametrize("name", TASKS)
def test_a_task_can_be_made_with_the_options_of_its_row(name):
    row = TASKS[name]
    takes = inspect.signature(task_maker(name)).parameters

    assert {*row.options, *row.settings} <= set(takes)
    assert set(OPTIONS) & set(takes) == set(row.options)


HEAVY = {"torch", "sklearn", "lightning_fabric", "matplotlib", "scipy"}
HEAVY |= {"safetensors", "tokenizers", "transformers"}
LISTS_WHAT_IS_IMPORTED = """
import sys
from attention_course.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.plain
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        [],
        ["train", "--help"],
        ["translate", "--help"],
        ["write", "--help"],
        ["evaluate", "--help"],
        ["ls", "--help"],
        ["ls", "tests"],
        ["ls", "no_such_folder"],
        ["train", "--task", "dates", "--model", "luong", "--out", "run"]
        + ["--clip", "-1"],
        ["train", "--task", "dates", "--model", "luong", "--out", "run"]
        + ["--hidden-dim", "0"],
        ["train", "--task", "multi30k", "--model", "luong", "--out", "run"],
        ["translate", "--run", "no_such_folder", "a"],
        ["write", "Attention is"],
        ["train", "--task", "dates"],
        ["train", "--task", "datess", "--model", "luong", "--out", "run"],
        ["train", "--task", "dates", "--model", "tagger", "--out", "run"],
        ["train", "--task", "focus", "--model", "image-classifier", "--out", "run"]
        + ["--heads", "99"],
        ["train", "--task", "dates", "--model", "luong", "--out", "run"]
        + ["--patience", "3"],
        ["train", "--task", "dates", "--model", "luong", "--out", "run"]
        + ["--steps", "many"],
        ["evaluate", "--run", "run", "--split", "training"],
        ["translate", "--run", "run", "--length-penalty", "0.6"],
        ["write", "--checkpoint", "gpt2"],
        ["write", "--checkpoint", "gpt2", "--top-k", "3", "Attention is"],
    ],
    ids=" ".join,
)
def test_help_and_wrong_arguments_do_not_wait_for_torch(words):
    done = subprocess.run(
        [sys.executable, "-c", LISTS_WHAT_IS_IMPORTED, *words],
        capture_output=True,
        text=True,
    )
    imported = set(done.stderr.split())

    fine = "--help" in words or words == ["ls", "tests"]
    assert (done.returncode == 0) == fine, done.stderr
    assert "attention_course.registry" in imported
    assert not HEAVY & imported


@pytest.mark.plain
@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_what_only_uses_a_model_does_not_wait_for_fabric(tmp_path, command):
    run = shutil.copytree(ROOT / "tests" / "runs" / "format2", tmp_path / "run")
    words = [command, "--run", run, *(["abc"] if command == "translate" else [])]
    done = subprocess.run(
        [sys.executable, "-c", LISTS_WHAT_IS_IMPORTED, *words],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0 and done.stdout.strip()
    assert "torch" in done.stderr.split()
    assert not {"lightning_fabric", "sklearn"} & set(done.stderr.split())


@pytest.mark.parametrize("command", ["train", "translate", "write", "evaluate"])
def test_help_shows_an_example(shell, command):
    out, _ = shell(command, "--help")

    assert f"\n      attention-course {command} --" in out


def test_help_describes_every_task_and_names_every_model(shell):
    out, _ = shell("train", "--help")

    assert [row.meaning for row in TASKS.values() if row.meaning not in out] == []
    assert [name for name in MODELS if name not in out] == []


def test_the_version_is_that_of_the_package(shell):
    assert shell("--version")[0] == f"attention-course {version('attention-course')}\n"


def test_the_command_is_a_module_too():
    words = [sys.executable, "-m", "attention_course.cli", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"attention-course {version('attention-course')}\n"


def test_the_command_is_installed():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["scripts"] == {
            "attention-course": "attention_course.cli:main"
        }
