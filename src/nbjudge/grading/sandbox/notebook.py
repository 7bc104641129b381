"""The notebook inside the sandbox: it runs cells, with magics, `!` and `await`.

What a cell means in Python, IPython's own shell says (`transform_cell`). It does not
run the cell: it would start programs, keep a history and show results, of which a judge
wants nothing. So what runs cells, and what stands for the shell meanwhile, is our own.
"""

import ast
import asyncio
import inspect
import types
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from IPython.utils.text import SList
from traitlets.config import Config

# The magics that run Python, and those of their options that are one letter.
MEASURING = {"time": "", "timeit": "n:r:tcp:qov:", "prun": "D:l:rs:T:q"}


class Notebook:
    """The names that a notebook defines, and the cells that define them."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False  # it would open a database
        self.module = types.ModuleType("__main__")
        self.names = vars(self.module)
        self.ipython = InteractiveShell(config=config, user_module=self.module)
        self.names.update(get_ipython=lambda: Shell(self), display=print)
        self.place = ""

    def open(self) -> None:
        """Get ready to run, once for each submission, while it may have sockets."""
        self.loop = asyncio.new_event_loop()

    def run(self, source: str, place: str) -> None:
        """Run a cell to its end, coroutines included; whatever it raises goes on.

        Args:
            source: as the student wrote it.
            place: what its lines are found under in a traceback.
        """
        self.place = place
        python = self.ipython.transform_cell(source)
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(python, place, "exec", flag)
        # As in Jupyter a loop is said to run, also where nothing is awaited. It stands
        # still meanwhile: cells may replace what it needs.
        asyncio._set_running_loop(self.loop)
        try:
            awaitable = eval(code, self.names)
        finally:
            asyncio._set_running_loop(None)
        if code.co_flags & inspect.CO_COROUTINE:
            self.loop.run_until_complete(awaitable)

    def run_body(self, source: str, place: str, lines_above: int) -> Any:
        """Run what a magic is given; returns the value of a last expression."""
        tree = ast.parse(self.ipython.transform_cell(source), place)
        ast.increment_lineno(tree, lines_above)
        last = tree.body.pop() if tree.body else None
        value = last.value if isinstance(last, ast.Expr) else None
        if last is not None and value is None:
            tree.body.append(last)
        exec(compile(tree, place, "exec"), self.names)
        if value is not None:
            return eval(compile(ast.Expression(value), place, "eval"), self.names)
        return None


class Nothing:
    """Takes every call and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return Nothing()

    def __call__(self, *arguments: Any, **options: Any) -> None:
        """Do nothing."""


class Shell(Nothing):
    """Stands where a notebook has IPython's shell, for `get_ipython()`.

    Magics that measure, or hide what is printed, run what they are given, once. No
    other magic does anything, and no program is started.

    Args:
        notebook: whose names they use.
    """

    def __init__(self, notebook: Notebook):
        self._notebook = notebook
        self.user_ns = notebook.names

    def run_line_magic(self, name: str, line: str = "", *_: Any, **options: Any) -> Any:
        """Run `%name line`; returns the value of what is timed."""
        if name in MEASURING:
            value = self._notebook.run_body(self._rest(name, line), "<magic>", 0)
            return value if name == "time" else None

    def run_cell_magic(self, name: str, line: str = "", cell: str = "") -> Any:
        """Run `%%name line` and the cell below it."""
        place = self._notebook.place
        if name in MEASURING:
            self._notebook.run_body(self._rest(name, line), place, 0)
            value = self._notebook.run_body(cell, place, 1)
            return value if name == "time" else None
        if name == "capture":
            words = line.split()
            kinds = ("--no-stdout" not in words, "--no-stderr" not in words)
            with capture_output(*kinds) as captured:
                self.user_ns.update({w: captured for w in words if w.isidentifier()})
                self._notebook.run_body(cell, place, 1)

    def getoutput(self, *arguments: Any, **options: Any) -> SList:
        """Return what a program that is not run would have printed."""
        return SList()

    def _rest(self, name: str, line: str) -> str:
        """Take the options from what a magic is given."""
        if name == "time":
            return line.replace("--no-raise-error", "", 1)
        magics = self._notebook.ipython.magics_manager.user_magics
        how = {"posix": False, "strict": False, "preserve_non_opts": True}
        return str(magics.parse_options(line, MEASURING[name], **how)[1])
