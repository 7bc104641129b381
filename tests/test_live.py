"""Pages that respond: the scripts compute what PyTorch computes, and the quiz
remembers."""

import json
import re
from pathlib import Path

import pytest
import torch
from browser import needs_chromium, pages
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attention_course import live, models
from attention_course.attention import MultiHeadAttention, attend
from attention_course.decoding import greedy
from attention_course.scores import (
    AdditiveScore,
    CosineScore,
    DotScore,
    ScaledDotScore,
)
from attention_course.tasks.core import BOS, EOS
from attention_course.tasks.dates import dates
from attention_course.tasks.numerals import numerals
from attention_course.tasks.writing import WritingTask, writing
from attention_course.training import TrainConfig, train
from attention_course.transformer import FeedForward

SCRIPTS = Path(__file__).parents[1] / "book" / "live"
EXAMPLES = ["mercredi 27 juillet 1988", "9. maj 2031"]
PAGE = """<!doctype html><meta charset="utf-8"><title>dates</title>
<script src="bahdanau.js"></script><script src="transformer.js"></script>
<script src="live.js"></script><script src="gpt.js"></script>{}"""
ANSWER = '<details class="quiz"><summary>{}</summary><p>{}</p></details>'
QUIZ = """<!doctype html><meta charset="utf-8"><title>quiz</title>
<script src="{}"></script><p>1.</p>{}{}<p>2.</p>{}{}""".format(
    (SCRIPTS / "quiz.js").as_uri(),
    ANSWER.format("a", "<strong>Right.</strong> It is."),
    ANSWER.format("b", "No."),
    ANSWER.format("c", "No."),
    ANSWER.format("d", "<strong>Right.</strong> So it is."),
)


@pytest.mark.plain
def test_a_row_is_rounded_to_what_its_largest_entry_spans():
    torch.manual_seed(0)
    rows = torch.randn(6, 9) * torch.logspace(-3, 2, 6)[:, None]
    state = {"matrix": rows, "bias": torch.tensor([0.5, -2.0]), "zero": torch.zeros(3)}

    shipped = live.unpack(json.loads(json.dumps(live.pack(state))))

    assert {name: part.shape for name, part in shipped.items()} == {
        name: part.shape for name, part in state.items()
    }
    step = rows.abs().amax(1, keepdim=True) / 127
    assert ((shipped["matrix"] - rows).abs() <= 0.501 * step).all()
    assert not shipped["zero"].any()
    again = live.unpack(live.pack(shipped))
    assert all(torch.allclose(again[name], shipped[name]) for name in shipped)

    half = live.unpack(json.loads(json.dumps(live.pack(state, bits=16))))
    assert torch.equal(half["matrix"], rows.half().float())


@pytest.fixture(scope="module")
def task():
    return dates(train_size=3000, held_out_size=200)


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    model = models.bahdanau(
        source_size=task.source_size,
        target_size=task.target_size,
        embedding_dim=32,
        hidden_dim=64,
        score=AdditiveScore(64, 128, 64),
    )
    train(model, task, TrainConfig(150, batch_size=48, learning_rate=8e-3))
    return model.eval()


@pytest.fixture(scope="module")
def numbers():
    return numerals(held_out_size=200)


@pytest.fixture(scope="module")
def translator(numbers):
    torch.manual_seed(0)
    model = models.transformer(
        source_size=numbers.source_size,
        target_size=numbers.target_size,
        dim=32,
        num_heads=4,
        hidden_dim=64,
        num_layers=2,
    )
    train(model, numbers, TrainConfig(150, batch_size=32, learning_rate=8e-3))
    return model.eval()


def page_with(folder, name, model, task, examples):
    """A page with the figure, and its weights in a script beside it."""
    if isinstance(task, WritingTask):
        page = live.writer(name, model, task.tokenizer, "Type here", examples)
    else:
        page = live.figure(name, model, task, "Type here", examples)
    weights = re.search(r'<script type="application/json">(.*?)</script>', page)
    (folder / "models").mkdir()
    (folder / "models" / f"{name}.js").write_text(
        f'live.model("{name}", {weights[1]});'
    )
    page = PAGE.format(page.replace(weights[0], ""))
    (folder / f"{name}.html").write_text(page, encoding="utf-8")
    for script in SCRIPTS.glob("*.js"):
        (folder / script.name).write_text(script.read_text())
    return (folder / f"{name}.html").as_uri()


@pytest.fixture
def page(tmp_path, model, task):
    return page_with(tmp_path, "dates", model, task, EXAMPLES)


def written(model, task):
    """The tokens and the weights that PyTorch finds for each test example."""
    found = []
    for example in task.test:
        source, lengths = task.read([example.source])
        decoded = greedy(model, source, lengths, BOS, EOS, max_length=20)
        tokens = decoded.tokens[0].tolist()
        tokens = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        target = torch.tensor([[BOS, *tokens[:-1]]])
        with torch.no_grad():
            _, weights = model(source, lengths, target, need_weights=True)
        found.append((tokens, weights[0]))
    return found


def with_shipped_weights(model, task, bits):
    """What `written` finds with the weights that a page has."""
    state = {name: part.clone() for name, part in model.state_dict().items()}
    model.load_state_dict(live.unpack(live.pack(state, bits)))
    found = written(model, task)
    model.load_state_dict(state)
    return found


def in_the_browser(address, name, script, argument):
    """Evaluate a function of the model, as loaded by its page, and of the argument."""
    with pages() as browser:
        opened = browser.new_page()
        opened.goto(address)
        opened.evaluate("name => live.load(name, () => {})", name)
        opened.wait_for_function("name => live.models[name]", arg=name)
        return opened.evaluate(
            f"([name, given]) => ({script})(live.models[name], given)", [name, argument]
        )


def assert_much_the_same(trained, shipped, task):
    """Rounding costs half a point at most, and moves few weights by more than .02."""
    right = [
        sum(
            task.target_vocabulary.decode(tokens) == tuple(example.target)
            for (tokens, _), example in zip(answers, task.test)
        )
        for answers in (trained, shipped)
    ]
    assert abs(right[0] - right[1]) <= 0.005 * len(task.test)
    moved = [
        (ours[1] - theirs[1]).abs().max()
        for ours, theirs in zip(trained, shipped)
        if ours[0] == theirs[0]
    ]
    assert len(moved) >= 0.98 * len(task.test)
    return torch.stack(moved)


@pytest.mark.plain
@needs_chromium
def test_the_recurrent_model_computes_what_pytorch_computes(page, model, task):
    trained, shipped = written(model, task), with_shipped_weights(model, task, bits=8)

    found = in_the_browser(
        page,
        "dates",
        "(model, sources) => sources.map(ids => attention.greedy(model.p, ids, model))",
        [task.source_vocabulary.encode(e.source) for e in task.test],
    )

    for steps, (tokens, weights) in zip(found, shipped, strict=True):
        assert [step["token"] for step in steps] == tokens
        rows = torch.tensor([step["weights"] for step in steps])
        torch.testing.assert_close(rows, weights, atol=1e-4, rtol=0)
    moved = assert_much_the_same(trained, shipped, task)
    assert moved.median() <= 0.02


@pytest.mark.plain
@needs_chromium
def test_the_transformer_computes_what_pytorch_computes(tmp_path, translator, numbers):
    address = page_with(tmp_path, "numerals", translator, numbers, ["twenty - one"])
    trained = written(translator, numbers)
    shipped = with_shipped_weights(translator, numbers, bits=16)

    found = in_the_browser(
        address,
        "numerals",
        """(model, sources) =>
            sources.map(ids => transformer.greedy(model.p, ids, model).found)""",
        [numbers.source_vocabulary.encode(e.source) for e in numbers.test],
    )

    for steps, (tokens, weights) in zip(found, shipped, strict=True):
        assert [step["token"] for step in steps] == tokens
        rows = torch.tensor(
            [step["weights"]["cross"] for step in steps]
        )  # (T, L, H, S)
        torch.testing.assert_close(rows.permute(1, 2, 0, 3), weights, atol=1e-4, rtol=0)
    assert assert_much_the_same(trained, shipped, numbers).max() <= 0.02


@pytest.mark.plain
@needs_chromium
def test_heads_can_be_looked_at_and_muted(tmp_path, translator, numbers):
    faults = []
    address = page_with(
        tmp_path, "numerals", translator, numbers, ["thirty-three thousand"]
    )
    with pages() as browser:
        opened = browser.new_page()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(address)
        opened.locator("div.live input").focus()
        opened.wait_for_selector(".live-map td")
        said = opened.locator(".live-said")
        assert "dreißig tausend" in said.inner_text()
        assert opened.locator("thead th").all_inner_texts() == [
            *("thirty", "-", "three", "thousand")
        ]
        which, head = opened.locator("div.live select").all()
        which.select_option("decoder to itself, layer 2")
        rows = opened.locator("tbody tr").all()
        assert rows[0].locator("td").first.inner_text() == "100"  # there is one to ask
        for name in (
            *("decoder to source, layer 1", "decoder to source, layer 2"),
            *("decoder to itself, layer 1", "encoder to itself, layer 1"),
        ):
            which.select_option(name)
            for h in range(4):
                head.select_option(str(h))
                opened.get_by_text("Mute this head").press("Enter")
        assert "16 of its heads are muted" in said.inner_text()
        assert "und dreißig tausend" not in said.inner_text()
        opened.get_by_text("Let all heads speak again").click()
        assert "dreißig tausend" in said.inner_text()
    assert not faults


@pytest.fixture(scope="module")
def extract():
    return writing(vocab_size=512, window=64, stride=64)


@pytest.fixture(scope="module")
def gpt(extract):
    torch.manual_seed(0)
    model = models.gpt2(
        vocab_size=512,
        dim=96,
        num_heads=4,
        hidden_dim=384,
        num_layers=2,
        max_length=64,
    )
    train(model, extract, TrainConfig(40, batch_size=16, learning_rate=8e-3))
    return model.eval()


@pytest.mark.plain
@needs_chromium
def test_the_language_model_computes_what_pytorch_computes(tmp_path, gpt, extract):
    address = page_with(tmp_path, "gpt", gpt, extract, ["Attention is"])
    texts = [
        *(
            "Attention is",
            "  two\n\nlines \tand 3 tabs'll do",
            "näïve Ünïcödé – 中文 🙂",
        ),
        *(extract.tokenizer.decode(list(w.tokens)) for w in extract.test[:40]),
    ]
    windows = [[BOS, *window.tokens][:64] for window in extract.test[:20]]
    draws = torch.rand(20, generator=torch.Generator().manual_seed(0)).tolist()
    state = {name: part.clone() for name, part in gpt.state_dict().items()}
    table = state.pop("head.weight")
    shipped = live.unpack(live.pack(state))
    gpt.load_state_dict(shipped | {"head.weight": shipped["embedding.table.weight"]})
    with torch.no_grad():
        logits = gpt(torch.tensor(windows))
    gpt.load_state_dict(state | {"head.weight": table})

    found = in_the_browser(
        address,
        "gpt",
        """(model, [texts, windows, draws]) => {
            const asked = { tau: 0.8, k: 50, p: 0.9 };
            const logits = windows.map(window => gpt.read(model, window).logits);
            return {
                ids: texts.map(text => gpt.encode(model, text)),
                texts: texts.map(text => gpt.decode(model, gpt.encode(model, text))),
                logits,
                drawn: logits.map((rows, i) =>
                    gpt.sample(gpt.probabilities(rows.at(-1), asked), draws[i])),
            };
        }""",
        [texts, windows, draws],
    )

    assert found["ids"] == [extract.tokenizer.encode(text).ids for text in texts]
    assert found["texts"] == texts
    theirs = torch.tensor(found["logits"])
    torch.testing.assert_close(theirs, logits, atol=1e-3, rtol=0)
    torch.testing.assert_close(
        theirs.softmax(-1), logits.softmax(-1), atol=1e-4, rtol=0
    )
    for row, drawn, draw in zip(logits[:, -1], found["drawn"], draws):
        best = (row / 0.8).softmax(-1).sort(descending=True)
        top = best.values[:50] / best.values[:50].sum()
        size = int((top.cumsum(0) < 0.9).sum()) + 1
        kept = torch.zeros(512)
        kept[best.indices[:size]] = top[:size] / top[:size].sum()
        assert drawn == int((kept.cumsum(0) <= draw).sum())


@pytest.mark.plain
@needs_chromium
def test_a_prompt_is_continued(tmp_path, gpt, extract):
    faults = []
    address = page_with(tmp_path, "gpt", gpt, extract, ["Attention is"])
    with pages() as browser:
        opened = browser.new_page()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(address)
        prompt, mark = opened.locator("textarea"), opened.locator(".writer-text mark")
        prompt.focus()
        opened.wait_for_selector("tbody tr")
        assert opened.locator("tbody tr").count() == 8
        opened.locator("input[type=range]").nth(1).press("Home")  # the most probable
        assert "1 token can come next" in opened.locator("p[role=status]").inner_text()
        assert opened.locator("tbody tr").count() == 1
        opened.get_by_text("Write 40 tokens").press("Enter")
        opened.wait_for_function(
            "document.querySelector('.writer-text mark').textContent.length > 20"
        )
        opened.get_by_text("Stop", exact=True).click()
        opened.get_by_text("Start again").click()
        assert mark.inner_text() == ""
        for button in ("Write 40 tokens", "Write 40 tokens", "Start again"):
            opened.get_by_text(button).dispatch_event("click")
        opened.wait_for_timeout(300)  # nothing goes on writing
        assert mark.inner_text() == ""
        for text in ("", "<b>bold</b> & 中", "x " * 2000):
            prompt.fill(text)
            opened.get_by_text("Draw the next token").click()
            assert opened.locator("tbody tr").count() == 1
            said = opened.locator("p[role=status]").inner_text()
            assert ("first 1,000 characters" in said) == (len(text) > 1000)
        assert opened.locator("div.writer b").count() == 0
    assert not faults


@pytest.mark.plain
@needs_chromium
def test_the_figure_answers_what_a_reader_types(page):
    faults = []
    with pages() as browser:
        opened = browser.new_page()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.goto(page)
        assert (
            opened.evaluate("Object.keys(live.models).length") == 0
        )  # not yet touched

        field, said = opened.locator("div.live input"), opened.locator(".live-said")
        field.focus()
        opened.wait_for_selector(".live-map td")
        assert re.fullmatch(r"The model writes [\d-]+\.", said.inner_text())
        assert opened.locator("thead button").count() == len(EXAMPLES[0])

        # by keyboard alone: forbid a character, and its column holds no weight
        opened.locator("thead button").nth(9).press("Enter")
        column = opened.locator("tbody td:nth-of-type(10)")
        styles = {cell.get_attribute("style") for cell in column.all()}
        assert styles == {"--weight: 0.000"}
        assert opened.evaluate("document.activeElement.ariaPressed") == "true"

        # by mouse: another date, and a character of it
        opened.locator(".live-examples button").nth(1).click()
        assert field.input_value() == EXAMPLES[1]
        opened.locator("thead button").nth(2).click()
        assert opened.locator("thead button[aria-pressed=true]").count() == 1
        styles = opened.locator("tbody td:nth-of-type(3)").all()
        assert {cell.get_attribute("style") for cell in styles} == {"--weight: 0.000"}
        opened.get_by_text("Allow all characters again").click()
        assert opened.locator("thead button[aria-pressed=true]").count() == 0

        for text, expected in (
            ("", "Type something"),
            ("x" * 1000, "and this is 1000"),
            ("<img src=x onerror=alert(1)> 中", "It has never seen"),
        ):
            field.fill(text)
            assert expected in said.inner_text()
        assert opened.locator("div.live img").count() == 0
    assert not faults


@pytest.mark.plain
@needs_chromium
def test_without_scripts_the_figure_says_what_is_missing(page):
    with pages(java_script_enabled=False) as browser:
        opened = browser.new_page()
        opened.goto(page)
        assert "if JavaScript is on" in opened.locator("div.live").inner_text()


@pytest.mark.plain
@needs_chromium
def test_a_quiz_counts_the_first_choice_and_remembers_it(tmp_path):
    (tmp_path / "quiz.html").write_text(QUIZ, encoding="utf-8")
    with pages() as browser:
        page = browser.new_page()
        page.goto((tmp_path / "quiz.html").as_uri())
        total, again = page.locator("p[role=status]"), page.locator(".quiz-again")
        assert total.inner_text() == "" and not again.is_visible()

        for answer in ("a", "c", "d"):  # right; wrong, and right at the second choice
            page.get_by_text(answer, exact=True).press("Enter")
        page.wait_for_selector("details:nth-of-type(4).quiz-right")
        assert page.locator(".quiz-right").count() == 2
        assert page.locator(".quiz-wrong summary").inner_text() == "c"
        assert total.inner_text().startswith("1 of 2 right at the first choice")

        page.reload()
        assert total.inner_text().startswith("1 of 2 right at the first choice")

        again.click()
        assert page.locator(".quiz-right, .quiz-wrong, details[open]").count() == 0
        page.reload()
        assert total.inner_text() == ""


NUMBERS = {
    "kernel": {"keys": [0.0, 1.0, 2.5, 4.0], "values": [1.0, -2.0, 3.0, 0.5]},
    "scores": {"keys": [[2.0, 0.0], [4.0, 4.0], [-1.0, 0.5], [0.0, -3.0]]},
    "window": {
        "tokens": list("abcdefg"),
        "scores": [0.5, 2.0, -1.0, 3.0, 0.0, 1.0, 4.0],
        "half_width": 2,
    },
    "sampling": {"tokens": list("abcde"), "logits": [2.0, 1.5, 0.0, -1.0, 1.0]},
    "rotary": {
        "query": [1.0, 0.5, -0.3, 2.0],
        "key": [0.2, 1.0, 1.5, -0.5],
        "angles": [30.0, 3.0],
        "longest": 9,
    },
    "running": {"scores": [1.0, 3.0, -2.0, 5.0], "values": [1.0, 2.0, 3.0, 4.0]},
    "mask": {"tokens": list("abcde")},
    "order": {
        "words": list("xyz"),
        "vectors": [[1.0, 0.5], [-1.0, 2.0], [0.3, -0.7]],
        "positions": [[0.0, 1.0], [0.8, 0.5], [0.9, -0.4]],
        "query": [[-2.0, 0.3], [-1.0, -1.0]],
        "key": [[1.0, 0.2], [0.4, 1.0]],
        "value": [[3.0, 1.0], [0.5, -1.0]],
    },
    "by_hand": {
        "words": list("abc"),
        "answers": ["negative", "positive"],
        "models": {
            "plain": {
                "weights": [0.5, 0.3, 0.2],
                "values": [[1.0], [-2.0], [0.5]],
                "bias": [0.0],
                "out": [1.0],
                "out_bias": 0.25,
                "tanh": False,
            },
            "deep": {
                "weights": [0.1, 0.2, 0.7],
                "values": [[1.0, -1.0], [-2.0, 0.4], [0.5, 3.0]],
                "bias": [0.1, -0.2],
                "out": [1.5, -0.5],
                "out_bias": -0.1,
                "tanh": True,
            },
        },
    },
    "frames": {
        "step": "step",
        "start": 2,
        "frames": {
            "one": [
                {"name": "a", "labels": ["p"], "weights": [1.0], "says": "first"},
                {"name": "b", "labels": list("pq"), "weights": [0.5, 0.5], "says": "&"},
                {"name": "c", "labels": list("pq"), "weights": [0.0, 1.0], "says": "!"},
            ],
            "two": [
                {"name": "d", "labels": list("pq"), "weights": [0, 1], "says": "last"}
            ],
        },
    },
    "split": {"words": 3, "width": 4, "heads": 2},
    "beam": {"tree": {"a": {"x": 0.4, "y": 0.6}, "b": {"x": 0.9, "y": 0.1}}},
    "cost": {},
}


@pytest.mark.plain
@needs_chromium
def test_without_scripts_a_figure_to_touch_is_a_table(tmp_path):
    figures = [live.sliders(kind, kind, "", **NUMBERS[kind]) for kind in NUMBERS]
    path = tmp_path / "still.html"
    path.write_text('<meta charset="utf-8">' + "".join(figures), encoding="utf-8")
    with pages(java_script_enabled=False) as browser:
        page = browser.new_page()
        page.goto(path.as_uri())
        shown = page.locator("div.touch").all_inner_texts()
        assert all("On the book's page" in text for text in shown)
        cells = page.locator('[data-kind="window"] td').all_inner_texts()
        assert cells[:4] == ["a", "0.5", "b", "2.0"]
        rows = page.locator('[data-kind="frames"] tr').all_inner_texts()
        assert rows[1].split("\t") == ["one", "b", "&"]


@pytest.fixture(scope="module")
def sliders(tmp_path_factory):
    """A browser's page with a figure of every kind."""
    figures = [
        live.sliders(kind, f"Try {kind}", "choice", **numbers)
        for kind, numbers in NUMBERS.items()
    ]
    path = tmp_path_factory.mktemp("touch") / "touch.html"
    names = [SCRIPTS / "touch.js", *sorted(SCRIPTS.glob("kinds/*.js"))]
    scripts = "".join(f'<script src="{path.as_uri()}"></script>' for path in names)
    style = SCRIPTS.parent / "assets" / "course.css"
    scripts += f'<link rel="stylesheet" href="{style.as_uri()}">'
    head = f'<!doctype html><meta charset="utf-8"><title>touch</title>{scripts}'
    path.write_text(head + "".join(figures), encoding="utf-8")
    with pages() as browser:
        page = browser.new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(path.as_uri())
        yield page
        assert not faults


def rows_of(page, kind, values, choice=None):
    return page.evaluate(
        "([kind, numbers, values, choice]) => touch.kinds[kind].rows("
        "numbers, {...values, on: new Set(values.on)}, choice)",
        [kind, NUMBERS[kind], values, choice],
    )


def close(found, expected):
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64), expected.double(), atol=1e-6, rtol=0
    )


@pytest.mark.plain
@needs_chromium
def test_sliders_of_a_kernel_and_of_scores_compute_what_the_package_computes(sliders):
    keys, values = map(torch.tensor, NUMBERS["kernel"].values())
    context, weights = attend(-(((1.7 - keys) / 0.8) ** 2)[None] / 2, values[:, None])
    found = rows_of(sliders, "kernel", {"x": 1.7, "width": 0.8})
    close(found["weights"], weights[0])
    close(found["context"], context[0, 0])

    keys = torch.tensor(NUMBERS["scores"]["keys"])
    angle = torch.tensor(1.0471975512)  # 60 degrees
    query = 3 * torch.stack([angle.cos(), angle.sin()])[None]
    for choice, score in (
        ("dot", DotScore()),
        ("scaled dot", ScaledDotScore()),
        ("cosine", CosineScore()),
    ):
        expected = score(query, score.project_keys(keys)).softmax(-1)[0]
        found = rows_of(sliders, "scores", {"angle": 60, "length": 3}, choice)
        close(found["weights"], expected)


@pytest.mark.plain
@needs_chromium
def test_sliders_of_a_window_and_of_sampling_leave_out_what_they_say(sliders):
    scores = torch.tensor(NUMBERS["window"]["scores"])
    distance = (torch.arange(7) - 2.5).abs()
    alone = scores.masked_fill(distance > 2, -torch.inf).softmax(-1)
    for choice, expected in (
        ("global", scores.softmax(-1)),
        ("window alone", alone),
        ("window and bell (local-p)", alone * torch.exp(-(distance**2) / 2)),
    ):
        found = rows_of(sliders, "window", {"p": 2.5, "w": 2}, choice)
        close(found["weights"], expected)

    logits = torch.tensor(NUMBERS["sampling"]["logits"])
    for values, kept in (
        ({"tau": 0.7, "k": 5, "p": 1}, [0, 1, 2, 3, 4]),
        ({"tau": 2.0, "k": 2, "p": 1}, [0, 1]),
        ({"tau": 1.0, "k": 5, "p": 0.5}, [0, 1]),  # .47 does not reach one half
        ({"tau": 1.0, "k": 5, "p": 0.05}, [0]),
    ):
        allowed = torch.full((5,), -torch.inf)
        allowed[kept] = logits[kept] / values["tau"]
        close(rows_of(sliders, "sampling", values)["weights"], allowed.softmax(-1))


@pytest.mark.plain
@needs_chromium
def test_sliders_of_rotary_positions_and_of_the_running_softmax(sliders):
    query, key, degrees, _ = map(torch.tensor, NUMBERS["rotary"].values())
    angles = degrees.double().deg2rad()

    def turned(vector, position):
        pairs = torch.view_as_complex(vector.double().view(-1, 2))
        return pairs * torch.exp(1j * position * angles)

    product = (turned(query, 7) * turned(key, 4).conj()).real
    found = rows_of(sliders, "rotary", {"t": 7, "s": 4})
    close(found["numbers"], product)
    close(rows_of(sliders, "rotary", {"t": 5, "s": 2})["score"], product.sum())

    scores, values = map(torch.tensor, NUMBERS["running"].values())
    m, total, mixed = rows_of(sliders, "running", {"read": 4})["state"]
    close(m, scores.max())
    close(mixed / total, scores.softmax(-1) @ values)


@pytest.mark.plain
@needs_chromium
def test_a_mask_reaches_as_far_as_its_powers(sliders):
    choice, near = "itself and the position before", torch.ones(5, 5).tril().triu(-1)
    painted = near.clone()
    painted[0, 3], painted[3, 2] = 1, 0  # one allowed, one forbidden
    for on, sees in (([], near), (["0 3", "3 2"], painted)):
        for layers in (1, 2, 4):
            values = {"layers": layers, "on": on}
            found = rows_of(sliders, "mask", values, choice)
            expected = torch.linalg.matrix_power(sees, layers) > 0
            assert found["reached"] == expected.tolist()
            assert ("later input" in found["says"]) == (
                "No output" in found["says"] or bool(on)
            )
    causal = "itself and all before (causal mask)"
    found = rows_of(sliders, "mask", {"layers": 1}, causal)
    assert found["reached"] == torch.ones(5, 5).tril().bool().tolist()


@pytest.mark.plain
@needs_chromium
def test_words_in_another_order_are_attended_to_as_in_the_package(sliders):
    given = NUMBERS["order"]
    x, positions, *maps = (
        torch.tensor(given[name])
        for name in ("vectors", "positions", "query", "key", "value")
    )
    for choice, added in (("without positions", 0), ("with positions", positions)):
        moved = (x[[2, 0, 1]] + added)[None]  # the fifth order of three
        query, key, value = (moved @ matrix.T for matrix in maps)
        outputs, _ = attend(ScaledDotScore()(query, key), value)
        found = rows_of(sliders, "order", {"order": 5}, choice)
        close([found["outputs"][i] for i in (2, 0, 1)], outputs[0])
        same = all(change < 1e-9 for change in found["numbers"])
        assert same == (choice == "without positions")


@pytest.mark.plain
@needs_chromium
def test_weights_by_hand_give_the_answer_of_the_model(sliders):
    for name, given in NUMBERS["by_hand"]["models"].items():
        values = torch.tensor(given["values"], dtype=torch.float64)
        weights = torch.tensor(given["weights"], dtype=torch.float64)
        weights = 0.25 * weights + 0.75 * torch.tensor([0, 1, 0])
        sums = weights @ values + torch.tensor(given["bias"])
        sums = sums.tanh() if given["tanh"] else sums
        lead = sums @ torch.tensor(given["out"]).double() + given["out_bias"]
        found = rows_of(sliders, "by_hand", {"word": 2, "share": 0.75}, name)
        close(found["weights"], weights)
        close(found["probability"], lead.sigmoid())


@pytest.mark.plain
@needs_chromium
def test_heads_are_split_as_torch_splits_them(sliders):
    x = torch.tensor([[[t + d / 10 for d in range(4)] for t in range(3)]])
    split = {
        "transpose": x.unflatten(-1, (2, -1)).transpose(1, 2),
        "view": x.view(1, 2, 3, -1),
    }
    choices = sliders.evaluate("touch.kinds.split.choices")
    for name, expected in split.items():
        choice = next(choice for choice in choices if choice.startswith(name))
        rows = rows_of(sliders, "split", {"word": 2}, choice)["grid"]["cells"]
        texts = [[float(cell["text"]) for cell in row] for row in rows]
        close(texts, torch.cat(list(expected[0]), dim=-1))
        # shaded is what comes from token 1
        assert [[cell["weight"] > 0 for cell in row] for row in rows] == [
            [int(x) == 1 for x in row] for row in texts
        ]


@pytest.mark.plain
@needs_chromium
def test_a_larger_beam_finds_what_greedy_decoding_misses(sliders):
    for values, found in (
        ({"size": 1, "p": 0.55}, "a y"),  # .33, and b x has .405
        ({"size": 2, "p": 0.55}, "b x"),
        ({"size": 1, "p": 0.65}, "a y"),
        ({"size": 2, "p": 0.65}, "a y"),  # .39 against .315
    ):
        assert rows_of(sliders, "beam", values)["found"] == found


@pytest.mark.plain
@needs_chromium
def test_costs_are_those_that_pytorch_counts(sliders):
    B, T, D, H = 2, 32, 64, 4
    x = torch.randn(B, T, D)
    attention, feed_forward = MultiHeadAttention(D, H), FeedForward(D, 4 * D)
    gru = nn.GRU(D, D, batch_first=True)
    counted = []
    for layer in (lambda: attention(x, x, x, None, True), lambda: feed_forward(x)):
        with FlopCounterMode(display=False) as counter:
            weights = layer()
        counted.append(counter.get_total_flops() / 2)  # an addition each
        if isinstance(weights, tuple):
            stored = weights[1].numel() * 4 / 2**20
    values = {"t": 5, "d": 6, "h": 2, "b": 1, "layers": 3}
    found = rows_of(sliders, "cost", values)
    maps, pairs, forward, recurrent = found["numbers"]
    assert [maps + pairs, forward] == counted
    matrices = [p for p in gru.parameters() if p.dim() == 2]
    assert recurrent == B * T * sum(p.numel() for p in matrices)
    assert found["weights_mib"] == stored
    assert found["cache_mib"] == 3 * 2 * x.numel() * 4 / 2**20


@pytest.mark.plain
@needs_chromium
def test_frames_show_what_the_page_has_computed(sliders):
    place = sliders.locator('[data-kind="frames"]')
    slider, select = place.locator("input"), place.locator("select")
    assert place.locator("output").inner_text() == "b"
    assert place.locator("p[role=status]").inner_text() == "&"
    slider.press("End")
    assert place.locator("p[role=status]").inner_text() == "!"
    select.select_option("two")  # which has one frame only
    assert place.locator("p[role=status]").inner_text() == "last"
    assert slider.input_value() == "1" == slider.get_attribute("max")
    select.select_option("one")
    assert place.locator("p[role=status]").inner_text() == "first"


@pytest.mark.plain
@needs_chromium
def test_a_mask_is_painted_by_keyboard_and_by_mouse(sliders):
    place = sliders.locator('[data-kind="mask"]')
    said = place.locator("p[role=status]")
    place.locator("select").select_option("itself alone")
    place.locator("input").press("Home")
    assert "depends on 1 of 5 inputs. No output" in said.inner_text()
    assert place.locator('button[tabindex="0"]').count() == 1  # one stop for Tab
    place.locator("button").last.focus()  # e to d
    sliders.keyboard.press("Enter")
    assert "depends on 2 of 5 inputs. No output" in said.inner_text()
    sliders.keyboard.press("ArrowLeft")
    sliders.keyboard.press("Space")  # e to c
    assert "depends on 3 of 5 inputs. No output" in said.inner_text()
    place.get_by_role("button", name="c may attend to a").focus()
    sliders.keyboard.press("ArrowDown")  # in the same column, past what has no switch
    sliders.keyboard.press("ArrowRight")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert sliders.evaluate(focused) == "d may attend to b"
    sliders.keyboard.press("ArrowUp")
    sliders.keyboard.press("ArrowUp")
    assert sliders.evaluate(focused) == "a may attend to b"
    place.get_by_role("button", name="a may attend to b").click()
    assert "The output at “a” depends on a later input" in said.inner_text()
    place.get_by_role("button", name="a may attend to b").click()
    assert "No output" in said.inner_text()


@pytest.mark.plain
@needs_chromium
def test_points_are_dragged_and_moved_by_arrow_keys(sliders):
    place = sliders.locator('[data-kind="scores"]')
    query = place.locator("svg g").last
    query.scroll_into_view_if_needed()
    frame = place.locator("svg").bounding_box()
    unit = frame["width"] / 17
    at = query.locator("circle").last.bounding_box()
    sliders.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    sliders.mouse.down()
    sliders.mouse.move(
        frame["x"] + (8.5 + 3) * unit, frame["y"] + (8.5 - 4) * unit, steps=5
    )
    sliders.mouse.up()
    said = place.locator("p[role=status]")
    assert said.inner_text().startswith("The query is (3.00, 4.00). The largest")
    assert [o.inner_text() for o in place.locator("output").all()] == ["53", "5.0"]
    query.press("ArrowLeft")
    query.press("ArrowDown")
    assert said.inner_text().startswith("The query is (2.50, 3.50).")
    first = place.locator("svg g").first
    first.press("ArrowUp")
    assert place.locator("tbody th").first.inner_text().startswith("key 1 (2, 0.5)")
    for _ in range(30):  # it stays within the plane
        first.press("ArrowUp")
    assert place.locator("tbody th").first.inner_text().startswith("key 1 (2, 8)")


@pytest.mark.plain
@needs_chromium
def test_a_finger_drags_a_point_and_not_the_page(sliders):
    phone = sliders.context.browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    page = phone.new_page()
    page.goto(sliders.url)
    place = page.locator('[data-kind="scores"]')
    query = place.locator("svg g").last
    query.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    at = query.locator("circle").last.bounding_box()
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    unit = place.locator("svg").bounding_box()["width"] / 17
    finger = phone.new_cdp_session(page)
    for step in range(11):
        kind = "touchMove" if step else "touchStart"
        points = [{"x": x, "y": y + 4 * unit * step / 10}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    found = re.search(r"\((\S+), (\S+)\)", place.locator("[role=status]").inner_text())
    assert found and float(found[2].replace("−", "-")) < -3
    assert page.evaluate("scrollY") == before
    phone.close()


@pytest.mark.plain
@needs_chromium
def test_every_slider_is_pulled_by_mouse(sliders):
    for select in sliders.locator("select").all():
        select.select_option(index=0)
    for slider in sliders.locator("input[type=range]").all():
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        y = box["y"] + box["height"] / 2
        values = []
        for share in (0.05, 0.95):
            sliders.mouse.move(box["x"] + box["width"] / 2, y)
            sliders.mouse.down()
            sliders.mouse.move(box["x"] + share * box["width"], y, steps=3)
            sliders.mouse.up()
            values.append(float(slider.input_value()))
        assert values[0] < values[1], slider.get_attribute("id")


@pytest.mark.plain
@needs_chromium
def test_every_slider_moves_by_keyboard_and_says_its_value(sliders):
    for place in sliders.locator("div.touch").all():
        assert place.locator("tbody tr").count() >= 1
        for slider in place.locator("input[type=range]").all():
            output = slider.locator("xpath=following-sibling::output")
            before, said = slider.input_value(), output.inner_text()
            slider.press("ArrowRight")
            if slider.input_value() == before:  # it stood at its end
                slider.press("ArrowLeft")
            if slider.get_attribute("max") == "1":
                continue  # frames that are one
            assert slider.input_value() != before and output.inner_text() != said
            assert output.inner_text() == slider.get_attribute("aria-valuetext")
        for select in place.locator("select").all():
            select.select_option(index=1)
        assert "NaN" not in place.inner_text()
