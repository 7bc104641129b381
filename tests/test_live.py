"""Pages that respond: the scripts compute what PyTorch computes, and the quiz
remembers."""

import json
import re
from pathlib import Path

import pytest
import torch
from browser import needs_chromium, pages

from attention_course import live, models
from attention_course.decoding import greedy
from attention_course.scores import AdditiveScore
from attention_course.tasks.core import BOS, EOS
from attention_course.tasks.dates import dates
from attention_course.training import TrainConfig, train

SCRIPTS = Path(__file__).parents[1] / "book" / "live"
EXAMPLES = ["mercredi 27 juillet 1988", "9. maj 2031"]
PAGE = """<!doctype html><meta charset="utf-8"><title>dates</title>
<script src="bahdanau.js"></script><script src="live.js"></script>{}"""
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


@pytest.fixture
def folder(tmp_path, model, task):
    """A page with the figure, and its weights in a script beside it."""
    page = live.figure("dates", model, task, "A date", EXAMPLES)
    weights = re.search(r'<script type="application/json">(.*?)</script>', page)
    (tmp_path / "dates.js").write_text(f'live.model("dates", {weights[1]});')
    page = page.replace(weights[0], "")
    (tmp_path / "page.html").write_text(PAGE.format(page), encoding="utf-8")
    for script in SCRIPTS.glob("*.js"):
        (tmp_path / script.name).write_text(script.read_text())
    return tmp_path


def written(model, task):
    """The tokens and the weights that PyTorch finds for each test example."""
    found = []
    for example in task.test:
        source, lengths = task.read([example.source])
        with torch.no_grad():
            decoded = greedy(model, source, lengths, BOS, EOS, max_length=20)
        tokens = decoded.tokens[0].tolist()
        tokens = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        found.append((tokens, decoded.weights[0, : len(tokens)]))
    return found


@pytest.mark.plain
@needs_chromium
def test_the_scripts_compute_what_pytorch_computes(folder, model, task):
    """On the weights as shipped: the same tokens, and the same maps within 1e-4; and
    these are what the trained weights give, but for half a point and .02."""
    trained = written(model, task)
    state = {name: part.clone() for name, part in model.state_dict().items()}
    model.load_state_dict(live.unpack(live.pack(state)))
    shipped = written(model, task)
    model.load_state_dict(state)

    with pages() as browser:
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        found = page.evaluate(
            """sources => new Promise(done => live.load("dates", model => done(
                sources.map(ids => attention.greedy(model.p, ids, model)))))""",
            [task.source_vocabulary.encode(e.source) for e in task.test],
        )

    for steps, (tokens, weights) in zip(found, shipped, strict=True):
        assert [step["token"] for step in steps] == tokens
        rows = torch.tensor([step["weights"] for step in steps])
        torch.testing.assert_close(rows, weights, atol=1e-4, rtol=0)
    right = [
        [
            task.target_vocabulary.decode(tokens) == tuple(example.target)
            for (tokens, _), example in zip(answers, task.test)
        ]
        for answers in (trained, shipped)
    ]
    assert abs(sum(right[0]) - sum(right[1])) <= 0.005 * len(task.test) + 1
    same = [
        (ours[1] - theirs[1]).abs().max()
        for ours, theirs in zip(trained, shipped)
        if ours[0] == theirs[0]
    ]
    assert len(same) >= 0.95 * len(task.test)
    assert torch.stack(same).quantile(0.95) <= 0.02


@pytest.mark.plain
@needs_chromium
def test_the_figure_answers_what_a_reader_types(folder):
    faults = []
    with pages() as browser:
        page = browser.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((folder / "page.html").as_uri())
        assert page.evaluate("Object.keys(live.models).length") == 0  # not yet touched

        field, said = page.locator("div.live input"), page.locator(".live-said")
        field.focus()
        page.wait_for_selector(".live-map td")
        assert re.fullmatch(r"The model writes [\d-]+\.", said.inner_text())
        assert page.locator("thead button").count() == len(EXAMPLES[0])

        # by keyboard alone: forbid a character, and its column holds no weight
        page.locator("thead button").nth(9).press("Enter")
        column = page.locator("tbody td:nth-of-type(10)")
        styles = {cell.get_attribute("style") for cell in column.all()}
        assert styles == {"--weight: 0.000"}
        assert page.evaluate("document.activeElement.ariaPressed") == "true"

        for text, expected in (
            ("", "Type something"),
            ("x" * 1000, "and this is 1000"),
            ("<img src=x onerror=alert(1)> 中", "It has never seen"),
        ):
            field.fill(text)
            assert expected in said.inner_text()
        assert page.locator("div.live img").count() == 0
    assert not faults


@pytest.mark.plain
@needs_chromium
def test_without_scripts_the_figure_says_what_is_missing(folder):
    with pages(java_script_enabled=False) as browser:
        page = browser.new_page()
        page.goto((folder / "page.html").as_uri())
        assert "needs JavaScript" in page.locator("div.live").inner_text()


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
