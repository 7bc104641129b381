"""What refuses inside the sandbox: the answers in the course's packages and in torch.

No library hides some objects of a package from one caller and leaves them to the rest.
"""

import importlib
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Where torch has what a question may forbid, and whose functions may go on using it.
TORCH = re.compile(r"torch\.nn(\.|$)|torch\._C\._nn$")
LAYERS = re.compile(r"torch\.nn\.(functional|modules\.)")


def replace_answers(
    questions: Mapping[str, Any], labs: str, packages: Sequence[str]
) -> None:
    """Put stubs where the course's packages or torch have what is asked for.

    They import, and calling them says whose job it is. Nothing hides the source:
    packages and book are open on purpose.

    Args:
        questions: those that are asked, by name.
        labs: the module that holds them, and the `check` of notebooks.
        packages: the course's; their own functions go on using what is replaced.
    """
    others = {*packages} - {labs}

    def is_own(name: str) -> bool:
        own = name.partition(".")[0] in others or LAYERS.match(name) is not None
        # Where a mode looks at all functions, it is the one that calls them.
        return own or name == "nbjudge.in_process"

    stubs: dict[int, Any] = {}
    aten = sys.modules["torch"].ops.aten  # functions have their names there, too
    for name, question in questions.items():
        stubs[id(question.reference)] = _stub(
            question.reference, f"is what question {name} asks you to write", is_own
        )
        for path in question.forbidden:
            module, _, attribute = path.rpartition(".")
            real = getattr(importlib.import_module(module), attribute)
            why = "does what this course asks you to write"
            stubs[id(real)] = _stub(real, why, is_own)
            if hasattr(aten, attribute):
                setattr(aten, attribute, stubs[id(real)])
    checks = types.ModuleType(labs)
    # The judge checks, not this.
    vars(checks).update(QUESTIONS={}, check=lambda name, thing, text=False: 0.0)
    replaced = set()
    for name, loaded in list(sys.modules.items()):
        top = name.partition(".")[0]
        if name == labs or name.startswith(f"{labs}."):
            del sys.modules[name]
            replaced.add(name)
        elif top in packages or TORCH.match(name):
            for key, value in list(vars(loaded).items()):
                if id(value) in stubs:
                    setattr(loaded, key, stubs[id(value)])
                    replaced.add(name)
    sys.meta_path.insert(0, Once(replaced))
    sys.modules[labs] = checks
    parent, _, child = labs.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, checks)


class Once:
    """Keeps modules in which something was replaced from being read a second time.

    `importlib.reload` would do that.

    Args:
        modules: their names.
    """

    def __init__(self, modules: set[str]):
        self.modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse these, and leave all others to Python's own finders."""
        if name in self.modules:
            raise ModuleNotFoundError(
                f"{name} cannot be imported a second time here", name=name
            )


def _stub(real: Any, why: str, is_own: Callable[[str], bool]) -> Any:
    """Make what works for the modules that `is_own` names, and for no others."""

    def call_or_refuse(*arguments: Any, **options: Any) -> Any:
        caller = sys._getframe(2 if isinstance(real, type) else 1).f_globals
        name = str(caller.get("__name__"))
        if is_own(name) and vars(sys.modules.get(name, types)) is caller:
            return real(*arguments, **options)
        raise RuntimeError(f"{real.__name__} {why}")

    def refuse_subclass(cls: type, **options: Any) -> None:
        raise RuntimeError(f"{real.__name__} {why}")

    if not isinstance(real, type):
        return call_or_refuse
    make = {
        "__new__": lambda cls, *arguments, **options: call_or_refuse(
            *arguments, **options
        )
    }
    return type(
        real.__name__, (), {**make, "__init_subclass__": classmethod(refuse_subclass)}
    )
