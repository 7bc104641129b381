"""Submissions that a grader must survive: one function for each row of a list of
attacks and accidents.

Each takes the student's folder and two notebooks, solved and as released, writes what
is handed in, and is marked with what must come of it. Where an attack tries to earn
points, the answer to `dot` is wrong: its points must be lost.
"""

import contextlib
import copy
import io
import json
import os
import re
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from attention_labs.lab03_scoring import QUESTIONS

ROOT = Path(__file__).parents[1]
LAB = "lab03_scoring"
EVERY = tuple(question.name for question in QUESTIONS)
ALL = frozenset(f"check_{name}" for name in EVERY)
WRONG = (
    "class DotScore(Score):\n    def forward(self, query, projected):\n        return"
    " (query @ projected.mT) * 3\n"
)
RIGHT = (
    "class DotScore(Score):\n    def forward(self, query, projected):\n        return"
    " query @ projected.mT\n"
)


class Row(NamedTuple):
    """A row of the list: what is handed in, and what must come of it.

    Attributes:
        number: in the list.
        name: of the function.
        make: writes the submission: make(folder, solved, released).
        lost: graded cells that lose points; None if a person has to look.
        flag: what some flag, or the reason, must contain; None if there must be none.
        slow: whether it needs a time limit to run out, or much memory, or nbgrader's
            own command.
        lab: of which it is a submission.
    """

    number: int
    name: str
    make: Callable[[Path, Any, Any], None]
    lost: frozenset[str] | None
    flag: str | None
    slow: bool
    lab: str = LAB


ROWS: list[Row] = []
OWN = 100  # the number of rows that are beyond the list


def row(number, lost=(), flag=None, slow=False, lab=LAB):
    def mark(make):
        # folders are called by it
        assert all((each.lab, each.name) != (lab, make.__name__) for each in ROWS)
        cells = None if lost is None else frozenset(f"check_{name}" for name in lost)
        ROWS.append(Row(number, make.__name__, make, cells, flag, slow, lab))
        return make

    return mark


def read(kind, lab=LAB):
    """Read a lab's notebook, from "solutions" or from "labs", as a student's own would
    be: without marks in it."""
    notebook = json.loads(
        (ROOT / kind / lab / f"{lab}.ipynb").read_text(encoding="utf-8")
    )
    for each in notebook["cells"]:
        each["source"] = re.sub(
            r" *### (BEGIN|END) SOLUTION\n?", "", "".join(each["source"])
        )
    return notebook


SOLVED, RELEASED = read("solutions"), read("labs")


def hand_in(folder, notebook, name=f"{LAB}.ipynb"):
    (folder / name).write_text(json.dumps(notebook), encoding="utf-8")


def at(notebook, cell_id):
    return next(
        i for i, cell in enumerate(notebook["cells"]) if cell.get("id") == cell_id
    )


def cell(notebook, cell_id):
    return notebook["cells"][at(notebook, cell_id)]


def code(source, **metadata):
    return {
        "cell_type": "code",
        "id": f"own{abs(hash(source)) % 10**8}",
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def with_dot(solved, source):
    notebook = copy.deepcopy(solved)
    cell(notebook, "dot")["source"] = source
    return notebook


def forward(body):
    """Make a right DotScore whose `forward` first does something else."""
    lines = "\n".join("        " + line for line in body.split("\n"))
    return RIGHT.replace("        return", f"{lines}\n        return")


def dot_row(number, name, source, lost=("dot",), flag=None, slow=False):
    """Add a row whose answer to `dot` is this."""

    def make(folder, solved, released):
        hand_in(folder, with_dot(solved, source))

    make.__name__ = name
    row(number, lost, flag, slow)(make)


def attack_row(number, name, attack, lost=("dot",), flag=None, slow=False, dot=WRONG):
    """Add a row with a cell of the student's own at the top, and a wrong answer to
    `dot`."""

    def make(folder, solved, released):
        notebook = with_dot(solved, dot)
        notebook["cells"].insert(at(notebook, "masked_softmax"), code(attack))
        hand_in(folder, notebook)

    make.__name__ = name
    row(number, lost, flag, slow)(make)


# --- code that breaks -----------------------------------------------------------------

dot_row(1, "syntax_error", "class DotScore(Score)\n    pass\n", flag="SyntaxError")
dot_row(2, "endless_loop", forward("while True: pass"), flag="endless", slow=True)
dot_row(
    3,
    "endless_loop_at_top_level",
    "while True: pass\n" + RIGHT,
    flag="left out",
    slow=True,
)
dot_row(
    4,
    "loop_that_catches_everything",
    forward(
        "while True:\n    try:\n        while True: pass\n    except BaseException:"
        " pass"
    ),
    flag="endless",
    slow=True,
)
dot_row(
    5,
    "loop_that_ignores_signals",
    forward(
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n,"
        " signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass"
    ),
    flag="endless",
    slow=True,
)
dot_row(6, "sixteen_gigabytes", forward("torch.ones(2 << 30, dtype=torch.float64)"))
dot_row(
    7,
    "bytearrays",
    forward("hoard = []\nwhile True: hoard.append(bytearray(b'x' * (32 << 20)))"),
    flag="memory",
    slow=True,
)
dot_row(
    8,
    "fork_bomb",
    forward("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    flag="",
    slow=True,
)
dot_row(
    8,
    "threads",
    forward(
        "import threading, time\nfor _ in range(10_000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    ),
)
dot_row(9, "exit_at_top_level", "import os\nos._exit(0)\n" + RIGHT, flag="left out")
dot_row(
    10,
    "exit_in_the_answer",
    forward("import os\nos._exit(0)"),
    flag="ended with code 0",
)
dot_row(10, "segfault", forward("import ctypes\nctypes.string_at(0)"), flag="signal 11")
dot_row(11, "system_exit", forward("import sys\nsys.exit()"))
dot_row(11, "keyboard_interrupt", forward("raise KeyboardInterrupt"))
attack_row(
    12, "much_output", "for _ in range(60): print('x' * 1_000_000)", (), dot=RIGHT
)
dot_row(13, "input", forward("input('> ')"))
dot_row(13, "debugger", forward("import pdb\npdb.set_trace()"))
dot_row(
    14,
    "full_disk",
    forward(
        "for n in range(99):\n    with open(f'/tmp/{n}', 'ab') as f:\n"
        "        for _ in range(60): f.write(bytes(1 << 20))"
    ),
)
attack_row(
    15,
    "survivor",
    """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('/tmp/survivor-of-a-submission', 'w')
        time.sleep(3600)
    os._exit(0)
""",
    (),
    dot=RIGHT,
)


# --- cells moved, edited, lost --------------------------------------------------------


@row(16, (), "check_dot: was deleted")
def deleted_test(folder, solved, released):
    notebook = copy.deepcopy(solved)
    del notebook["cells"][at(notebook, "check_dot")]
    hand_in(folder, notebook)


@row(17, ("dot",), "dot: was deleted")
def deleted_answer(folder, solved, released):
    notebook = copy.deepcopy(solved)
    del notebook["cells"][at(notebook, "dot")]
    hand_in(folder, notebook)


@row(18, ("dot",), "check_dot: was edited")
def edited_test(folder, solved, released):
    notebook = with_dot(solved, WRONG)
    cell(notebook, "check_dot")["source"] = "3.0"
    hand_in(folder, notebook)


@row(19, ("dot",), "was a markdown cell")
def test_as_markdown(folder, solved, released):
    notebook = with_dot(solved, WRONG)
    cell(notebook, "check_dot")["cell_type"] = "markdown"
    cell(notebook, "check_general")["cell_type"] = "raw"
    hand_in(folder, notebook)


@row(20, (), "check_dot: 2 copies")
def test_twice(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["cells"].insert(3, copy.deepcopy(cell(notebook, "check_dot")))
    hand_in(folder, notebook)


@row(21, (), "dot: 2 cells answer this")
def answer_and_untouched_copy(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["cells"].append(copy.deepcopy(cell(released, "dot")))
    hand_in(folder, notebook)


@row(21, ("dot",), "the last one counts")
def two_answers(folder, solved, released):
    notebook = copy.deepcopy(solved)
    again = copy.deepcopy(cell(notebook, "dot"))
    again["source"] = WRONG
    notebook["cells"].insert(at(notebook, "dot") + 1, again)
    hand_in(folder, notebook)


def metadata_row(number, name, flag, **changes):
    def make(folder, solved, released):
        notebook = with_dot(solved, WRONG)
        cell(notebook, "check_dot")["metadata"]["nbgrader"].update(changes)
        hand_in(folder, notebook)

    make.__name__ = name
    row(number, ("dot",), flag)(make)


metadata_row(22, "no_longer_graded", "check_dot: grade was False", grade=False)
metadata_row(23, "test_as_answer", "check_dot: solution was True", solution=True)
metadata_row(24, "hundred_points", "check_dot: points was 100", points=100)


@row(25, (), "its metadata was gone")
def no_metadata(folder, solved, released):
    notebook = copy.deepcopy(solved)
    for each in notebook["cells"]:
        each["metadata"] = {}
    hand_in(folder, notebook)


@row(25, (), "its metadata was gone")
def no_metadata_and_no_ids(folder, solved, released):
    notebook = copy.deepcopy(solved)
    for each in notebook["cells"]:
        each["metadata"] = {}
        each.pop("id")
    hand_in(folder, notebook)


@row(26, ("dot",), "check_dot: was tagged")
def skip_tag(folder, solved, released):
    notebook = with_dot(solved, WRONG)
    for each in notebook["cells"]:
        each["metadata"]["tags"] = ["skip-execution"]
    hand_in(folder, notebook)


@row(27)
def test_on_top(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["cells"].insert(0, notebook["cells"].pop(at(notebook, "check_attend")))
    hand_in(folder, notebook)


@row(28)
def reordered(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["cells"].insert(2, notebook["cells"].pop(at(notebook, "additive")))
    notebook["cells"].insert(2, code("%matplotlib inline\n!ls\nhelper = 1"))
    notebook["cells"].append(code("%%time\nother = 2"))
    hand_in(folder, notebook)


@row(29)
def wrong_kernel(folder, solved, released):
    hand_in(
        folder,
        {
            **solved,
            "metadata": {"kernelspec": {"name": "julia-1.9", "display_name": 3}},
        },
    )


@row(30)
def large_outputs(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "dot")["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 15_000_000}
    ]
    hand_in(folder, notebook)


@row(30, None, "larger than 20 MB")
def too_large(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "dot")["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 25_000_000}
    ]
    hand_in(folder, notebook)


# --- files ----------------------------------------------------------------------------


def bytes_row(number, name, content, lost=None, flag=""):
    def make(folder, solved, released):
        (folder / f"{LAB}.ipynb").write_bytes(
            content(json.dumps(solved, ensure_ascii=False))
        )

    make.__name__ = name
    row(number, lost, flag)(make)


bytes_row(31, "empty", lambda text: b"", flag="empty")
bytes_row(32, "cut_off", lambda text: text.encode()[:5000], flag="cut off")
bytes_row(
    32,
    "web_page",
    lambda text: b"<!DOCTYPE html><title>Log in</title>",
    flag="web page",
)
bytes_row(32, "a_list", lambda text: b"[1, 2, 3]", flag="not a notebook")
bytes_row(32, "deep", lambda text: b"[" * 100_000, flag="not JSON")
bytes_row(
    33,
    "latin_1",
    lambda text: text.replace("Lab 3", "Übung 3").encode("latin-1", "replace"),
    (),
    "latin-1",
)
bytes_row(33, "utf_16", lambda text: text.encode("utf-16"), (), "utf-16")
bytes_row(33, "byte_order_mark", lambda text: text.encode("utf-8-sig"), (), "utf-8-sig")


@row(34, (), "old notebook format")
def version_3(folder, solved, released):
    cells = [
        {
            "cell_type": c["cell_type"],
            "metadata": c["metadata"],
            "input" if c["cell_type"] == "code" else "source": c["source"],
        }
        for c in solved["cells"]
    ]
    hand_in(
        folder,
        {
            "worksheets": [{"cells": cells}],
            "nbformat": 3,
            "nbformat_minor": 0,
            "metadata": {},
        },
    )


@row(35)
def odd_versions_and_ids(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["nbformat_minor"] = 99
    for each in notebook["cells"]:
        each["id"] = "the same"
    hand_in(folder, notebook)


@row(36, (), "under another name")
def other_name(folder, solved, released):
    hand_in(folder, solved, f"{LAB} (1).ipynb")


@row(36, None, "no notebook of lab03_scoring")
def other_lab(folder, solved, released):
    other = {
        "cells": [code("def reverse(x):\n    return x[::-1]")],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    hand_in(folder, other)


@row(37, (), "several notebooks")
def two_notebooks(folder, solved, released):
    hand_in(folder, released, "Copy of lab.ipynb")
    hand_in(folder, solved)


@row(38, EVERY, "no notebook was handed in")
def nothing(folder, solved, released):
    pass


@row(39, (), "refused: ../../evil.ipynb")
def archive(folder, solved, released):
    with zipfile.ZipFile(folder / "lab.zip", "w") as made:
        made.writestr("../../evil.ipynb", "{}")
        made.writestr("/etc/evil.ipynb", "{}")
        made.writestr("line\nfeed.ipynb", "{}")
        link = zipfile.ZipInfo("link.ipynb")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
        made.writestr("bomb.ipynb", bytes(60 << 20), zipfile.ZIP_DEFLATED)
        made.writestr(f"{LAB}.ipynb", json.dumps(solved))


@row(40, None, "it is a link, which is not followed")
def notebook_is_a_link(folder, solved, released):
    target = folder.parent.parent.parent.parent / "solutions" / LAB / f"{LAB}.ipynb"
    os.symlink(target, folder / f"{LAB}.ipynb")


@row(40, None, "it is a link, which is not followed")
def notebook_is_a_link_beside_a_release(folder, solved, released):
    notebook_is_a_link(folder, solved, released)
    hand_in(folder, released, "Copy of the lab.ipynb")


@row(40, None, "the submission is a link")
def students_folder_is_a_link(folder, solved, released):
    other = folder.parents[2] / "elsewhere" / LAB
    other.mkdir(parents=True)
    hand_in(other, solved)
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.symlink_to(other.parent)


# What browsers, chat programs and hurried people make of a notebook.
def suffix_row(suffix):
    def make(folder, solved, released):
        hand_in(folder, solved, f"{LAB}{suffix}")

    make.__name__ = f"notebook_called{suffix.replace('.', '_')}"
    row(OWN, (), "under another name")(make)


for suffix in (".IPYNB", ".ipynb.txt", ".Ipynb.json"):
    suffix_row(suffix)


def other_kind_row(name):
    def make(folder, solved, released):
        content = json.dumps(solved).encode()
        if name.endswith("gz"):
            with tarfile.open(folder / name, "w:gz") as made:
                member = tarfile.TarInfo(f"{LAB}.ipynb")
                member.size = len(content)
                made.addfile(member, io.BytesIO(content))
        elif name.lower().endswith("zip"):
            inner = io.BytesIO()
            with zipfile.ZipFile(inner, "w") as made:
                made.writestr(f"{LAB}.ipynb", content)
            with zipfile.ZipFile(folder / name, "w") as made:
                made.writestr("inner.zip", inner.getvalue())
        else:
            (folder / name).write_bytes(b"7z\xbc\xaf'\x1c" + content)
        (folder / "timestamp.txt").write_text("2026-11-01 12:00:00 UTC")

    make.__name__ = f"only_{name.replace('.', '_')}"
    row(OWN, None, f"no notebook is among what was handed in: {name}")(make)


for name in ("x.tar.gz", "x.7z", "x.ZIP", "x.py", "x.html", "x.pdf", ".x.ipynb"):
    other_kind_row(name)


@row(OWN, EVERY, "no notebook was handed in")
def nothing_but_the_time(folder, solved, released):
    (folder / "timestamp.txt").write_text("2026-11-01 12:00:00 UTC")


@row(OWN, (), "an archive beside the notebook was not opened: data.zip")
def archive_beside_the_notebook(folder, solved, released):
    with zipfile.ZipFile(folder / "data.zip", "w") as made:
        made.writestr("data.csv", "1,2")
    hand_in(folder, solved)


# What an answer needs may stand in any cell.
def elsewhere_row(name, place, first, flag=None, lost=(), last=""):
    def make(folder, solved, released):
        notebook = with_dot(
            solved,
            RIGHT.replace(
                "query @", "math.sqrt(next(itertools.count(FOUR))) / 2 * query @"
            ),
        )
        there = cell(notebook, place)
        there["source"] = f"{first}import itertools\nFOUR = 4\n{there['source']}{last}"
        hand_in(folder, notebook)

    make.__name__ = name
    row(OWN, lost, flag)(make)


elsewhere_row("constant_in_a_cell_that_shows", "mask_demo", "")
elsewhere_row("constant_in_a_timed_cell_that_shows", "mask_demo", "%%time\n")
elsewhere_row("constant_among_the_imports", "imports", "", "imports: was edited")
elsewhere_row(
    "constant_below_an_error", "mask_demo", "1 / 0\n", "ZeroDivisionError", ("dot",)
)
dot_row(
    OWN, "compiled_answer", RIGHT.replace("    def", "    @torch.compile\n    def"), ()
)


@row(41, (), "a link was not followed: data.txt")
def data_is_a_link(folder, solved, released):
    os.symlink("/etc/passwd", folder / "data.txt")
    hand_in(folder, solved)


@row(42, ("dot",))
def shadowing_modules(folder, solved, released):
    for name in ("torch", "math", "sitecustomize", "conftest"):
        (folder / f"{name}.py").write_text("allclose = lambda *a, **k: True\n")
    hand_in(folder, with_dot(solved, WRONG))


# --- forging --------------------------------------------------------------------------

attack_row(
    43,
    "patched_allclose",
    "import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
    "torch.testing.assert_close = lambda *a, **k: None",
)
attack_row(
    44,
    "patched_reference",
    """import sys, types
for name, module in list(sys.modules.items()):
    if name.startswith("attention_course"):
        for key in ("DotScore", "evaluate", "same_numbers", "check"):
            if hasattr(module, key): setattr(module, key, lambda *a, **k: None)
""",
)
dot_row(
    45,
    "tensor_that_equals_everything",
    """class Sly(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if "close" in str(function) or "eq" in str(function): return True
        return super().__torch_function__(function, types, args, kwargs or {})
    def __eq__(self, other): return True
class DotScore(Score):
    def forward(self, query, projected):
        return (3 * query @ projected.mT).as_subclass(Sly)
""",
)
attack_row(
    46,
    "patched_builtins",
    """import builtins
builtins.isinstance = lambda *a: True
builtins.all = builtins.any = lambda *a: True
builtins.abs = lambda x: 0
builtins.AssertionError = Warning
""",
)
attack_row(
    47,
    "input_transformer",
    "get_ipython().input_transformers_post.append(lambda lines: ['3.0'])",
)
attack_row(48, "ast_transformer", "get_ipython().ast_transformers.append(None)")
attack_row(
    49,
    "patched_shell",
    "ip = get_ipython()\nip.showtraceback = ip.run_cell = lambda *a, **k:"
    " 3.0\nip.set_custom_exc((Exception,), print)",
)
attack_row(
    50,
    "prints_scores",
    "print('execute_result 3.0')\nprint('check_dot: 3/3')\nopen('/tmp/results.json',"
    " 'w').write('{\"score\": 23}')",
)
attack_row(
    50,
    "forges_frames",
    """import gc, json, os, socket, struct
header = json.dumps(["ended", 0]).encode()
frame = struct.pack("!II", len(header), 0) + header
for fd in range(3, 64):
    try: socket.socket(fileno=os.dup(fd)).send(frame * 3)
    except OSError: pass
""",
    lost=EVERY,
    flag="",
)
attack_row(
    51,
    "searches_memory",
    """import gc, sys
print(sorted(sys._getframe(i).f_code.co_filename for i in range(3)))
from attention_labs import QUESTIONS
stolen = [q for q in gc.get_objects() if type(q).__name__ == "Mistake"]
print(len(QUESTIONS), open("/proc/self/maps").read()[:0])
""",
)
attack_row(
    52,
    "reads_the_gradebook",
    """import glob, os
seen = [p for d in ("/home", "/root", "/srv", "/tmp", "/var", "/course") for p in glob.glob(d + "/**", recursive=True)]
print([p for p in seen if "gradebook" in p or "solutions" in p or p.endswith("judge.py")])
""",
)
dot_row(53, "imports_the_reference", "from attention_course.scores import DotScore\n")
attack_row(
    54,
    "writes_the_gradebook",
    """import os, sqlite3
for place in (os.environ.get("COURSE", "/course"), "/", ".."):
    try: sqlite3.connect(place + "/gradebook/gradebook.db").execute("update grade set auto_score = 99")
    except Exception as error: print(error)
""",
)
dot_row(
    55,
    "needs_the_network",
    forward(
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)"
    ),
)
attack_row(
    56,
    "other_kernels",
    """import glob
print(glob.glob("/tmp/**/kernel-*.json", recursive=True)[:3], open("/proc/net/unix").read()[:0])
""",
    (),
    dot=RIGHT,
)
dot_row(
    57,
    "pickle",
    """import os
class Evil:
    def __reduce__(self): return (os.system, ("touch /tmp/evil",))
class DotScore(Score):
    def forward(self, query, projected): return Evil()
""",
)
attack_row(
    58,
    "scripts_in_output",
    "print('\\x1b[31m<script>alert(1)</script>\\x1b]0;title\\x07')\nraise"
    " ValueError('<script>alert(2)')",
    (),
    dot=RIGHT,
)


@row(59, ("attend",))
def fused_attention(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "attend")["source"] = (
        "def attend(scores, value, mask=None, dropout=None):\n    eye ="
        " torch.eye(scores.size(-1), dtype=scores.dtype)\n    weights ="
        " nn.functional.scaled_dot_product_attention(scores, eye, eye, mask,"
        " scale=1.0)\n    return (weights if dropout is None else dropout(weights)) @"
        " value, weights\n"
    )
    hand_in(folder, notebook)


dot_row(60, "not_a_number", RIGHT.replace(".mT", ".mT + float('nan')"))
dot_row(
    61,
    "half_precision",
    RIGHT.replace(".mT", ".mT.clone()")
    .replace("return ", "return (")
    .replace("clone()", "clone()).half()"),
)
dot_row(62, "cuda_only", RIGHT.replace("query @", "query.cuda() @"))
attack_row(
    63,
    "global_state",
    """import random
torch.set_default_dtype(torch.float16)
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.manual_seed(3)
torch.use_deterministic_algorithms(True)
""",
    (),
    dot=RIGHT,
)
dot_row(
    64,
    "warns",
    forward(
        "import warnings, sys\nwarnings.warn('look')\nprint('look', file=sys.stderr)"
    ),
    (),
)
dot_row(
    65,
    "einsum",
    RIGHT.replace(
        "query @ projected.mT", "torch.einsum('...td,...sd->...ts', query, projected)"
    ),
    (),
)
dot_row(
    66,
    "dropout_left_on",
    RIGHT.replace(
        "query @ projected.mT", "nn.functional.dropout(query @ projected.mT, 0.3)"
    ),
)
dot_row(
    67,
    "knows_when_it_is_graded",
    "import os\nassert 'NBGRADER_EXECUTION' not in os.environ\n"
    + forward("if query.dim() == 3: return torch.ones(2, 3, 5)"),
)
dot_row(68, "changes_its_input", forward("query.mul_(2)"))
dot_row(
    68,
    "remembers",
    "memory = {}\nclass DotScore(Score):\n    def forward(self, query, projected):\n   "
    "     return memory.setdefault(query.shape[:-1] + projected.shape, query @"
    " projected.mT)\n",
)
dot_row(69, "slow_but_right", forward("import time\ntime.sleep(0.1)"), ())
dot_row(
    70,
    "too_much_memory_for_one_item",
    forward("if query.dim() == 4: torch.ones(2 << 30, dtype=torch.float64)"),
)


# --- beyond the list ------------------------------------------------------------------

# How a student's code finds the program that serves it: up the stack.
SERVER = """import sys
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "Server": frame = frame.f_back
server = frame.f_locals["self"]
"""

# Replies that are forged where that is easiest: the answer is detached, and no gradient
# is ever sent.
attack_row(
    OWN,
    "sends_no_gradients",
    SERVER + "server.in_process._gradients = lambda outputs, leaves: ()",
    EVERY,
    dot=RIGHT.replace(".mT", ".mT.detach()").replace("query @", "query.detach() @"),
)
attack_row(
    OWN,
    "sends_nothing_where_only_manners_count",
    SERVER
    + """real = server.in_process.in_process
def local(question, thing):
    door = real(question, thing)
    right = server.in_process.torch.float64
    return lambda request: door(request) if request.dtype == right else server.in_process.Reply()
server.in_process.in_process = local
""",
    EVERY,
    dot=RIGHT,
)
dot_row(
    OWN,
    "foresees_the_numbers",
    """class DotScore(Score):
    def forward(self, query, projected):
        for number in range(9):
            generator = torch.Generator().manual_seed(torch.initial_seed() + number)
            foreseen = torch.randn(4096, generator=generator, dtype=torch.float64)
            if torch.isin(query.detach().double().flatten()[0], foreseen): return query @ projected.mT
        return 3 * query @ projected.mT
""",
)
attack_row(
    OWN,
    "writes_to_the_judge_after_the_answer",
    SERVER
    + """import os, time
if os.fork() == 0:
    os.setsid()
    while True: os.write(server.judge.fileno(), b"\\0" * 99)
time.sleep(0.5)
""",
    flag="left out",
)
dot_row(
    OWN,
    "grandchild_that_answers",
    forward(
        SERVER
        + """import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        reply = server.in_process.Reply((query.detach() @ projected.detach().mT,))._asdict()
        while True: server._send("reply", {"call": 1, "reply": reply})
    os._exit(0)
os.wait()"""
    ),
    flag="",
)
dot_row(
    OWN,
    "drips",
    forward(
        SERVER
        + """import time
server.judge.sendall(server.wire.LENGTHS.pack(10_000, 0))
while True:
    server.judge.sendall(b"[")
    time.sleep(0.2)"""
    ),
    flag="did nothing",
    slow=True,
)
dot_row(
    OWN,
    "sleeps_when_asked",
    forward("import time\ntime.sleep(10_000)"),
    flag="did nothing",
    slow=True,
)
dot_row(
    OWN,
    "huge_reply",
    forward("return torch.zeros(1, dtype=query.dtype).expand(1 << 34)"),
    flag="",
)
dot_row(OWN, "hundred_thousand_replies", forward("return (query,) * 40_000"), flag="")
dot_row(
    OWN, "numbers_on_no_device", forward("return (query @ projected.mT).to('meta')")
)
dot_row(
    OWN,
    "complex_numbers",
    RIGHT.replace(
        "query @ projected.mT", "(query @ projected.mT).to(torch.complex128)"
    ),
)
dot_row(
    OWN,
    "nested_tensor",
    forward("return torch.nested.nested_tensor([query[0], query[0]])"),
)
attack_row(
    OWN,
    "check_of_my_own",
    "def check(name, thing, text=False): return 99.0\nfloat.__doc__\nQUESTIONS = {}",
)
attack_row(
    OWN,
    "patched_wire",
    SERVER
    + """import json
server.in_process.Reply._asdict = lambda self: {"points": 99}
server.wire.json.dumps = lambda *a, **k: '["reply", {"dict": {"call": 1, "points": 99}}]'
""",
    lost=EVERY,
    flag="no answer",
)
attack_row(
    OWN,
    "closes_its_output_and_eats_memory",
    """import os, threading
def eat():
    hoard = []
    while True: hoard.append(bytearray(b"x" * (32 << 20)))
for fd in (1, 2): os.close(fd)
eat()
""",
    (),
    dot=RIGHT,
    flag="memory",
    slow=True,
)
attack_row(
    OWN,
    "memory_that_is_no_process_s",
    """import os
kept = []
try:
    for _ in range(100):
        kept.append(os.memfd_create("x"))
        for _ in range(60): os.write(kept[-1], bytes(1 << 20))
except OSError as error:
    print(error)
""",
    (),
    dot=RIGHT,
)
attack_row(
    OWN,
    "redirects_and_shadows",
    """import sys, os, types
sys.stdout = sys.stderr = sys.stdin = None
sys.modules["torch"] = types.ModuleType("torch")
sys.modules["json"] = None
sys.path.clear()
os.chdir("/")
os.environ.clear()
""",
    (),
    dot=RIGHT,
    flag="left out",
)


@row(OWN)
def swapped_grade_ids(folder, solved, released):
    notebook = copy.deepcopy(solved)
    one, other = cell(notebook, "dot"), cell(notebook, "general")
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]
    hand_in(folder, notebook)


@row(OWN, ("dot",), "check_dot: 2 copies")
def answer_that_says_it_is_the_check(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "dot")["metadata"]["nbgrader"]["grade_id"] = "check_dot"
    hand_in(folder, notebook)


@row(OWN, (), "check_dot: points was nan")
def not_a_number_of_points(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "check_dot")["metadata"]["nbgrader"]["points"] = float("nan")
    hand_in(folder, notebook)


@row(OWN, (), "check_dot: points was")
def deep_metadata(folder, solved, released):
    notebook = copy.deepcopy(solved)
    deep = "[" * 900 + "]" * 900
    cell(notebook, "check_dot")["metadata"]["nbgrader"]["points"] = "DEEP"
    (folder / f"{LAB}.ipynb").write_text(json.dumps(notebook).replace('"DEEP"', deep))


@row(OWN)
def odd_characters(folder, solved, released):
    notebook = copy.deepcopy(solved)
    notebook["cells"] += [
        code('x = "\ud800"'),
        code("y = 1\0"),
        code("\u202e" * 9),
        {**code("z = 1"), "source": ["z = 1", ["deep"], None, 3]},
    ]
    hand_in(folder, notebook)


@row(OWN)
def markdown_that_runs(folder, solved, released):
    notebook = copy.deepcopy(solved)
    text = (
        "<img src=x onerror=alert(3)> [x](javascript:alert(3))"
        " <script>alert(3)</script> $a<b$"
    )
    notebook["cells"] += [
        {"cell_type": kind, "id": kind, "metadata": {}, "source": text}
        for kind in ("markdown", "raw")
    ]
    hand_in(folder, notebook)


@row(OWN, None, "cells, more than")
def five_thousand_cells(folder, solved, released):
    hand_in(folder, {**solved, "cells": solved["cells"] + [code("x = 1")] * 5000})


@row(OWN, (), "under another name: work/lab.ipynb")
def in_a_folder(folder, solved, released):
    (folder / "work").mkdir()
    (folder / ".hidden").mkdir()
    hand_in(folder / "work", solved, "lab.ipynb")
    hand_in(folder / ".hidden", released)


@row(OWN, None, "cannot be read")
def folder_named_like_the_notebook(folder, solved, released):
    (folder / f"{LAB}.ipynb").mkdir()
    hand_in(folder / f"{LAB}.ipynb", solved, "inner.txt")


@row(OWN, None, "not a file")
def pipe_named_like_the_notebook(folder, solved, released):
    os.mkfifo(folder / f"{LAB}.ipynb")


@row(OWN, (), "left aside: broken.ipynb: not JSON")
def broken_notebook_beside_the_right_one(folder, solved, released):
    (folder / "broken.ipynb").write_text("{")
    os.mkfifo(folder / "pipe")
    hand_in(folder, solved)


@row(OWN, (), "too large")
def archive_of_many_bombs(folder, solved, released):
    with zipfile.ZipFile(folder / "lab.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(f"{LAB}.ipynb", json.dumps(solved))
        for number in range(5):
            made.writestr(f"bomb{number}.ipynb", bytes(19 << 20))


@row(OWN, None, "archive cannot be read")
def broken_archive(folder, solved, released):
    with zipfile.ZipFile(folder / "lab.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(f"{LAB}.ipynb", json.dumps(solved))
    content = bytearray((folder / "lab.zip").read_bytes())
    content[200:240] = bytes(40)
    (folder / "lab.zip").write_bytes(content)


@row(OWN, None, "archive cannot be read")
def broken_archive_of_another_kind(folder, solved, released):
    with zipfile.ZipFile(folder / "lab.zip", "w", zipfile.ZIP_LZMA) as made:
        made.writestr(f"{LAB}.ipynb", json.dumps(solved))
    content = bytearray((folder / "lab.zip").read_bytes())
    content[200:240] = bytes(40)
    (folder / "lab.zip").write_bytes(content)


@row(OWN, None, "the submission is a link")
def folder_is_a_link(folder, solved, released):
    folder.rmdir()
    other = folder.parents[1] / "0_first" / LAB
    other.mkdir(parents=True, exist_ok=True)
    hand_in(other, solved)
    folder.symlink_to(other)


@row(OWN, (), "not a file: timestamp.txt")
def pipe_in_place_of_the_time(folder, solved, released):
    os.mkfifo(folder / "timestamp.txt")
    hand_in(folder, solved)


@row(OWN, (), "a link was not followed: timestamp.txt")
def endless_time(folder, solved, released):
    os.symlink("/dev/zero", folder / "timestamp.txt")
    hand_in(folder, solved)


@row(OWN, (), "timestamp.txt holds no time", slow=True)
def no_time(folder, solved, released):
    (folder / "timestamp.txt").write_text("the day before yesterday")
    hand_in(folder, solved)


@row(OWN, None, "characters of text, more than")
def formulas_without_end(folder, solved, released):
    formula = {
        "cell_type": "markdown",
        "id": "formula",
        "metadata": {},
        "source": "\\begin{a}" * 5_000,
    }
    hand_in(folder, {**solved, "cells": [*solved["cells"], *[formula] * 20]})


attack_row(
    OWN,
    "looks_where_it_is",
    "print(open('/proc/self/mountinfo').read())",
    (),
    dot=RIGHT,
)


@row(OWN, ("attend",))
def fused_attention_by_other_names(folder, solved, released):
    notebook = copy.deepcopy(solved)
    cell(notebook, "attend")[
        "source"
    ] = """def attend(scores, value, mask=None, dropout=None):
    eye = torch.eye(scores.size(-1), dtype=scores.dtype, device=scores.device)
    for place in (torch._C._nn, torch.ops.aten):
        try: weights = place.scaled_dot_product_attention(scores, eye, eye, mask, scale=1.0).nan_to_num(0.0)
        except RuntimeError: pass
    return (weights if dropout is None else dropout(weights)) @ value, weights
"""
    hand_in(folder, notebook)


dot_row(
    OWN,
    "imports_the_reference_anew",
    """import importlib, sys
from attention_course import scores
try: scores = importlib.reload(scores)
except ImportError:
    del sys.modules["attention_course.scores"]
    from attention_course import scores
DotScore = scores.DotScore
""",
)


# Memory that is no process's own, or that is not where one looks for it.
attack_row(
    OWN,
    "memory_of_the_kernel_s",
    """import ctypes
libc = ctypes.CDLL(None)
while max(libc.semget(0, 32000, 0o1600), libc.msgget(0, 0o1600), libc.vmsplice(1, None, 0, 0)) != -1: pass
while max(libc.socket(1, 1, 0), libc.socketpair(1, 1, 0, (ctypes.c_int * 2)()), libc.inotify_init()) != -1: pass
""",
    (),
    dot=RIGHT,
)
attack_row(
    OWN,
    "memory_that_is_let_go_and_kept",
    """import mmap
for place in (None, "/dev/zero"):
    try:
        file = -1 if place is None else open(place, "r+b").fileno()
        kept = mmap.mmap(file, 64 << 20)
    except OSError as error:
        print(error)
    else:
        while True: pass
""",
    (),
    dot=RIGHT,
)
dot_row(
    OWN,
    "memory_behind_a_closed_door",
    forward("""import ctypes
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
hoard = []
while True: hoard.append(bytearray(b"x" * (32 << 20)))"""),
    flag="memory",
    slow=True,
)

# Time, pages and files without end.
attack_row(
    OWN,
    "children_that_nobody_waits_for",
    """import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    time.sleep(0.2)
""",
    (),
    "endless",
    slow=True,
    dot=RIGHT,
)
attack_row(
    OWN,
    "sleeps",
    "import time\ntime.sleep(3600)",
    (),
    "did nothing",
    slow=True,
    dot=RIGHT,
)


@row(OWN)
def prints_in_every_cell(folder, solved, released):
    own = [code("print('x' * 9999)")] * 1900
    hand_in(folder, {**solved, "cells": [*solved["cells"], *own]})


bytes_row(OWN, "lists", lambda text: b"[" + b"[]," * 6_000_000 + b"1]", flag="lists")


@row(OWN, ("dot",), "under another name")
def formulas_in_errors_and_names(folder, solved, released):
    link = "$\\href{javascript:alert(5)}{x}$"
    notebook = with_dot(solved, forward(f"raise ValueError({link!r})"))
    hand_in(folder, notebook, f"{link}.ipynb")


# What a student's process says is checked for its kind, whatever that kind is.
attack_row(
    OWN,
    "answer_in_a_wrong_shape",
    SERVER
    + """import json
real = server.wire.json.dumps
server.wire.json.dumps = lambda thing: '["reply", {"dict": []}]' if thing[0] == "reply" else real(thing)
""",
    EVERY,
    "no answer",
    dot=RIGHT,
)
dot_row(
    OWN,
    "excuse_that_holds_elsewhere",
    forward(
        'if query.dtype != torch.float64: raise RuntimeError("not implemented for'
        " 'BFloat16'\")"
    ),
)
dot_row(
    OWN,
    "error_that_cannot_be_said",
    """class Unsaid(Exception):
    def __str__(self): raise self
"""
    + forward("raise Unsaid"),
)

# --- other labs: replies of every kind ------------------------------------------------

# Each of these hands in a right notebook, and forges what its process sends:
# forge(question's name, request, reply).
FORGE = (
    SERVER
    + """
torch, real = server.in_process.torch, server.in_process.in_process
def local(question, thing):
    door = real(question, thing)
    return lambda request: forge(question.name, request, door(request))
server.in_process.in_process = local
"""
)


def forged(lab, name, attack, lost, flag=None):
    """Add a row of another lab, with a cell of the student's own at its end."""

    def make(folder, solved, released):
        notebook = copy.deepcopy(solved)
        notebook["cells"].append(code(attack))
        hand_in(folder, notebook, f"{lab}.ipynb")

    make.__name__ = name
    row(OWN, lost, flag, lab=lab)(make)


TEXT, VECTOR, STEPS = "lab01_preprocessing", "lab02_bottleneck", "lab04_alignment"
HEADS, CACHE = "lab05_self_attention", "lab06_transformer"

# What is right beside the tests has to be right behind the walls, too: with stubs in
# torch's place, and with requests and replies that have to fit the wire.
for lab in (TEXT, VECTOR, STEPS, HEADS, CACHE, "lab07_transfer", "lab08_today"):
    forged(lab, f"solution_of_{lab}", "", ())

forged(
    TEXT,
    "tokens_beyond_counting",
    FORGE
    + """
def forge(name, request, reply):
    many = torch.empty(2**31 - 1, 0, dtype=torch.long)
    return reply._replace(outputs=(many,)) if name == "tokenize" else reply
""",
    ("tokenize",),
    "no answer",
)
forged(
    TEXT,
    "questions_imported_anew",
    """import sys
tokenize = lambda text: ()
del sys.modules["attention_labs"]
from attention_labs.lab01_preprocessing.tokenize import tokenize
""",
    ("tokenize",),
    flag="",
)
forged(
    TEXT,
    "letters_of_no_alphabet",
    FORGE
    + """
def forge(name, request, reply):
    return reply._replace(outputs=(torch.full((3, 4), -(2**40)),)) if name == "tokenize" else reply
""",
    ("tokenize",),
)
forged(
    TEXT,
    "ids_that_are_no_whole_numbers",
    FORGE
    + """
def forge(name, request, reply):
    return reply._replace(outputs=tuple(x.double() for x in reply.outputs)) if name in ("pad", "collate") else reply
""",
    ("pad", "collate"),
)
forged(
    TEXT,
    "ids_that_equal_everything",
    """class Any(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
Vocabulary.encode = lambda self, tokens: [Any(5) for _ in tokens]
""",
    ("vocabulary",),
)
forged(
    VECTOR,
    "gradients_of_zeros",
    FORGE
    + """
def forge(name, request, reply):
    return reply._replace(gradients=tuple(None if x is None else x * 0 for x in reply.gradients))
""",
    (
        "at_end",
        "two_slots",
        "encoder",
        "remember",
        "final_state_step",
        "context_step",
        "stacked_encoder",
    ),
)
forged(
    VECTOR,
    "weights_of_my_own",
    "nn.Module.load_state_dict = lambda self, *a, **k: None",
    ("encoder", "remember", "final_state_step", "context_step", "stacked_encoder"),
)
EVERY_STEP = (
    *("bahdanau_step", "alignment_hit_rate", "luong_step", "input_feeding"),
    *("covered_step", "local_p"),
)
forged(
    STEPS,
    "one_answer_to_everything",
    FORGE
    + """first = {}
def forge(name, request, reply): return first.setdefault(name, reply)
""",
    EVERY_STEP,
)
forged(
    STEPS,
    "answers_to_another_call",
    SERVER
    + """send = server._send
def late(kind, data):
    send(kind, {**data, "call": 1} if kind == "reply" else data)
server._send = late
""",
    EVERY_STEP,
    "no answer",
)
forged(
    STEPS,
    "answers_to_no_call",
    SERVER
    + """send, numbers = server._send, server.in_process.torch.ones(2)
def uncounted(kind, data):
    send(kind, {**data, "call": numbers} if kind == "reply" else data)
server._send = uncounted
""",
    EVERY_STEP,
    "no answer",
)
forged(
    HEADS,
    "operators_that_are_no_names",
    FORGE
    + """
def forge(name, request, reply): return reply._replace(operators=(1, None)) if request.traced else reply
""",
    ("multi_head_attention",),
    "no answer",
)
forged(
    CACHE,
    "memory_without_numbers",
    FORGE
    + """
def forge(name, request, reply):
    return reply._replace(outputs=tuple(x.to("meta") for x in reply.outputs)) if name == "cached_step" else reply
""",
    ("cached_step",),
)
forged(
    CACHE,
    "memory_of_the_first_step",
    FORGE
    + """first = {}
def forge(name, request, reply):
    if name != "cached_step": return reply
    return reply._replace(outputs=(reply.outputs[0], *first.setdefault(request.dtype, reply.outputs[1:])))
""",
    ("cached_step",),
)


def names(course: Path) -> dict[str, Any]:
    """Return rows 71, which are about the names of folders: name -> what its reason
    must contain."""
    unseen = dict.fromkeys(("eve\u202e", os.fsdecode(b"frank\xff")), "cannot be seen")
    script = {"grace <img src=x onerror=alert(4)>": "code in a web page"}
    begins = dict.fromkeys((".gil", "=1+1"), "begins as")
    pattern = {"[abc]": "stand for others"}
    return {
        "carol": "look alike",
        "Carol": "look alike",
        "d\u0430ve": "mixes alphabets",
        **unseen,
        **script,
        **begins,
        **pattern,
    }


def below(pid: int) -> list[int]:
    """List the processes that a process has started, and those that they have, and so
    on."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(
                path.read_text(errors="replace").rpartition(")")[2].split()[1]
            )
        except OSError:
            pass  # it has just ended
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def records(course: Path, lab: str = LAB) -> dict[str, Any]:
    """Read the records of a course: student -> record."""
    paths = (course / "gradebook" / "records" / lab).glob("*.json")
    return {
        record["student"]: record
        for record in (json.loads(path.read_text()) for path in paths)
    }


def query(course: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Read from nbgrader's own database, or write to it."""
    database = sqlite3.connect(course / "gradebook" / "gradebook.db")
    with contextlib.closing(database), database:  # which commits, but does not close
        return database.execute(statement, values).fetchall()


def scores(course: Path) -> dict[str, float | None]:
    """Read what nbgrader's own database says: student -> points, None if nothing was
    graded."""
    statement = """
        select submitted_assignment.student_id, sum(grade.auto_score) from grade
        join submitted_notebook on submitted_notebook.id = grade.notebook_id
        join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id
        group by submitted_assignment.student_id
    """
    return dict(query(course, statement))


def points_lost(record: dict[str, Any]) -> frozenset[str]:
    return frozenset(
        q["cell"] for q in record["questions"] if q["points"] < q["possible"]
    )


def verdict(row: Row, record: dict[str, Any] | None) -> str:
    """Say how a record differs from what must come of the row; nothing if it does
    not."""
    if record is None:
        return "no record"
    said = [record["reason"], *record["flags"]]
    if row.lost is None:
        if record["status"] != "needs a person" or record["points"] is not None:
            return f"{record['status']}, {record['points']} points"
    elif record["status"] == "needs a person":
        return f"needs a person: {record['reason']}"
    elif points_lost(record) != row.lost:
        return f"lost {sorted(points_lost(record))}, wanted {sorted(row.lost)}"
    if row.flag and not any(row.flag in line for line in said):
        return f"no flag says {row.flag!r}: {said}"
    if row.flag is None and any(said):
        return f"flags where there should be none: {said}"
    return ""


def leaks(text: str, canaries: list[str]) -> list[str]:
    """Find strings that no student may see."""
    return [canary for canary in canaries if re.search(re.escape(canary), text)]
