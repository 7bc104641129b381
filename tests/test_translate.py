"""What translate reads and writes: lines, files, JSON and pages of maps."""

import base64
import functools
import html.parser
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from attention_course import cli
from attention_course.cli.files import standard_input
from attention_course.compiled import Compiled
from attention_course.pretrained import writer
from attention_course.registry import MODELS, SIZES, TASKS, Source, make_model
from attention_course.runs import loading
from attention_course.runs.about import About
from attention_course.runs.loading import load_model
from attention_course.runs.sources import Reader, arriving, read_frames, read_image
from attention_course.tasks.core import BOS
from attention_course.tasks.frames import frames
from attention_course.tasks.kept import keep_task
from attention_course.tasks.numerals import numerals
from attention_course.tasks.reversal import reversal
from attention_course.tasks.scenes import captions, focus
from attention_course.tasks.sentiment import sentiment
from attention_course.tasks.sequences import SequenceTask
from attention_course.tasks.tagging import tagging
from attention_course.tasks.writing import writing
from attention_course.training import Checkpoints, TrainConfig, train
from attention_course.transformer import TransformerLM

SMALL = {"dim": 8, "hidden_dim": 12, "layers": 2, "heads": 2, "dropout": 0.0}
TRANSFORMER = Path(__file__).parent / "runs" / "format2"  # one layer, two heads
MAKERS = {
    "reversal": lambda: reversal(4, 40, 5),
    "numerals-de": lambda: numerals("de", 3, 150, 5),
    "captions": lambda: captions(20, 5),
    "focus": lambda: focus(20, 5),
    "frames": lambda: frames(5, 2),
    "tagging": lambda: tagging(20, 5),
    "sentiment": lambda: sentiment(20, 5),
    "writing": lambda: writing(300, 16, 500),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make the run of a model on a small task, once for all tests."""
    there = {}

    def run(task, model, steps=1):
        if (task, model) not in there:
            folder = tmp_path_factory.mktemp(model)
            small = MAKERS[task]()
            sizes = {name: SMALL[name] for name in MODELS[model].sizes}
            torch.manual_seed(0)
            net = make_model(model, small.source_size, small.target_size, **sizes)
            options = {"max_length": 4} if task == "reversal" else {}
            options |= {"vocab_size": 300} if task == "writing" else {}
            about = About(task, options, model, sizes).kept
            # at this rate a step teaches a decoder not to end at once
            config = TrainConfig(steps, 4, 0.05, warmup_steps=0)
            train(
                net,
                small,
                config,
                checkpoints=Checkpoints(folder, 1, about, keep_task(small)),
            )
            there[task, model] = folder, small
        return there[task, model]

    return run


@pytest.fixture
def shell(monkeypatch, capsys):
    """Run a command; return what it wrote, what it told, and how it ended."""

    def run(*words, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["attention-course", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        told = capsys.readouterr()
        code = end.value.code or 0
        return told.out, told.err + (code if isinstance(code, str) else ""), code

    return run


def test_a_line_in_is_a_line_out(shell, made):
    folder, _ = made("reversal", "bahdanau", 20)
    alone = [shell("translate", "--run", folder, word)[0] for word in ("abc", "dd")]
    given = "\ufeffabc\r\n\n   \ndd".encode()
    out, told, code = shell("translate", "--run", folder, stdin=given)

    assert not code and not told
    assert out == f"{alone[0]}\n\n{alone[1]}"
    assert alone[0].strip() and alone[1].strip()


@pytest.mark.plain
def test_what_the_model_has_never_seen_is_told_with_its_line(shell, made):
    folder, _ = made("reversal", "bahdanau", 20)
    given = "ab\nä日b\nb".encode() + b"\xff\ncd\n"
    out, told, code = shell("translate", "--run", folder, stdin=given)

    assert not code and out.count("\n") == 4
    assert told.splitlines() == [
        "line 2: the model has never seen 'ä', '日', and reads <unk> instead",
        "line 3: byte 0xff at position 2 is no UTF-8; the model reads <unk> instead",
    ]
    _, told, _ = shell("translate", "--run", folder, "ab", "ö")
    assert told.startswith("source 2: the model has never seen 'ö'")


@pytest.mark.plain
def test_unknown_words_are_told_as_words(shell, made):
    folder, _ = made("numerals-de", "luong")
    _, told, _ = shell("translate", "--run", folder, stdin=b"one  gazillion\n")

    assert told == "line 1: the model has never seen 'gazillion', and reads <unk>" + (
        " instead\n"
    )


def test_a_word_is_cut_at_its_hyphens_and_commas_if_the_model_knows_the_parts(
    shell, made
):
    folder, _ = made("numerals-de", "luong")
    apart = shell("translate", "--run", folder, "four hundred and fifty - one")
    assert shell("translate", "--run", folder, "four hundred and fifty-one") == apart
    assert shell("translate", "--run", folder, "Four HUNDRED and fifty-one") == apart
    assert apart[0].strip() and not apart[1]
    _, told, _ = shell("translate", "--run", folder, "fifty-gazillion")
    assert "'fifty-gazillion'" in told


@pytest.mark.plain
def test_an_argument_that_is_no_utf_8_is_told_as_a_line_is(shell, made):
    folder, _ = made("reversal", "bahdanau", 20)
    _, told, _ = shell("translate", "--run", folder, "ab", os.fsdecode(b"b\xff"))
    assert told == (
        "source 2: byte 0xff at position 2 is no UTF-8; the model reads <unk> instead\n"
    )


class Slow(io.BufferedIOBase):
    """A stream that has the next piece when it is asked for it."""

    def __init__(self, *pieces):
        self.pieces = [*pieces]

    def read1(self, size=-1):
        return self.pieces.pop(0) if self.pieces else b""


def test_lines_are_taken_as_they_come():
    stream = Slow(b"a\nb\nc", b"d\n", b"\n", b"e")
    batches = arriving(stream, most=2)

    assert next(batches) == [b"a", b"b"]
    assert len(stream.pieces) == 3
    assert [*batches] == [[b"cd"], [b""], [b"e"]]
    assert [*arriving(Slow(b"a\nb\nc\n"), most=2)] == [[b"a", b"b"], [b"c"]]


def test_an_answer_comes_before_the_next_line_is_read(shell, made, monkeypatch, capsys):
    folder, _ = made("reversal", "bahdanau", 20)
    seen = []

    class Asks(Slow):
        def read1(self, size=-1):
            seen.append(capsys.readouterr().out)
            return super().read1(size)

    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(
        sys, "argv", ["attention-course", "translate", "--run", str(folder)]
    )
    monkeypatch.setattr(cli.use, "standard_input", lambda what: Asks(b"abc\n", b"dd\n"))
    with pytest.raises(SystemExit):
        cli.main()
    assert stream and seen[0] == "" and seen[1].strip() and seen[2].strip()


def test_json_has_tokens_score_and_weights(shell):
    folder = TRANSFORMER
    out, _, _ = shell("translate", "--run", folder, "--json", stdin=b"abc\n\n")
    said, nothing = map(json.loads, out.splitlines())
    _, task, model, _ = load_model(folder, "cpu")
    example = task.example("abc")
    (decoded,) = task.decode(model, [example])
    batch = task.collate([example._replace(target=decoded.tokens)])
    with torch.no_grad():
        _, weights = model(*batch[:3], need_weights=True)

    assert tuple(said["target"]) == decoded.tokens and len(decoded.tokens) > 0
    assert said["source"] == ["a", "b", "c"]
    assert said["score"] == pytest.approx(decoded.score, abs=1e-5)
    count = len(decoded.tokens)
    assert said["heads"] == pytest.approx(weights[0, :, :, :count].numpy(), abs=1e-5)
    mean = weights[0, -1, :, :count].mean(dim=0)
    assert said["weights"] == pytest.approx(mean.numpy(), abs=1e-5)
    assert nothing["target"] == [] and nothing["score"] is None
    assert said["warnings"] == nothing["warnings"] == []


def test_json_and_page_have_the_warnings(shell, tmp_path):
    page = tmp_path / "maps.html"
    words = ["translate", "--run", TRANSFORMER, "--json", "--attention", page, "abé"]
    out, told, _ = shell(*words)
    (warning,) = json.loads(out)["warnings"]

    assert warning == "the model has never seen 'é', and reads <unk> instead"
    assert told == f"source 1: {warning}\n"
    assert f"<p>Warning: {warning}.</p>" in html.unescape(page.read_text("utf-8"))


class Cells(html.parser.HTMLParser):
    """Reads the numbers and the heads of a page's tables."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.tables, self.heads = None, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append([])
            self.heads.append([])
        if tag in ("td", "th"):
            self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside == "td" and text.strip():
            self.tables[-1].append(float(text))
        elif self.inside == "th":
            self.heads[-1].append(text)


def test_a_page_shows_the_maps(shell, made, tmp_path):
    folder, _ = made("reversal", "bahdanau", 20)
    page = tmp_path / "new" / "maps.html"
    words = ["translate", "--run", folder, "--attention", page, "--json"]
    out, told, code = shell(*words, stdin=b"ab\n\ncd<\n")
    first, _, last = map(json.loads, out.splitlines())
    text = page.read_text(encoding="utf-8")
    cells = Cells(text)

    assert code == 0 and "cd&lt;" in text and "cd<" not in text
    assert len(cells.tables) == 2
    for table, heads, said in zip(cells.tables, cells.heads, (first, last)):
        assert heads == [*said["source"], *said["target"]]
        assert table == pytest.approx(np.ravel(said["weights"]), abs=0.006)


def test_control_c_leaves_the_page_of_what_was_answered(
    shell, made, tmp_path, monkeypatch
):
    def interrupted(stream):
        yield [b"ab"]
        raise KeyboardInterrupt

    monkeypatch.setattr("attention_course.runs.sources.arriving", interrupted)
    folder, _ = made("reversal", "bahdanau", 20)
    page = tmp_path / "maps.html"
    out, _, code = shell("translate", "--run", folder, "--attention", page)
    assert code == 130 and out.strip()
    assert len(Cells(page.read_text(encoding="utf-8")).tables) == 1


@pytest.mark.plain
def test_no_file_of_a_run_and_nothing_but_a_page_is_written_over(shell, made, tmp_path):
    folder = shutil.copytree(made("reversal", "bahdanau", 20)[0], tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    words = ["translate", "--run", folder, "ab", "--attention"]
    for path in (notes, folder / "checkpoint.pt", "May 1, 2001"):
        assert "name a file .html" in shell(*words, path)[1]
    for name in ("checkpoint.pt", "run.json", "history.csv"):
        words = ["evaluate", "--run", folder, "--out", folder / name]
        assert "belongs to a run: name another file" in shell(*words)[1]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert notes.read_text() == "mine"
    out = ["evaluate", "--run", folder, "--out", notes, "--split", "validation"]
    assert shell(*out)[1] == f"{notes} will be replaced\n"
    assert notes.read_text() != "mine"


@pytest.mark.plain
def test_scores_that_cannot_be_noted_are_still_printed(shell, made, tmp_path):
    folder = shutil.copytree(made("reversal", "bahdanau", 20)[0], tmp_path / "run")
    (folder / "scores.json").mkdir()
    out, told, code = shell("evaluate", "--run", folder)
    assert code == 0 and "exact match" in out
    assert told.startswith(f"the scores could not be noted in {folder} (")


@pytest.mark.plain
def test_a_checkpoint_is_named_by_its_folder(shell, made):
    folder, _ = made("reversal", "bahdanau", 20)
    told = shell("translate", "--run", folder / "checkpoint.pt", "ab")[1]
    assert told.endswith(f"is a file of a run: name its folder, {folder}")


def test_at_a_terminal_it_is_said_what_is_read(monkeypatch, capsys):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"ab")))
    assert standard_input("a prompt").read() == b"ab"
    assert capsys.readouterr().err == "type a prompt; Ctrl-D ends\n"


@pytest.mark.plain
def test_a_failure_leaves_no_empty_page(shell, made, tmp_path):
    folder, _ = made("reversal", "bahdanau", 20)
    words = ["translate", "--run", folder, "--attention", tmp_path / "maps.html"]
    assert "there is nothing to decode" in shell(*words)[1]
    assert not (tmp_path / "maps.html").exists()
    (tmp_path / "maps.html").symlink_to("/dev/full")
    assert "maps.html cannot be written" in shell(*words, "ab")[1]


@pytest.mark.plain
def test_an_answer_that_is_cut_is_told(shell, monkeypatch):
    words = ["translate", "--run", TRANSFORMER]
    assert not shell(*words, "ab")[1]
    monkeypatch.setattr(SequenceTask, "max_length", lambda self, examples: 2)
    out, told, code = shell(*words, "ab", "abcd")
    assert not code and len(out.splitlines()[1]) == 2
    assert "source 2: the answer was cut after 2 tokens" in told
    out, _, _ = shell(*words, "--json", "abcd")
    assert json.loads(out)["warnings"][0].startswith("the answer was cut after 2")


def test_a_dash_is_standard_input(shell, made):
    folder, _ = made("reversal", "bahdanau", 20)
    words = ["translate", "--run", folder]
    assert shell(*words, "-", stdin=b"ab\n")[0] == shell(*words, "ab")[0] != "\n"
    assert json.loads(shell(*words, "--json", " ab \t")[0])["source"] == ["a", "b"]


def test_a_page_shows_every_head(shell, tmp_path):
    page = tmp_path / "maps.html"
    shell("translate", "--run", TRANSFORMER, "--attention", page, "ab")

    assert len(Cells(page.read_text(encoding="utf-8")).tables) == 1 + 1 * 2


def test_one_slot_is_shown_as_one(shell, made, tmp_path):
    folder, _ = made("reversal", "final-state", 20)
    page = tmp_path / "maps.html"
    shell("translate", "--run", folder, "--attention", page, "abc")
    ((*heads,),) = Cells(page.read_text(encoding="utf-8")).heads

    assert heads[0] == "the memory's only slot" and len(heads) > 1


@pytest.mark.parametrize(
    ("task", "model"), [("captions", "captioner"), ("focus", "image-classifier")]
)
def test_images_are_read_from_files(shell, made, tmp_path, task, model):
    folder, small = made(task, model, 5)
    image = small.test[0].source
    np.save(tmp_path / "image.npy", image[0].numpy())
    pixels = (image[0].clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    Image.fromarray(pixels).save(tmp_path / "image.png")
    page = tmp_path / "maps.html"
    files = [tmp_path / "image.npy", tmp_path / "image.png"]
    out, told, code = shell("translate", "--run", folder, "--attention", page, *files)
    _, again, net, _ = load_model(folder, "cpu")
    expected = " ".join(small.predict(net, small.test[:1])[0])

    assert all("was cut" in line for line in told.splitlines())
    assert code == 0 and expected
    assert out.splitlines()[0] == expected
    assert torch.equal(read_image(files[0]), image)
    assert (read_image(files[1]) - image.clamp(0, 1)).abs().max() <= 0.5 / 255 + 1e-6
    text = page.read_text(encoding="utf-8")
    tables = Cells(text).tables
    pictures = re.findall('src="data:image/png;base64,([^"]+)"', text)
    for picture in pictures:
        shown = Image.open(io.BytesIO(base64.b64decode(picture)))
        assert np.abs(np.asarray(shown).astype(int) - pixels).max() <= 1
    assert len(pictures) == 2
    assert {len(table) for table in tables} == {36}
    assert sum(tables[0]) == pytest.approx(1, abs=36 * 0.005)


def test_a_deep_image_and_one_in_colour_are_read(tmp_path):
    deep = np.zeros((24, 24), dtype=np.uint16)
    deep[12:] = 65_535
    Image.fromarray(deep).save(tmp_path / "deep.png")
    colour = np.zeros((24, 24, 3), dtype=np.uint8)
    colour[:12] = 255
    Image.fromarray(colour).save(tmp_path / "colour.png")

    assert (read_image(tmp_path / "deep.png")[0, 12:] == 1).all()
    assert read_image(tmp_path / "colour.png").mean() == 0.5


def test_frames_are_read_from_files(shell, made, tmp_path):
    folder, small = made("frames", "frame-labeller", 5)
    np.save(tmp_path / "sound.npy", small.test[0].source.numpy())
    given = f"{tmp_path / 'sound.npy'}\n".encode()
    out, told, code = shell("translate", "--run", folder, stdin=given)
    _, _, net, _ = load_model(folder, "cpu")

    assert not told and code == 0
    assert out.split() == list(small.predict(net, small.test[:1])[0])


@pytest.mark.plain
def test_files_that_cannot_be_read_are_told_and_the_others_answered(
    shell, made, tmp_path
):
    folder, _ = made("focus", "image-classifier", 5)
    np.save(tmp_path / "good.npy", np.zeros((24, 24)))
    np.save(tmp_path / "bright.npy", np.full((24, 24), 7.0))
    np.save(tmp_path / "large.npy", np.zeros((25, 24)))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.save(tmp_path / "code.npy", np.array([[{}]]), allow_pickle=True)
    np.save(tmp_path / "colour.npy", np.zeros((24, 24, 3), dtype=np.uint8))
    np.save(tmp_path / "two.npy", np.zeros((2, 24, 24)))
    np.save(tmp_path / "white.npy", np.full((24, 24), 255, dtype=np.uint8))
    np.save(tmp_path / "ones.npy", np.eye(24, dtype=np.uint8))
    np.save(tmp_path / "shifted.npy", np.full((24, 24), -1.0))
    (tmp_path / "no.png").write_text("no image")
    names = ["missing.png", "bright.npy", "large.npy", "text.npy", "code.npy", "no.png"]
    names += ["colour.npy", "two.npy", "white.npy", "ones.npy", "shifted.npy"]
    files = [tmp_path / name for name in [*names, "good.npy"]]
    words = ["translate", "--run", folder]
    out, told, code = shell(*words, *files)

    assert code == 1
    assert out.startswith("\n" * len(names)) and out.strip()
    lines = told.splitlines()
    *bad, good = map(json.loads, shell(*words, "--json", *files)[0].splitlines())
    assert [
        f"source {n}: {w}" for n, b in enumerate(bad, 1) for w in b["warnings"]
    ] == (lines)
    assert good["warnings"] == []
    assert len(lines) == len(names)
    for n, (line, why) in enumerate(
        zip(
            lines,
            [
                "No such file",
                "brightness is 0 for black and 1 for white, got 7 to 7",
                "(1, 25, 24), expected (1, 24, 24)",
                "two of numbers",
                "",
                "it is no image",
                "an image is an array (height, width) in gray, got (24, 24, 3)",
                "an image is an array (height, width) in gray, got (2, 24, 24)",
                "most of it is bright: the digits are bright on black",
                "its brightest pixel is 1 of 255: give 0 and 1 as floats",
                "brightness is 0 for black and 1 for white, got -1 to -1",
            ],
        ),
        1,
    ):
        assert line.startswith(f"source {n}: {files[n - 1]} cannot be read: ")
        assert why in line


@pytest.mark.plain
def test_frames_that_are_no_numbers_are_refused(tmp_path):
    np.save(tmp_path / "nan.npy", np.full((3, 32), np.nan))
    with pytest.raises(ValueError, match="infinite or nan"):
        read_frames(tmp_path / "nan.npy")


@pytest.mark.parametrize(
    ("task", "model", "text"),
    [
        ("sentiment", "classifier", "the soup here is superb ."),
        ("tagging", "tagger", "the cook sees the cat"),
    ],
)
def test_texts_are_labelled(shell, made, task, model, text):
    folder, small = made(task, model, 5)
    out, _, code = shell("translate", "--run", folder, "--json", text)
    said = json.loads(out)
    _, again, net, _ = load_model(folder, "cpu")
    source, lengths = again.read([text.split()])
    logits, weights = net(source, lengths)

    assert said["source"] == text.split()
    best = logits[0].reshape(-1, small.target_size).log_softmax(dim=-1).max(dim=-1)
    assert said["target"] == [small.labels[i] for i in best.indices]
    assert said["score"] == pytest.approx(best.values.sum().item(), abs=1e-5)
    if weights is None:
        assert "weights" not in said
    else:
        assert said["weights"] == pytest.approx(weights[0].detach().numpy(), abs=1e-5)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("task", "model", "words", "told"),
    [
        ("tagging", "tagger", ["--attention", "x.html"], "--attention does nothing"),
        ("tagging", "tagger", ["--beam-size", "2"], "--beam-size does nothing for"),
        ("writing", "gpt", [], "the task writing has prompts: go on with one by write"),
    ],
)
def test_what_a_model_cannot_do_is_refused(
    shell, made, tmp_path, monkeypatch, task, model, words, told
):
    monkeypatch.chdir(tmp_path)
    _, said, code = shell("translate", "--run", made(task, model)[0], *words, "a")

    assert code and told in said and "\n" not in said


@pytest.mark.plain
def test_a_page_that_cannot_be_written_is_told_before_the_work(shell, made, tmp_path):
    folder, _ = made("reversal", "bahdanau", 20)
    (tmp_path / "file").touch()
    for command, option in (("translate", "--attention"), ("evaluate", "--out")):
        path = tmp_path / "file" / "out.html"
        out, said, code = shell(command, "--run", folder, option, path)
        assert not out and said.startswith(
            f"attention-course: {path} cannot be written"
        )


# Prompts


def test_a_language_model_goes_on_with_a_prompt(shell, made):
    folder, small = made("writing", "gpt", 5)
    words = ["write", "--run", folder, "--max-tokens", "4"]
    out, told, code = shell(*words, "Attention is")
    _, task, model, _ = load_model(folder, "cpu")
    ids = [BOS, *task.tokenizer.encode("Attention is", add_special_tokens=False).ids]
    for _ in range(4):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))

    assert not told and code == 0
    assert out == task.tokenizer.decode(ids) + "\n"
    assert out.startswith("Attention is")
    assert shell(*words, "--temperature", "2", "Attention is")[0] != out
    assert shell(*words, "")[2] == 0
    assert shell(*words, "-", stdin=b"Attention is\n")[0] == out


# Steps that are compiled


@pytest.fixture
def traced(monkeypatch):
    """Compile by tracing alone, which needs no compiler; return the counted graphs."""
    traces = functools.partial(Compiled, backend="aot_eager")
    monkeypatch.setattr(loading, "Compiled", traces)
    monkeypatch.setattr(writer, "Compiled", traces)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch._dynamo.utils.counters["stats"]


@pytest.mark.plain
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_compiled_steps_answer_the_same(shell, made, traced, precision):
    words = ["translate", "--run", TRANSFORMER, "--json", "--precision", precision]
    given = b"abc\nbd\n\nacdb\n"
    expected, _, _ = shell(*words, stdin=given)
    assert not traced["unique_graphs"]
    out, told, code = shell(*words, "--compile", stdin=given)

    assert (told, code) == ("", 0) and traced["unique_graphs"] >= 1
    for line, wanted in zip(out.splitlines(), expected.splitlines(), strict=True):
        said, wanted = json.loads(line), json.loads(wanted)
        assert said.pop("score") == pytest.approx(wanted.pop("score"), abs=0.05)
        assert said == wanted


@pytest.mark.plain
def test_compiled_steps_write_and_are_scored_the_same(shell, made, traced):
    folder, _ = made("writing", "gpt", 5)
    words = ["write", "--run", folder, "--max-tokens", "6", "Attention is"]
    expected, _, _ = shell(*words)
    assert shell(*words, "--compile") == (expected, "", 0)
    assert traced.pop("unique_graphs") >= 1

    run = shutil.copytree(TRANSFORMER, folder.parent / "scored")
    words = ["evaluate", "--run", run]
    expected, _, _ = shell(*words)
    assert shell(*words, "--compile") == (expected, "", 0)
    assert traced["unique_graphs"] >= 1


@pytest.mark.plain
def test_a_prompt_is_gone_on_with_in_half_precision(shell, made, monkeypatch):
    dtypes = set()

    def spy(model, token, *rest):
        logits, *more = of_model(model, token, *rest)
        dtypes.add(logits.dtype)
        return logits, *more

    of_model = TransformerLM.step
    monkeypatch.setattr(TransformerLM, "step", spy)
    folder, _ = made("writing", "gpt", 5)
    words = ["write", "--run", folder, "--max-tokens", "2", "Attention is"]
    assert shell(*words)[2] == 0 and dtypes == {torch.float32}
    assert shell(*words, "--precision", "bf16-mixed")[2] == 0
    assert dtypes == {torch.float32, torch.bfloat16}


@pytest.mark.plain
def test_what_cannot_be_compiled_is_refused_in_a_line(shell, made, monkeypatch):
    for task, model, told in (
        ("reversal", "bahdanau", "has a BahdanauDecoder: decode without compiling"),
        ("tagging", "encoder", "--compile does nothing for the task tagging"),
        ("captions", "captioner", "--compile does nothing for the task captions"),
    ):
        folder, _ = made(task, model, 20)
        _, said, code = shell("translate", "--run", folder, "--compile", "abc")
        assert code and told in said and "\n" not in said

    def no_compiler(graph, inputs):
        raise RuntimeError("no working compiler found")

    broken = functools.partial(Compiled, backend=no_compiler)
    monkeypatch.setattr(loading, "Compiled", broken)
    torch._dynamo.reset()
    _, said, code = shell("translate", "--run", TRANSFORMER, "--compile", "abc")
    assert code and "\n" not in said
    assert "no working compiler found" in said and "leave out compile" in said


@pytest.mark.plain
def test_prompts_that_cannot_be_gone_on_with_are_refused(shell, made, tmp_path):
    folder, _ = made("writing", "gpt", 5)
    _, said, _ = shell("write", "--run", folder, "--max-tokens", "128", "Attention")
    assert "are too long for a model of 128" in said
    other, _ = made("reversal", "bahdanau", 20)
    _, said, _ = shell("write", "--run", other, "ab")
    assert "only runs of the task writing can go on with a prompt" in said
    for words in ([], ["--run", folder, "--checkpoint", tmp_path]):
        _, said, _ = shell("write", *words, "Attention")
        assert "name one model to write with, by --run or by --checkpoint" in said


def test_a_reader_counts_from_one():
    told = []
    reader = Reader(reversal(4, 20, 5), Source.TEXT, told.append)
    numbers = [reader.read(line).number for line in ("ab", "", "ö")]

    assert numbers == [1, 2, 3] and told[0].startswith("line 3: ")


def test_the_small_tasks_are_in_the_registry():
    assert set(MAKERS) <= set(TASKS) and set(SMALL) == set(SIZES)
