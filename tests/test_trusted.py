"""Grading that cannot be fooled: walls, limits, judge, records, and a whole round trip
with nbgrader's commands.

Where bubblewrap is missing these tests say so and skip; in CI (CI=true) they fail
instead.
"""

import contextlib
import copy
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import submissions
import torch
from submissions import RELEASED, SOLVED, read, records, scores

from attention_labs import QUESTIONS
from nbjudge.evaluation import evaluate
from nbjudge.grading import wire
from nbjudge.grading.batch import Job, Worker, grade_all
from nbjudge.grading.commands import GradingError, lab_names, nbgrader
from nbjudge.grading.course import load
from nbjudge.grading.files import Unreadable, fingerprint, printable
from nbjudge.grading.intake import take_in
from nbjudge.grading.judge import CellOutcome, seed_of
from nbjudge.grading.lab import code_cells, imports_of
from nbjudge.grading.matching import grade_id, is_graded, names_of
from nbjudge.grading.names import clashes
from nbjudge.grading.notebooks import read_cells
from nbjudge.grading.record import GRADED, OUTPUT_CHARACTERS, PERSON, notebook, tame
from nbjudge.grading.sandbox import kernel, proof, usage
from nbjudge.grading.sandbox import nursery as nurseries
from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.nursery import Nursery
from nbjudge.grading.sandbox.process import Sandbox, Trouble
from nbjudge.grading.sandbox.proof import prove
from nbjudge.grading.sandbox.text import plain_text, scrub
from nbjudge.grading.sandbox.usage import _of_processes
from nbjudge.grading.worker import Grader
from nbjudge.in_process import in_process
from nbjudge.question import Reply
from scripts.sample import prepare

ROOT = Path(__file__).parents[1]
LAB = submissions.LAB
COURSE = load("attention_labs")
# What ends an answer here is CPU time; the clock would tell how busy the machine is.
LIMITS = Limits(
    cell=30.0, question=30.0, patience=100.0, submission=3600.0, memory=1 << 30
)


@pytest.fixture(scope="session")
def walls():
    missing = prove(Limits())
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"no walls here: {missing}")
    assert not missing, f"in CI nothing of this may be skipped: {missing}"


@pytest.fixture(scope="module")
def grader(walls):
    made = Grader(COURSE, LAB, RELEASED["cells"], b"s" * 32, True, LIMITS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def graders(walls, grader):
    """Give the grader of a lab."""
    made = {LAB: grader}

    def of(lab):
        if lab not in made:
            cells = read("labs", lab)["cells"]
            made[lab] = Grader(COURSE, lab, cells, b"s" * 32, True, LIMITS)
        return made[lab]

    yield of
    for each in made.values():
        each.close()


def handed_in(tmp_path, row):
    folder = tmp_path / "gradebook" / "submitted" / row.name / row.lab
    folder.mkdir(parents=True)
    row.make(folder, read("solutions", row.lab), read("labs", row.lab))
    return folder


# --- what is handed in ----------------------------------------------------------------

ROWS = [row for row in submissions.ROWS if not row.slow]


@pytest.mark.plain
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.name}")
def test_a_submission_gets_what_it_must(graders, tmp_path, row):
    record = graders(row.lab).grade(row.name, handed_in(tmp_path, row))["record"]
    assert submissions.verdict(row, record) == ""


@pytest.mark.parametrize("lab", lab_names(ROOT / "solutions"))
def test_a_solution_gets_everything_from_a_judge_outside(
    graders, tmp_path, lab, monkeypatch
):
    """What its questions use is within reach inside, where the package's answers are
    not; and its cells run once for all questions."""
    grader, made = graders(lab), []
    in_time = grader.sandbox
    monkeypatch.setattr(grader, "sandbox", lambda: made.append(1) or in_time())
    folder = tmp_path / "gradebook" / "submitted" / "solution" / lab
    folder.mkdir(parents=True)
    (folder / f"{lab}.ipynb").write_text(
        json.dumps(read("solutions", lab)), encoding="utf-8"
    )
    asked = grader.grade("solution", folder)["record"]["questions"]
    assert asked and not [q for q in asked if q["points"] < q["possible"]]
    assert len(made) == 1


def test_an_endless_loop_costs_its_question_and_no_other(walls, tmp_path):
    (row,) = [
        row for row in submissions.ROWS if row.name == "loop_that_catches_everything"
    ]
    limits = LIMITS._replace(question=6.0)
    grader = Grader(COURSE, LAB, RELEASED["cells"], b"s" * 32, True, limits)
    try:
        assert (
            submissions.verdict(
                row, grader.grade("loop", handed_in(tmp_path, row))["record"]
            )
            == ""
        )
    finally:
        grader.close()


def fuzzed(generator, notebook):
    """Break a notebook somewhere: a value in it, or its bytes."""
    notebook = copy.deepcopy(notebook)
    odd = [
        None,
        0,
        -1,
        1e300,
        "",
        "\u202e\x00\ud800",
        [],
        {},
        [[]],
        {"a": {}},
        "x" * 9999,
        True,
    ]
    for _ in range(generator.randint(1, 8)):
        place = notebook
        while isinstance(place, dict | list) and place and generator.random() < 0.85:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = generator.choice(list(keys))
            if (
                not isinstance(place[key], dict | list)
                or not place[key]
                or generator.random() < 0.1
            ):
                action = generator.random()
                if action < 0.2 and isinstance(place, list):
                    place.insert(key, copy.deepcopy(generator.choice(place)))
                elif action < 0.4:
                    del place[key]
                else:
                    place[key] = copy.deepcopy(generator.choice(odd))
                break
            place = place[key]
    content = bytearray(json.dumps(notebook).encode())
    if generator.random() < 0.3:
        for _ in range(generator.randint(1, 20)):
            content[generator.randrange(len(content))] = generator.randrange(256)
    return bytes(content)


def test_any_notebook_gets_a_record(walls, tmp_path):
    """Most of these are not run: intake alone decides whether they can be."""
    generator = random.Random(0)
    for number in range(150):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"{LAB}.ipynb").write_bytes(fuzzed(generator, SOLVED))
        intake = take_in(folder, LAB, RELEASED["cells"])
        graded = [grade_id(cell) for cell in intake.cells if is_graded(cell)]
        assert set(graded) == submissions.ALL and len(graded) == len(submissions.ALL)
        json.dumps(intake.cells).encode()


def test_broken_notebooks_are_graded_through(grader, tmp_path):
    generator = random.Random(3)
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"{LAB}.ipynb").write_bytes(fuzzed(generator, SOLVED))
        result = json.loads(json.dumps(grader.grade(str(number), folder)))
        graded = [
            cell["metadata"]["nbgrader"]["grade_id"]
            for cell in result["notebook"]["cells"]
            if is_graded(cell)
        ]
        assert set(graded) == submissions.ALL and len(graded) == len(submissions.ALL)
        assert (result["record"]["points"] is None) == (
            result["record"]["status"] == PERSON
        )


def test_each_table_stands_under_its_own_question(grader, tmp_path):
    """Also where the student has moved cells."""
    notebook = copy.deepcopy(SOLVED)
    notebook["cells"] = notebook["cells"][::-1]
    submissions.hand_in(tmp_path, notebook)
    for cell in filter(is_graded, grader.grade("moved", tmp_path)["notebook"]["cells"]):
        name = grade_id(cell).removeprefix("check_")
        assert f"<strong>{name}: " in cell["outputs"][0]["data"]["text/html"]


def test_a_file_that_cannot_be_read_stops_nothing(tmp_path, monkeypatch):
    submissions.hand_in(tmp_path, SOLVED)
    known = fingerprint(tmp_path)

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert (
        take_in(tmp_path, LAB, RELEASED["cells"]).problem
        == f"{LAB}.ipynb: it cannot be read (Permission denied)"
    )
    assert fingerprint(tmp_path) != known


def test_text_in_a_students_markdown_stays_text():
    links = (
        "[x](javascript:f)",
        "[x](data:f)",
        "[x](\n javascript:f)",
        "[x]: javascript:f",
        r"\href{f}",
    )
    for active in (
        "<b>",
        "</p",
        "<!--",
        "<?x",
        "&#106;",
        "&lt",
        "![x](https://a.b)",
        r"\mmlToken{mi}",
        *links,
    ):
        assert tame(active) not in ("", active)
        assert tame(f"a {active} b").replace(" ", "") == f"a {active} b".replace(
            " ", ""
        )
    plain = (
        "a < b, $a<2$ & c; [x](https://a.b/c) `x[0]`\n\n> quoted\n\n$$\\frac{1}{2}$$"
    )
    assert tame(plain) == plain


@pytest.mark.parametrize("cell", ["DotScore?", "files = !ls"])
def test_ipythons_syntax_in_an_answer_costs_nothing(grader, tmp_path, cell):
    source = submissions.cell(SOLVED, "dot")["source"]
    submissions.hand_in(tmp_path, submissions.with_dot(SOLVED, f"{source}\n{cell}"))
    record = grader.grade("curious", tmp_path)["record"]
    assert (record["points"], record["flags"]) == (record["possible"], [])


@pytest.mark.parametrize("own", [False, True])
def test_an_answer_that_does_not_run_through_is_flagged(grader, tmp_path, own):
    """Also in a cell of the student's own; a cell that answers nothing is none."""
    notebook = copy.deepcopy(SOLVED)
    failing = submissions.code(submissions.RIGHT + "def more(): pass\n1 / 0")
    if own:
        notebook["cells"].append(failing)
    else:
        submissions.cell(notebook, "dot")["source"] = failing["source"]
    notebook["cells"].append(submissions.code("1 / 0"))
    submissions.hand_in(tmp_path, notebook)
    record = grader.grade("hasty", tmp_path)["record"]
    *others, flag = record["flags"]
    assert others == ["DotScore: a cell below its answer changes or deletes it"] * own
    assert flag.endswith("ZeroDivisionError: division by zero (line 5 of the cell)")
    assert flag.startswith("cell number" if own else "cell dot: ")
    assert record["points"] == record["possible"]


@pytest.mark.parametrize(
    "below, flags",
    [
        ("del DotScore", ["DotScore: a cell below its answer changes or deletes it"]),
        ("DotScore = 1", ["DotScore: a cell below its answer changes or deletes it"]),
        ("score = DotScore()", []),
    ],
)
def test_a_name_that_is_changed_below_its_check_is_flagged(tmp_path, below, flags):
    notebook = copy.deepcopy(SOLVED)
    at = submissions.at(notebook, "check_dot")
    notebook["cells"].insert(at + 1, submissions.code(below))
    submissions.hand_in(tmp_path, notebook)
    assert take_in(tmp_path, LAB, RELEASED["cells"]).flags == flags


def test_a_check_that_is_gone_is_named(tmp_path):
    notebook = copy.deepcopy(SOLVED)
    del notebook["cells"][submissions.at(notebook, "check_dot")]
    submissions.hand_in(tmp_path, notebook)
    assert take_in(tmp_path, LAB, RELEASED["cells"]).flags == ["check_dot: was deleted"]


def test_a_name_that_no_cell_defines_is_flagged(tmp_path):
    submissions.hand_in(tmp_path, submissions.with_dot(SOLVED, "%run mine.py"))
    (flag,) = take_in(tmp_path, LAB, RELEASED["cells"]).flags
    assert flag == "DotScore: no cell defines it; perhaps a magic would have"


@pytest.mark.parametrize(
    "code",
    [
        "import c.d as a, b\ndef f(x): return x + g\nprint(await h, f'{g=!r}')",
        "%%time\nimport a, b\nf = !ls\n    \ng?\n%time h\nprint(g, h)",
        "a = b = 1\nclass f(g):\n    x = h\n    def y(self): self.z = x\nx: int",
        "import a, b\ndef f():\n    def z():\n        return g(h)\n    return z",
    ],
)
def test_what_a_cell_defines_and_what_it_needs_is_found(code):
    own, used = names_of(code)
    assert {"a", "b", "f"} <= own and {"g", "h"} <= used
    assert not own & {"g", "h", "z"}


def test_what_is_no_python_defines_its_functions():
    assert names_of("def f(:\nclass g:\nx = 1") == ({"f", "g"}, frozenset())
    assert names_of("(" * 50_000) == names_of(" " * 50_000) == (frozenset(),) * 2


def test_what_a_lab_imports_is_found_beside_magics():
    cells = [
        "%matplotlib inline\nimport os.path, sys\nfiles = !ls",
        "time f()",
        "def f():\n    from json import loads\nawait f()",
    ]
    source = [{"cell_type": "code", "source": cell} for cell in cells]
    assert imports_of(source) == ["os.path", "sys", "json"]


@pytest.mark.parametrize("last", ["first", "second"])
def test_of_several_answers_the_last_that_was_worked_in_counts(tmp_path, last):
    """It alone carries the grade id; a copy that was not worked in never does."""
    notebook = copy.deepcopy(SOLVED)
    copies = [copy.deepcopy(submissions.cell(RELEASED, "dot")) for _ in range(3)]
    copies[0]["source"] = submissions.RIGHT
    copies[1]["source"] += "# second" * (last == "second")
    at = submissions.at(notebook, "dot")
    notebook["cells"][at : at + 1] = copies
    submissions.hand_in(tmp_path, notebook)
    cells = take_in(tmp_path, LAB, RELEASED["cells"]).cells
    found = [grade_id(cell) for cell in cells[at : at + 3]]
    wanted = {"first": ["dot", "", ""], "second": ["", "dot", ""]}
    assert found == wanted[last]


def test_a_files_name_is_printed_in_part():
    assert printable("a\u202eb\ud800" + "c" * 99) == "a?b?" + "c" * 76


@pytest.mark.parametrize("values", [b"[],", b'{"a":1},', b"1,", b'"ab",'])
def test_a_file_of_nothing_but_values_takes_little_memory(values):
    """The intake has no walls."""
    content = b"[" + values * ((19 << 20) // len(values)) + b"1]"
    tracemalloc.start()
    with pytest.raises(Unreadable, match="lists and values"):
        read_cells(content, [])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_page_holds_no_more_than_so_much_of_what_was_printed(tmp_path):
    cells = [submissions.code("print('x')")] * 1900
    submissions.hand_in(tmp_path, {**SOLVED, "cells": cells + SOLVED["cells"]})
    intake = take_in(tmp_path, LAB, RELEASED["cells"])
    ran = [CellOutcome(c, "x" * 9999, "y" * 400) for c in code_cells(intake.cells)]
    record = {"questions": [], "reason": "", "flags": []}
    size = len(json.dumps(notebook(intake, record, ran, []))) - len(
        json.dumps(notebook(intake, record, [], []))
    )
    assert OUTPUT_CHARACTERS < size < 3 * OUTPUT_CHARACTERS


def test_no_error_and_no_file_s_name_is_a_command_in_a_formula(grader, tmp_path):
    link = "$\\href{javascript:alert(5)}{x}$"
    error = submissions.forward(f"raise ValueError({link!r})")
    failing = submissions.code(f"{error}\nraise ValueError({link!r})")
    made = submissions.with_dot(SOLVED, error)
    made["cells"].append(failing)
    submissions.hand_in(tmp_path, made, f"{link}.ipynb")
    result = grader.grade("linker", tmp_path)
    shown = [
        text
        for cell in result["notebook"]["cells"]
        for text in (
            cell["source"] if cell["cell_type"] == "markdown" else "",
            *(o.get("data", {}).get("text/html", "") for o in cell.get("outputs", ())),
        )
    ]
    assert "javascript:alert(5)" in "".join(shown)
    assert not [
        text for text in (*shown, *result["record"]["flags"]) if "\\href" in text
    ]


def test_a_clock_that_jumps_changes_no_score(grader, tmp_path, monkeypatch):
    submissions.hand_in(tmp_path, SOLVED)
    now = itertools.count(2e9, -86400.0)
    monkeypatch.setattr(time, "time", lambda: next(now))
    record = grader.grade("late", tmp_path)["record"]
    assert (record["status"], record["points"]) == (GRADED, record["possible"])


def test_names_that_look_alike_are_not_graded():
    assert set(clashes([*submissions.names(ROOT), "frank", "Grete", "\u738b"])) == set(
        submissions.names(ROOT)
    )


# --- the wire -------------------------------------------------------------------------


def soon(seconds=600.0):
    """Say when to give up: only what is broken takes so long, on however busy a
    machine."""
    return time.monotonic() + seconds


def through(data):
    one, other = socket.socketpair()
    with one, other:
        wire.send(one, wire.Frame("kind", data), soon())
        return wire.receive(other, soon()).data


@pytest.mark.parametrize("dtype", list(wire.DTYPES.values()), ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 5)])
def test_tensors_come_through_unchanged(dtype, shape):
    sent = (torch.randn(shape) * 3).to(dtype)
    got = through((sent, None, {"a": 1.5}))
    assert (
        got[0].dtype == dtype
        and torch.equal(got[0], sent)
        and got[1:] == (None, {"a": 1.5})
    )


def test_a_single_number_comes_through_whatever_its_stride():
    sent = torch.randn(1, 2)[:, ::2]
    assert sent.is_contiguous() and sent.stride() == (2, 2)
    assert torch.equal(through(sent), sent)


def test_a_byte_that_is_no_bool_becomes_one():
    """torch would keep it, and find it neither true nor equal to true."""
    one, other = socket.socketpair()
    with one, other:
        one.sendall(framed(b'["a", {"tensor": ["bool", [3], "cpu"]}]', b"\0\1\2"))
        got = wire.receive(other, soon()).data
    assert got.view(torch.uint8).tolist() == [0, 1, 1]


def test_a_meta_tensor_has_a_shape_and_no_bytes():
    got = through(torch.empty(2, 3, device="meta"))
    assert got.is_meta and got.shape == (2, 3)


def framed(header, body=b""):
    return wire.LENGTHS.pack(len(header), len(body)) + header + body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "ended"),
        (framed(b'["a", 1]')[:-1], "ended"),
        (
            framed(b'["a", {"tensor": ["float64", [1], "cpu"]}]', b"12345678")[:-1],
            "ended",
        ),
        (b"\xff" * 64, "too many"),
        (framed(b""), "no answer"),
        (framed(b"{}"), "no answer"),
        (framed(b"[1, 2]"), "no answer"),
        (framed(b'["a", {}]'), "no answer"),
        (framed(b'["a", {"dict": 1}]'), "no answer"),
        (
            framed(
                b'["a", {"tensor": ["float64", [99999999, 9], "cpu"]}]', b"12345678"
            ),
            "no answer",
        ),
        (
            framed(b'["a", {"tensor": ["object", [1], "cpu"]}]', b"12345678"),
            "no answer",
        ),
        (
            framed(b'["a", {"tensor": ["float64", [-1], "cpu"]}]', b"12345678"),
            "no answer",
        ),
        (
            framed(b'["a", {"tensor": ["float64", [2147483647, 0], "cpu"]}]'),
            "no answer",
        ),
        (framed(b"[" * 60_000), "no answer"),
        (framed(b'["a", 12]', b"123"), "no answer"),
    ],
)
def test_what_is_no_frame_is_refused(content, reason):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(content)
        one.close()
        with pytest.raises(wire.WireError, match=reason):
            wire.receive(other, soon())


def test_one_deadline_holds_for_a_frame_that_drips():
    """It is not put off by every byte: most of the frame has not come when it is given
    up."""
    one, other = socket.socketpair()
    stop, dripped = threading.Event(), []

    def drip():
        while len(dripped) < 1000 and not stop.wait(0.02):
            dripped.append(one.send(b"\0"))

    thread = threading.Thread(target=drip)
    with one, other:
        one.sendall(wire.LENGTHS.pack(1000, 0))
        thread.start()
        with pytest.raises(wire.WireError, match="in time"):
            wire.receive(other, soon(0.3))
        stop.set()
        thread.join()
    assert len(dripped) < 1000


def test_no_pickle_is_read_anywhere():
    """Not in the grader, and not by torch on its behalf."""
    for path in (ROOT / "src" / "nbjudge").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert (
            "import pickle" not in text
            and "torch.load" not in text
            and "marshal" not in text
        )


# --- the walls ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nursery(walls):
    made = Nursery("attention_labs", ["dot"], [], Limits(memory=600 << 20))
    yield made
    made.close()


def of_cell(source):
    return {"name": "x", "source": source, "seed": 0}


def run(nursery, source):
    box = nursery.sandbox()
    try:
        frame = box.call("cell", of_cell(source), soon())
        return frame.data, box.text()
    finally:
        box.close()


def test_nothing_of_the_course_is_inside(nursery):
    _, printed = run(
        nursery,
        "import os\nfor r, _, f in os.walk('/course/lib/nbjudge'): print(r, sorted(f))",
    )
    assert (
        "server.py" in printed
        and "judge.py" not in printed
        and "converter.py" not in printed
    )
    _, printed = run(
        nursery,
        f"import os\nprint(os.path.exists({str(ROOT)!r}),"
        f" os.path.exists({str(Path.home())!r}))",
    )
    assert printed == "False False\n"


def test_one_submission_leaves_nothing_for_the_next(nursery):
    run(nursery, "open('/tmp/note', 'w').write('hello')\nimport torch\ntorch.note = 1")
    error, printed = run(
        nursery, "import os, torch\nprint(os.listdir('/tmp'), hasattr(torch, 'note'))"
    )
    assert (error, printed) == ("", "[] False\n")


def test_the_student_has_no_privileges(nursery):
    source = (
        "import os, ctypes\nprint(os.getuid() == 0)\nprint([l.split()[1] for l in"
        " open('/proc/self/status') if l.startswith(('CapEff', 'CapPrm',"
        " 'CapBnd'))])\nlibc = ctypes.CDLL(None)\nprint(libc.mount(b'tmpfs', b'/tmp',"
        " b'tmpfs', 0, None), libc.chroot(b'/tmp'))"
    )
    _, printed = run(nursery, source)
    assert printed.splitlines() == ["False", str(["0" * 16] * 3), "-1 -1"]


def test_the_process_that_submissions_are_forked_from_is_out_of_reach(nursery):
    source = (
        "import os\nfor place in os.listdir('/proc'):\n    if place.isdigit() and"
        " int(place) != os.getpid():\n        for name in ('mem', 'environ'):\n        "
        "    try: open(f'/proc/{place}/{name}', 'rb')\n            except OSError:"
        " continue\n            if os.readlink(f'/proc/{place}/ns/user') !="
        " os.readlink('/proc/self/ns/user'):\n                print('reached', place,"
        " name)\n"
    )
    assert run(nursery, source) == ("", "")


def test_memory_is_limited_in_sum(nursery):
    """No process has too much, and each keeps what it has until all are ended."""
    hoard = "hoard = bytearray(b'x') * (120 << 20)\n"
    assert run(nursery, f"{hoard}import time\ntime.sleep(0.5)") == ("", "")
    source = (
        "import os, signal\nfor _ in range(4):\n    if os.fork() == 0:\n       "
        f" {hoard}        signal.pause()\nsignal.pause()"
    )
    with pytest.raises(Trouble, match="GiB of memory"):
        run(nursery, source)


def test_what_is_forked_lies_in_huge_pages(nursery):
    offered = Path("/sys/kernel/mm/transparent_hugepage").exists()
    version = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    if not offered or version < (6, 1):
        pytest.skip("this kernel offers no huge pages")
    assert run(nursery, "pass") == ("", "")
    maps = "".join(_of_processes(nursery.leader, "smaps_rollup"))
    # how many there are depends on the machine's free memory
    assert any(map(int, re.findall(r"^AnonHugePages: +(\d+)", maps, re.MULTILINE)))


def test_address_space_that_torch_has_taken_is_not_counted(nursery):
    """The CUDA build takes five times as much as the CPU build, and touches as
    little."""
    source = "import mmap\nuntouched = mmap.mmap(-1, 600 << 20, mmap.MAP_PRIVATE)"
    assert run(nursery, source) == ("", "")


def test_a_submission_has_as_much_memory_as_the_guide_says(walls):
    guide = (ROOT / "book" / "instructor_guide.md").read_text(encoding="utf-8")
    megabytes = int(re.search(r"at least (\d+) MB for itself", guide)[1])
    preload = ["attention_course.training", "matplotlib.pyplot", "transformers"]
    nursery = Nursery("attention_labs", ["dot"], preload, Limits())
    source = f"hoard = bytearray(b'x') * ({megabytes} << 20)\nimport time\n"
    assert run(nursery, f"{source}time.sleep(0.5)") == ("", "")
    nursery.close()


def test_a_limit_is_of_cpu_time_of_all_processes_together(nursery):
    """Neither of two processes takes more than 1.5 of the 2 s; then both wait, for as
    long as they may."""
    busy = (
        "import os, signal, time\nos.fork()\nwhile time.process_time() < 1.5:"
        " pass\nsignal.pause()"
    )
    box = nursery.sandbox()
    try:
        box.allow(2.0)
        assert (
            box.call("cell", of_cell("import time\ntime.sleep(2.5)"), soon()).data == ""
        )
        box.allow(2.0)
        with pytest.raises(Trouble):
            box.call("cell", of_cell(busy), soon())
        assert "endless" in box.killed_for  # and not for the clock
    finally:
        box.close()


def asked(nursery, source, *limits):
    """Run a cell with limits; give why it was killed, if it was."""
    box = nursery.sandbox()
    try:
        box.allow(*limits)
        with contextlib.suppress(Trouble):
            assert box.call("cell", of_cell(source), soon()).data == ""
        return box.killed_for
    finally:
        box.close()


@pytest.mark.parametrize("how", ["signal.SIG_IGN", "lambda *_: None"])
def test_children_that_nobody_waits_for_are_counted(nursery, how):
    """Where their end is ignored, the kernel adds their time to nobody's."""
    source = (
        f"import os, signal, time\nsignal.signal(signal.SIGCHLD, {how})\nfor _ in"
        " range(100):\n    if os.fork() == 0:\n        while time.process_time() <"
        " 0.1: pass\n        os._exit(0)\n    time.sleep(0.12)"
    )
    assert "endless" in asked(nursery, source, 1.0)


def test_what_only_waits_is_ended(nursery):
    """Neither in sleep, nor behind a child that sleeps, is anything computed."""
    assert "did nothing" in asked(nursery, "import time\ntime.sleep(99)", 99.0, 0.5)
    source = "import os, time\nif os.fork() == 0: time.sleep(99)\nos.wait()"
    assert "did nothing" in asked(nursery, source, 99.0, 0.5)


def test_what_computes_in_another_thread_is_not_idle(nursery):
    source = (
        "import threading, time\ndef work():\n    while time.process_time() < end:"
        " pass\nend = time.process_time() + 2\nthread = threading.Thread(target=work)\n"
        "thread.start()\nthread.join()"
    )
    assert asked(nursery, source, 99.0, 1.0) == ""


def test_a_submission_may_not_wait_in_every_cell(walls, tmp_path):
    """Each of its cells may wait; all together may not."""
    made = copy.deepcopy(SOLVED)
    sleeping = submissions.code("import time\ntime.sleep(0.9)")
    made["cells"][:0] = [sleeping] * 40
    submissions.hand_in(tmp_path, made)
    limits = LIMITS._replace(idle=1.5)
    grader = Grader(COURSE, LAB, RELEASED["cells"], b"s" * 32, True, limits)
    try:
        flags = grader.grade("sleepy", tmp_path)["record"]["flags"]
    finally:
        grader.close()
    assert any("6 s for which a submission may do nothing" in flag for flag in flags)


def test_nothing_outlives_the_kill(nursery):
    """Also what has a session of its own, no parent, and no output that could be waited
    for."""
    source = (
        "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    if os.fork():"
        " os._exit(0)\n    print('here', flush=True)\n    os.closerange(0,"
        " 99)\nsignal.pause()"
    )
    # by now it is ready, and has started whatever it needs itself
    nursery.sandbox().close()
    others, box, printed, end = (
        set(submissions.below(os.getpid())),
        nursery.sandbox(),
        "",
        soon(),
    )
    box.send("cell", of_cell(source), end)
    while "here" not in printed and time.monotonic() < end:
        time.sleep(0.02)
        printed += box.text()
    inside = set(submissions.below(os.getpid())) - others
    box.close()
    while time.monotonic() < end and any(map(_runs, inside)):
        time.sleep(0.02)  # the one that waits for the others ends after them
    assert len(inside) >= 3 and not [pid for pid in inside if _runs(pid)]


def test_a_stub_imports_and_names_the_question(nursery):
    error, _ = run(nursery, "from attention_course.scores import DotScore\nDotScore()")
    assert "DotScore is what question dot asks you to write" in error
    error, _ = run(
        nursery,
        "from torch import nn\nnn.functional.scaled_dot_product_attention(1, 2, 3)",
    )
    assert (
        "scaled_dot_product_attention does what this course asks you to write" in error
    )
    error, _ = run(
        nursery,
        "from attention_course.scores import DotScore\nclass Mine(DotScore): pass",
    )
    assert "asks you to write" in error


def test_what_the_course_builds_an_answer_with_is_a_stub_too(walls):
    limits = Limits(memory=600 << 20)
    with contextlib.closing(
        Nursery("attention_labs", ["encoder_block"], [], limits)
    ) as asked:
        for module, name in (
            ("transformer", "EncoderBlock"),
            ("models", "encoder_block"),
        ):
            source = f"from attention_course.{module} import {name}\n{name}(6, 2, 3)"
            error, _ = run(asked, source)
            assert f"{name} does what this course asks you to write" in error


def test_the_kernel_refuses_what_no_notebook_needs(nursery):
    """Memory that no process owns would not be counted."""
    source = (
        "import os, socket, ctypes, mmap\nfor make in (socket.socket,"
        " socket.socketpair, lambda: os.memfd_create('x'), lambda: mmap.mmap(-1,"
        " 4096)):\n    try: make()\n    except PermissionError: print('refused')\nlibc"
        " = ctypes.CDLL(None)\nprint(libc.shmget(0, 4096, 0o1600), libc.ptrace(0, 0, 0,"
        " 0), libc.inotify_init())\nmmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE |"
        " mmap.MAP_ANONYMOUS)\nos.pipe()\n"
    )
    assert run(nursery, source) == (
        "",
        "refused\nrefused\nrefused\nrefused\n-1 -1 -1\n",
    )


def test_each_call_that_no_notebook_needs_is_refused(nursery):
    column = list(kernel.MACHINES).index(os.uname().machine)
    calls = {name: it[column] for name, it in kernel.REFUSED.items() if it[column]}
    source = (
        "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"for name, call in {calls}.items():\n"
        "    said = libc.syscall(call, -1, -1, -1, -1, -1)\n"
        "    if said != -1 or ctypes.get_errno() != errno.EPERM: print(name)\n"
        "print('all')"
    )
    assert run(nursery, source) == ("", "all\n")


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")],
)
def test_the_numbers_of_calls_are_those_of_the_kernel(column, header):
    path = Path("/usr/include", header)
    if not path.is_file():
        pytest.skip(f"{path} is part of linux-libc-dev")
    said = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)\n", path.read_text()))
    for name, its in {
        **kernel.REFUSED,
        **{"mmap": kernel.MMAP, "rt_sigaction": kernel.SIGACTION},
    }.items():
        assert its[column] == (int(said[name]) if name in said else None), name


def test_the_package_itself_goes_on_working(nursery):
    source = (
        "import torch\nfrom attention_course.attention import MultiHeadAttention\nx ="
        " torch.randn(2, 3, 4)\nprint(MultiHeadAttention(4, 2)(x, x, x)[0].shape)"
    )
    error, printed = run(nursery, source)
    assert error == "" and "[2, 3, 4]" in printed


def test_without_bubblewrap_it_refuses(monkeypatch):
    monkeypatch.setattr("nbjudge.grading.sandbox.proof.bubblewrap", lambda: None)
    assert "bwrap" in prove(Limits()) or sys.platform != "linux"


def test_a_torch_that_is_larger_has_walls_too(walls, monkeypatch):
    """Its CUDA build takes twice as much memory as its CPU build."""
    real = nurseries.interpreter

    def larger(walls):
        *start, code = real(walls)
        return [*start, f"ballast = bytearray(b'x' * (400 << 20)); {code}"]

    monkeypatch.setattr(nurseries, "interpreter", larger)
    assert prove(Limits()) == ""


def test_a_fork_while_memory_is_read_is_not_too_much_memory(monkeypatch):
    readings = []
    monkeypatch.setattr(usage, "memory_used", lambda leader: readings.pop(0))
    monkeypatch.setattr(usage, "_of_processes", lambda *_: ["RssAnon: 2 kB"])
    for readings[:], over in (([9, 3], False), ([9, 9, 9], True), ([9, 9, 4], False)):
        assert usage.uses_more(1, 5) is over and not readings
    assert not usage.uses_more(1, 2048)


def test_what_can_be_seen_inside_is_noticed(walls, monkeypatch):
    monkeypatch.setattr("nbjudge.grading.sandbox.proof.PACKAGE", Path("/usr"))
    assert prove(Limits()) == "it can see this machine's files"


@pytest.mark.parametrize(
    "code, said",
    [
        ("raise ValueError('odd')", "ValueError: odd"),
        ("os._exit(0)", "the sandbox did not answer: the process ended"),
    ],
)
def test_a_test_that_does_not_end_proves_nothing(walls, monkeypatch, code, said):
    monkeypatch.setattr(proof, "WALLS", f"import os\n{code}")
    assert prove(Limits()) == said


def test_memory_without_a_limit_is_noticed(walls, monkeypatch):
    monkeypatch.setattr(proof, "MUCH", "few = 1")
    assert prove(Limits()) == "it can use any amount of memory"


def test_printed_text_is_plain_and_names_no_place_here():
    assert (
        plain_text(b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x00 \xff\n", 99)
        == "red \ufffd\n"
    )
    assert plain_text(b"x" * 99, 9) == "x" * 9 + "\n... (cut)"
    assert sys.prefix not in scrub(f"{sys.prefix}/lib/python")


def test_the_disk_is_not_looked_at_for_every_reply(monkeypatch):
    scrub("a reply")
    monkeypatch.setattr(Path, "is_mount", lambda path: pytest.fail("it was"))
    assert scrub(f"{sys.prefix}/lib") == ".../lib"


def test_a_place_on_a_disk_of_its_own_is_not_named_either(monkeypatch):
    parent = Path(sys.prefix).parent
    # places are looked up once for each search path
    monkeypatch.setattr(sys, "path", [*sys.path, str(parent)])
    monkeypatch.setattr(
        Path, "is_mount", lambda path: path == parent or path == Path("/")
    )
    assert (
        scrub(f"45 44 254:0 /{Path(sys.prefix).name} /course")
        == "45 44 254:0 ... /course"
    )


# --- the judge ------------------------------------------------------------------------


def test_seeds_depend_on_secret_and_question():
    secrets = b"a", b"b"
    seeds = {seed_of(secret, name) for secret in secrets for name in QUESTIONS}
    assert len(seeds) == 2 * len(QUESTIONS)
    assert seed_of(b"a", "dot") == seed_of(b"a", "dot")


def test_the_seed_that_is_known_inside_is_not_that_of_the_numbers(grader, tmp_path):
    notebook = submissions.with_dot(
        SOLVED, submissions.forward("print('seed', torch.initial_seed())")
    )
    notebook["cells"].append(
        submissions.code(
            "print('seed', torch.initial_seed())\nDotScore()(torch.ones(1, 1),"
            " torch.ones(1, 1))"
        )
    )
    submissions.hand_in(tmp_path, notebook)
    printed = json.dumps(grader.grade("curious", tmp_path)["notebook"])
    seeds = {int(seed) for seed in re.findall(r"seed (\d+)", printed)}
    assert seeds and not seeds & {seed_of(b"s" * 32, name) for name in ("", *QUESTIONS)}


ODD = (
    torch.zeros(()),
    torch.full((2, 3, 5), float("nan")),
    torch.ones(7, dtype=torch.int8),
    torch.empty(2, 3, 5, device="meta"),
    torch.ones((1,) * 16),
)


def spoilt(right, odd):
    return right._replace(
        outputs=(*right.outputs[:-1], odd), gradients=right.gradients[:-1]
    )


@pytest.mark.plain
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_reply_breaks_the_judge(name):
    """Whatever a process that is not ours sends: odd replies to some requests, to
    others the right one spoilt."""
    replies = [
        Reply(),
        Reply(error="x"),
        Reply(changed=True),
        Reply(outputs=ODD, gradients=ODD),
    ]
    replies += [
        Reply(outputs=(odd,) * n, gradients=(odd,) * 3) for odd in ODD for n in (1, 2)
    ]
    right = in_process(QUESTIONS[name], QUESTIONS[name].reference)
    for seed in range(3):
        choose = random.Random(seed)

        def some_reply(request, choose=choose):
            reply = right(request)
            return choose.choice([*replies, *(spoilt(reply, odd) for odd in ODD)])

        results = evaluate(QUESTIONS[name], some_reply)
        assert sum(result.earned for result in results) < QUESTIONS[name].points


def test_a_repeat_gives_the_same_record(grader, tmp_path):
    (row,) = [row for row in submissions.ROWS if row.name == "dropout_left_on"]
    folder = handed_in(tmp_path, row)
    first, second = (
        json.dumps(grader.grade("same", folder)["record"]) for _ in range(2)
    )
    assert first == second


def test_a_nursery_that_is_killed_costs_nobody_points(walls, tmp_path, monkeypatch):
    """Once while the cells run, and once while a question is asked."""
    kills, call = ["cell", "ask"], Sandbox.call

    def kill_and_call(box, kind, data, deadline):
        if kind in kills:
            kills.remove(kind)
            os.kill(box.nursery.leader, 9)
        return call(box, kind, data, deadline)

    monkeypatch.setattr(Sandbox, "call", kill_and_call)
    submissions.hand_in(tmp_path, SOLVED)
    grader = Grader(COURSE, LAB, RELEASED["cells"], b"s" * 32, True, LIMITS)
    try:
        record = grader.grade("unlucky", tmp_path)["record"]
        assert not kills and (record["status"], record["points"]) == (
            GRADED,
            record["possible"],
        )
    finally:
        grader.close()


def setup_of(kept):
    return {
        "course": COURSE.module,
        "lab": LAB,
        "source": RELEASED["cells"],
        "secret": "00" * 32,
        "walls": True,
        "kept": str(kept),
        "limits": LIMITS._asdict(),
    }


def test_killed_judges_and_runners_lose_no_submission(walls, tmp_path):
    jobs = []
    for number in range(4):
        folder = tmp_path / f"student{number}"
        folder.mkdir()
        submissions.hand_in(
            folder,
            SOLVED if number % 2 else submissions.with_dot(SOLVED, submissions.WRONG),
        )
        jobs.append(Job(f"student{number}", folder))
    points, killed = {}, []
    for result in grade_all(jobs, setup_of(tmp_path), workers=2):
        points[result["record"]["student"]] = result["record"]["points"]
        mark = {1: b"grading.worker", 2: b"sandbox.server"}.get(len(points))
        for pid in submissions.below(os.getpid()):
            with contextlib.suppress(OSError):
                if mark and mark in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, 9)
                    killed.append(mark)
    full = sum(q.points for q in submissions.QUESTIONS)
    assert points == {f"student{n}": full if n % 2 else full - 3 for n in range(4)}
    assert set(killed) == {b"grading.worker", b"sandbox.server"}


def test_an_interrupted_worker_leaves_no_fork_bomb(walls, tmp_path):
    """Ctrl-C goes to all that the terminal has started."""
    (row,) = [row for row in submissions.ROWS if row.name == "fork_bomb"]
    worker = Worker(setup_of(tmp_path))
    job = Job("bomb", handed_in(tmp_path, row))
    grading = threading.Thread(target=worker.ask, args=(job.message(),))
    grading.start()
    end, inside = soon(), []
    while len(inside) < 40 and time.monotonic() < end:
        time.sleep(0.05)
        inside = [pid for pid in submissions.below(worker._process.pid) if _runs(pid)]
    worker._process.send_signal(signal.SIGINT)
    began = time.monotonic()
    grading.join()
    worker.last_words()
    while any(map(_runs, inside)) and time.monotonic() < end:
        time.sleep(0.05)
    # by the clock it would have a thousand
    assert len(inside) >= 40 and time.monotonic() - began < 300


# --- with nbgrader --------------------------------------------------------------------

HANDED_IN = [
    "einsum",
    "edited_test",
    "empty",
    "nothing",
    "other_name",
    "data_is_a_link",
    "scripts_in_output",
    "no_time",
    "pipe_in_place_of_the_time",
]
NOBODY = ["carol", "Carol", os.fsdecode(b"frank\xff")]


@pytest.fixture(scope="module")
def course(walls, tmp_path_factory):
    """A course in which some students handed in odd things."""
    directory = tmp_path_factory.mktemp("course") / "course"
    prepare(ROOT, LAB, directory)
    rows = {row.name: row for row in submissions.ROWS}
    for name in HANDED_IN:
        handed_in(directory, rows[name])
    for name in NOBODY:
        shutil.copytree(
            directory / "gradebook" / "submitted" / "einsum",
            directory / "gradebook" / "submitted" / name,
        )
    with pytest.raises(GradingError, match="4 of 12 submissions need a person"):
        nbgrader(directory, "autograde", LAB)
    return directory


def test_every_submission_has_one_record_and_the_gradebook_says_the_same(course):
    found = records(course)
    assert set(found) == {*HANDED_IN, *NOBODY}
    rows = {row.name: row for row in submissions.ROWS}
    assert {
        name: submissions.verdict(rows[name], found[name]) for name in HANDED_IN
    } == dict.fromkeys(HANDED_IN, "")
    assert scores(course) == {name: found[name]["points"] for name in HANDED_IN}
    assert [name for name in HANDED_IN if found[name]["status"] == PERSON] == ["empty"]


def test_what_was_handed_in_is_kept(course):
    kept = {path.name for path in (course / "gradebook" / "kept").iterdir()}
    assert {
        record["sha256"] for record in records(course).values() if record["sha256"]
    } == kept


def test_the_instructor_has_a_page_with_links_into_formgrader(course):
    html = (course / "gradebook" / "reports" / f"{LAB}.html").read_text(
        encoding="utf-8"
    )
    assert "12 submissions, 8 graded, 4 need a person" in html
    assert f"/formgrader/manage_students/empty/{LAB}" in html
    assert "check_dot: was edited" in html


def test_no_link_is_followed(course):
    assert not list(
        (course / "gradebook" / "autograded" / "data_is_a_link").rglob("data.txt")
    )


def test_a_second_run_grades_nothing_twice(course):
    """Unless something else was handed in since."""
    folder = course / "gradebook" / "submitted" / "einsum" / LAB
    before = {
        p: p.stat().st_mtime_ns
        for p in (course / "gradebook" / "records" / LAB).glob("*.json")
    }
    submissions.hand_in(folder, submissions.with_dot(SOLVED, submissions.WRONG))
    with pytest.raises(GradingError, match="need a person"):
        nbgrader(course, "autograde", LAB)
    again = [
        path.stem for path, time in before.items() if path.stat().st_mtime_ns != time
    ]
    assert "einsum" in again and not {
        "edited_test",
        "empty",
        "nothing",
        "other_name",
    } & set(again)
    assert scores(course)["einsum"] == records(course)["einsum"]["points"]
    assert submissions.points_lost(records(course)["einsum"]) == {"check_dot"}


def test_a_batch_that_is_killed_goes_on_where_it_was(course):
    again = {"edited_test", "other_name", "scripts_in_output", "data_is_a_link"}
    before = records(course)
    for name in again:
        (course / "gradebook" / "records" / LAB / f"{name}.json").unlink()
    command = [
        sys.executable,
        "-m",
        "nbgrader",
        "autograde",
        LAB,
        "--Autograde.workers=1",
    ]
    batch = subprocess.Popen(
        command, cwd=course, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not again & set(records(course)):
        assert batch.poll() is None, "the batch ended before its first record"
        time.sleep(0.02)
    left = submissions.below(batch.pid)
    batch.kill()
    batch.wait()
    paths = (
        course / "gradebook" / "records" / LAB / f"{name}.json" for name in HANDED_IN
    )
    finished = {path: path.stat().st_mtime_ns for path in paths if path.exists()}
    with pytest.raises(GradingError, match="need a person"):
        nbgrader(course, "autograde", LAB)
    assert records(course) == before
    assert scores(course) == {name: before[name]["points"] for name in HANDED_IN}
    assert {p: p.stat().st_mtime_ns for p in finished} == finished
    assert left and not [pid for pid in left if _runs(pid)]


def _runs(pid):
    try:
        return b"grading." in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_feedback_is_safe_and_export_has_every_score(course):
    nbgrader(course, "generate_feedback", LAB)
    nbgrader(course, "export")
    html = (
        course / "gradebook" / "feedback" / "scripts_in_output" / LAB / f"{LAB}.html"
    ).read_text()
    assert "<script>alert" not in html and "alert(1)" in html
    csv = (course / "gradebook" / "grades.csv").read_text()
    assert all(f",{name}," in csv for name in HANDED_IN)
    for page in (course / "gradebook" / "feedback").rglob("*.html"):
        text = page.read_text()
        assert (
            str(course) not in text
            and sys.prefix not in text
            and "BEGIN SOLUTION" not in text
        )


@contextlib.contextmanager
def formgrader(directory):
    """Start Jupyter's server in a course, and give what asks its formgrader: ask(path)
    reads, ask(path, b"") posts."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "server",
        "--allow-root",
        "--no-browser",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=secret",
        (
            "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader':"
            " True}"
        ),
    ]
    with (directory / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)

    def ask(path, data=None):
        address = f"http://127.0.0.1:{port}/formgrader/{path}"
        request = urllib.request.Request(
            address, data, {"Authorization": "token secret"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read().decode()

    try:
        end = soon()
        while time.monotonic() < end:
            try:
                ask("api/status")
                break
            except urllib.error.HTTPError:
                raise
            except OSError:
                assert server.poll() is None, (directory / "server.log").read_text()
                time.sleep(0.2)
        yield ask
    finally:
        server.terminate()
        server.wait()


def test_a_whole_round_from_release_to_export(walls, tmp_path):
    course, student = tmp_path / "course", tmp_path / "student"
    prepare(ROOT, LAB, course)
    exchange = tmp_path / "exchange"
    student.mkdir()
    exchange.mkdir()
    exchange.chmod(0o777)
    there = [LAB, f"--Exchange.root={exchange}", "--course=attention"]
    nbgrader(course, "release_assignment", *there)
    nbgrader(student, "fetch_assignment", *there)
    submissions.hand_in(student / LAB, submissions.with_dot(SOLVED, submissions.WRONG))
    nbgrader(student, "submit", *there)
    nbgrader(course, "collect", *there)
    (folder,) = (course / "gradebook" / "submitted").iterdir()
    with formgrader(course) as ask:
        assert json.loads(ask(f"api/submission/{LAB}/{folder.name}/autograde", b""))[
            "success"
        ]
        (record,) = records(course).values()
        assert submissions.points_lost(record) == {"check_dot"}
        (listed,) = json.loads(ask(f"api/submissions/{LAB}"))
        assert listed["autograded"] and listed["score"] == record["points"]
        # where the report's links lead
        assert folder.name in ask(f"manage_students/{folder.name}/{LAB}")
    nbgrader(course, "generate_feedback", LAB)
    nbgrader(course, "export")
    (page,) = (course / "gradebook" / "feedback" / folder.name / LAB).glob("*.html")
    assert "dot: 0 of 3 points" in page.read_text(encoding="utf-8")
    assert f",{folder.name}," in (course / "gradebook" / "grades.csv").read_text()


def test_without_walls_nbgrader_refuses_in_one_line(course):
    environment = {**os.environ, "PATH": "/nonexistent"}
    command = [sys.executable, "-m", "nbgrader", "autograde", LAB]
    done = subprocess.run(
        command, cwd=course, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    assert (
        "not run without walls" in done.stderr
        and "trust_submissions=True" in done.stderr
    )
