"""Submissions that are alike: a list for a person."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from measure.classroom import answers

from nbjudge.grading.similar import Pair, _page, pairs
from nbjudge.grading.similar import answers as answers_in

pytest.importorskip("copydetect", reason="pip install copydetect")

LAB = "lab03_scoring"
ROOT = Path(__file__).parents[1]
OWN = """
def attend(scores, value, mask=None, dropout=None):
    # the trick of mine
    total = scores.new_zeros(scores.shape[:-1])
    for place in range(scores.shape[-1]):
        if mask is not None and not mask[..., place].any():
            continue
        total = total + scores[..., place].exp() * (1 if mask is None else mask[..., place])
    weights = scores.exp() / total.unsqueeze(-1).clamp(min=1e-12)
    return weights @ value, weights
"""
COPY = (
    OWN.replace("total", "denominator")
    .replace("place", "j")
    .replace("    # the trick of mine\n", '    """Looks it up."""\n')
)
RELEASED = (
    "from torch import nn\ndef masked_softmax(scores, mask=None):\n"
    "def attend(scores, value, mask=None, dropout=None):\n    raise NotImplementedError"
)


def strangers(count):
    """Take answers of as many strangers to one question, of all rounds."""
    found = answers("attend", "right", "attend") + answers("attend", "wrong", "attend")
    apart = found[:: len(found) // count][:count]
    return {f"s{i}": text for i, text in enumerate(apart)}


def test_a_copy_with_other_names_comes_before_all_strangers():
    texts = {**strangers(20), "ada": OWN, "ben": COPY}
    first, *rest = pairs(texts, [RELEASED], common=4, least=60)
    assert first.students == ("ada", "ben")
    assert min(first.shares) > 80
    # Strangers write short answers that are nearly the same: only the order by what is
    # shared can be promised.
    assert all(pair.shared < first.shared for pair in rest)
    assert "<mark>" in first.texts[0] and "denominator" in first.texts[1]


def test_a_second_run_finds_the_same():
    """Python salts its hashes, which must not decide what is compared."""
    program = (
        "import test_similar as t; from nbjudge.grading.similar import pairs\n"
        "print([(p.students, p.shared) for p in pairs(t.strangers(20), [], 4, 60)])"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONHASHSEED": salt,
                "PYTHONPATH": str(ROOT / "tests"),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in "12"
    )
    assert first == second != "[]\n"


def test_what_the_lab_released_is_nobodys_own():
    texts = {"ada": OWN, "ben": COPY}
    assert pairs(texts, [RELEASED], common=3, least=60)
    assert not pairs(texts, [RELEASED, OWN], common=3, least=60)


def test_a_form_that_many_write_is_nobodys_own():
    texts = {"ada": OWN, "ben": OWN.replace("total", "denominator"), "chloe": OWN}
    assert len(pairs(texts, [], common=4, least=60)) == 3
    assert not pairs(texts, [], common=3, least=60)


def test_only_answers_are_compared():
    """Not the cells that the lab gives, and none that a student has added."""
    path = ROOT / "labs" / LAB / f"{LAB}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    source = [{**cell, "source": "".join(cell["source"])} for cell in notebook["cells"]]
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "attend":
            cell["source"] = OWN
    notebook["cells"].append({**notebook["cells"][1], "id": "x", "source": "mine = 1"})
    found = answers_in(json.dumps(notebook).encode(), source)
    assert "the trick of mine" in found and "mine = 1" not in found
    assert "check(" not in found and "import torch" not in found


def test_the_page_accuses_nobody():
    pair = Pair(("a<b", "c"), 90, (100.0, 60.0), ("x < y", "z"))
    html = _page(LAB, [pair], 20, 3)
    assert "a&lt;b" in html and "x &lt; y" in html and "100 %" in html
    assert "20 submissions compared, without what 3 or more have written" in html
    assert "This list says where to look, and no more" in html
    assert "plagiar" not in html.lower() and "cheat" not in html.lower()
