"""Cells with IPython's syntax: what they define in the sandbox, and what in IPython."""

import builtins
import sys
import traceback

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from nbjudge.grading.sandbox.notebook import Notebook
from nbjudge.grading.sandbox.server import describe

TEXT = "'''\n%time x = 1\n!ls\nx?\n'''"
AWAITED = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 3\n"
# A cell, or several in turn, and what is to be defined afterwards, but for modules and
# functions.
SAME_AS_IN_IPYTHON = [
    ("x = 1", {"x": 1}),
    ("", {}),
    ("\n\n  \nx = 1", {"x": 1}),
    ("%time y = abs(-3)", {"y": 3}),
    ("%time y = 1; z = 2", {"y": 1, "z": 2}),
    ("y = %time abs(-3)", {"y": 3}),
    ("for i in range(2):\n    %time y = i\nz = i", {"i": 1, "y": 1, "z": 1}),
    ("%%time\ny = 3\nz = y + 1", {"y": 3, "z": 4}),
    ("%%time\n\ndef f():\n    return 3\ny = f()", {"y": 3}),
    ("%%time\n%time y = 3", {"y": 3}),
    ("%%time\n%%capture\ny = 3", {"y": 3}),
    ("%%capture\ny = 3", {"y": 3}),
    ("%%capture out\ny = 3\nprint(y)\nprint(y)", {"y": 3, "out": "3\n3\n"}),
    ("%%capture --no-stderr out\ny = 3", {"y": 3, "out": ""}),
    ("%prun -q -T /dev/null y = 3", {"y": 3}),
    ("%%prun -q -l 3\ny = 3\nz = 4", {"y": 3, "z": 4}),
    ("%%prun -q y = 3\nz = y", {"y": 3, "z": 3}),
    ("t = %timeit -q -n 1 -r 1 abs(-3)", {"t": None}),
    ("!true\ny = 3", {"y": 3}),
    ("y = !true\nz = y.n", {"y": [], "z": ""}),
    ("!!true\ny = 3", {"y": 3}),
    ("y = get_ipython().getoutput('true')", {"y": []}),
    ("if True:\n    !true\n    y = 3", {"y": 3}),
    ("x = 1\nx?", {"x": 1}),
    ("x = 1\n?x", {"x": 1}),
    ("x = 1\nx??", {"x": 1}),
    ("x = 1\n*ab*?", {"x": 1}),
    ("def f(a):\n    global x\n    x = a\n/f 3", {"x": 3}),
    (",float 3\ny = 3", {"y": 3}),
    (f"y = {TEXT}", {"y": eval(TEXT)}),
    (f"%time z = 1\ny = {TEXT}", {"y": eval(TEXT), "z": 1}),
    ("y = 'a' \\\n  '%b'\n%time z = y", {"y": "a%b", "z": "a%b"}),
    (">>> x = 1\n>>> y = 2", {"x": 1, "y": 2}),
    ("In [3]: x = 1\n   ...: y = 2", {"x": 1, "y": 2}),
    ("    x = 1\n    y = 2", {"x": 1, "y": 2}),
    (("x = 1", "time y = x"), {"x": 1, "y": 1}),
    (("time = 3", "time\n", "y = time"), {"time": 3, "y": 3}),
    ("time = 3", {"time": 3}),
    (("ls = abs", "y = ls(-3)"), {"y": 3}),
    (("pwd", "y = 3"), {"y": 3}),
    ("y = 3\npwd", None),
    ("%pwd\ny = 3", {"y": 3}),
    ("%config InteractiveShell.xmode = 'Plain'\ny = 3", {"y": 3}),
    ("%%html\n<b>y = 3</b>", {}),
    ("%%javascript\ny = 3", {}),
    ("%%latex\ny = 3", {}),
    ("%%bash\ntrue", {}),
    (AWAITED + "y = await f()", {"y": 3}),
    (AWAITED + "y = [await f() for _ in range(2)]", {"y": [3, 3]}),
    (AWAITED + "async with asyncio.timeout(9):\n    y = await f()", {"y": 3}),
    ("y = 3\nawait undefined", None),
    ("y = 3\n1/0\nz = 4", None),
    ("x = = 3", None),
]
# What IPython would repeat, write, start or not find, and, last, what needs a loop that
# runs on from cell to cell: Jupyter has one, IPython in a terminal has none.
OF_OUR_OWN = [
    ("%timeit -n 1000000 -r 9 y = 3", {"y": 3}),
    ("%%timeit z = 3\ny = z", {"y": 3, "z": 3}),
    ("%%timeit -n 2\ny = 3\nz = 4", {"y": 3, "z": 4}),
    ("%%writefile /nonexistent/file\ny = 3", {}),
    ("%%script false\ny = 3", {}),
    ("%%unheard_of\ny = 3", {}),
    ("%unheard_of\ny = 3", {"y": 3}),
    ("%run /nonexistent/file\n%load_ext nothing\n%pip install x\ny = 3", {"y": 3}),
    ("files = !rm -r /nonexistent\nn = len(files)", {"files": [], "n": 0}),
    ("ip = get_ipython()\nip.events.register('a', print)\ny = 3", {"y": 3}),
    ("get_ipython().user_ns['y'] = 3", {"y": 3}),
    ("%env A=1\n%matplotlib inline\n%autoreload 2\ny = 3", {"y": 3}),
    ("rm /nonexistent", {}),
    ((AWAITED + "t = asyncio.create_task(f())", "y = await t"), {"y": 3}),
]


def plain(names):
    """Keep what can be compared."""
    kept = {
        name: getattr(value, "stdout", value)
        for name, value in names.items()
        if not name.startswith("_") and name not in ("In", "Out")
    }
    kinds = int | str | list | type(None)
    return {name: value for name, value in kept.items() if isinstance(value, kinds)}


@pytest.fixture
def main(monkeypatch):
    """Let a shell take the place of the main module, and give it back."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(builtins, "display", print, raising=False)


@pytest.fixture
def notebook(main):
    made = Notebook()
    made.open()
    yield made
    made.loop.close()


@pytest.fixture
def ipython(main, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    return InteractiveShell(config=config)


def run_all(cells, run):
    """Run cells; give the errors that stop some of them."""
    errors = []
    for cell in (cells,) if isinstance(cells, str) else cells:
        try:
            run(cell)
        except Exception as error:
            errors.append(error)
    return errors


def in_order(table):
    return [pytest.param(*row, id=repr(row[0])[:60]) for row in table]


@pytest.mark.parametrize("cells, defined", in_order(SAME_AS_IN_IPYTHON))
def test_a_cell_defines_what_it_does_in_ipython(notebook, ipython, cells, defined):
    """`None` stands for cells of which one fails, here as there."""
    ours = run_all(cells, lambda cell: notebook.run(cell, "<cell>"))
    theirs = run_all(cells, lambda cell: ipython.run_cell(cell).raise_error())
    assert [type(error) for error in ours] == [type(error) for error in theirs]
    assert plain(notebook.names) == plain(ipython.user_ns)
    assert bool(ours) == (defined is None)
    assert defined is None or plain(notebook.names) == defined


@pytest.mark.parametrize("cells, defined", in_order(OF_OUR_OWN))
def test_a_cell_runs_once_and_starts_nothing(notebook, cells, defined):
    assert run_all(cells, lambda cell: notebook.run(cell, "<cell>")) == []
    assert plain(notebook.names) == defined


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1\n1/0",
        "\n\nx = 1\n1/0",
        "!true \\\n  true\n1/0",
        "x = !true\nx?\n1/0",
        "%time x = 1\n\n%time 1/0",
        "def f():\n    1/0\n\n\nf()",
        "import asyncio\nawait asyncio.sleep(0)\n1/0",
        "x = 1\nnext(iter([]))",
        "x = 1\nx = = 3",
        "x = 1\n%time x = 2\nif x:\nx = 3",
    ],
)
def test_an_error_stands_in_the_line_that_ipython_says(notebook, ipython, cell):
    (error,) = run_all(cell, lambda cell: notebook.run(cell, "<cell>"))
    result = ipython.run_cell(cell)
    theirs = result.error_in_exec or result.error_before_exec
    place = f"<ipython-input-{ipython.execution_count}"
    if isinstance(theirs, SyntaxError):
        line = theirs.lineno
    else:
        frames = traceback.extract_tb(theirs.__traceback__)
        line = [frame.lineno for frame in frames if frame.filename.startswith(place)][
            -1
        ]
    assert f"(line {line} of the cell)" in describe(error, "<cell>")


@pytest.mark.parametrize(
    "cell, line",
    [("%%time\nx = 1\n1/0", 3), ("%%prun 1/0\nx = 1", 1), ("%%capture\n1/0\nx = 1", 2)],
)
def test_an_error_below_a_magic_stands_where_the_cell_has_it(notebook, cell, line):
    """IPython counts from the magic."""
    (error,) = run_all(cell, lambda cell: notebook.run(cell, "<cell>"))
    assert f"(line {line} of the cell)" in describe(error, "<cell>")


def test_an_error_that_cannot_be_printed_is_named():
    class Sly(Exception):
        def __str__(self):
            raise ValueError("no text")

    assert describe(Sly()) == "Sly"
    assert describe(ValueError("two\nlines")) == "ValueError: two lines"


def test_what_is_captured_is_not_printed_and_measuring_prints_nothing(notebook, capsys):
    notebook.run("%%capture out\nprint('hidden')", "<cell>")
    notebook.run("%%time\nprint('shown')", "<cell>")
    notebook.run("%prun print('once')", "<cell>")
    assert capsys.readouterr().out == "shown\nonce\n"
