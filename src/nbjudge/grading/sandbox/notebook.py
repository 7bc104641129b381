"""The notebook in the sandbox: opened once, it runs cells, magics, `!` and `await`.

IPython's own shell translates a cell to Python (`transform_cell`), but it does not run
the cell: it would start programs, keep a history and show results, none of which a
judge needs. So we run the cells ourselves, and replace the shell meanwhile.
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

# Magics that run Python code, with their one-letter options.
MEASURING = {"time": "", "timeit": "n:r:tcp:qov:", "prun": "D:l:rs:T:q"}


class Notebook:
    """The names that a notebook defines, and the means to run its cells."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False  # it would open a database
        self.module = types.ModuleType("__main__")
        self.names = vars(self.module)
        self.ipython = InteractiveShell(config=config, user_module=self.module)
        self.names.update(get_ipython=lambda: Shell(self), display=print)
        self.place = ""

    def open(self) -> None:
        """Prepare to run cells, once per submission, while sockets are permitted."""
        self.loop = asyncio.new_event_loop()

    def run(self, source: str, place: str) -> None:
        """Run a cell to its end, including coroutines; its exceptions are passed on.

        Args:
            source: the code as the student wrote it.
            place: the file name of its lines in a traceback.
        """
        self.place = place
        python = self.ipython.transform_cell(source)
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(python, place, "exec", flag)
        # As in Jupyter, a loop counts as running, even if nothing is awaited. It does
        # not really run meanwhile: cells may replace what it needs.
        asyncio._set_running_loop(self.loop)
        try:
            awaitable = eval(code, self.names)
        finally:
            asyncio._set_running_loop(None)
        if code.co_flags & inspect.CO_COROUTINE:
            self.loop.run_until_complete(awaitable)

    def run_body(self, source: str, place: str, lines_above: int) -> Any:
        """Run the code that a magic is given; return the final expression's value."""
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
    """An object that accepts every call and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return Nothing()

    def __call__(self, *arguments: Any, **options: Any) -> None:
        """Do nothing."""


class Shell(Nothing):
    """A replacement for IPython's shell, returned by `get_ipython()`.

    Magics that measure, or that hide what is printed, run their code once. All other
    magics do nothing, and no program is started.

    Args:
        notebook: the notebook whose names they use.
    """

    def __init__(self, notebook: Notebook):
        self._notebook = notebook
        self.user_ns = notebook.names

    def run_line_magic(self, name: str, line: str = "", *_: Any, **options: Any) -> Any:
        """Run `%name line`; return the value of what is timed."""
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
        """Return an empty output, because the program is not run."""
        return SList()

    def _rest(self, name: str, line: str) -> str:
        """Remove the options from what a magic is given."""
        if name == "time":
            return line.replace("--no-raise-error", "", 1)
        magics = self._notebook.ipython.magics_manager.user_magics
        how = {"posix": False, "strict": False, "preserve_non_opts": True}
        return str(magics.parse_options(line, MEASURING[name], **how)[1])
