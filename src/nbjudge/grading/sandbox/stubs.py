"""Stubs inside the sandbox, which refuse calls to ready-made answers (course, torch).

No library hides some objects of a package from one caller and leaves them available to
all others.
"""

import importlib
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbjudge import watching

# Modules of torch that have what a question may forbid, and modules of torch whose
# functions may still use it.
TORCH = re.compile(r"torch\.nn(\.|$)|torch\._C\._nn$")
LAYERS = re.compile(r"torch\.nn\.(functional|modules\.)")


def replace_answers(
    questions: Mapping[str, Any], labs: str, packages: Sequence[str]
) -> None:
    """Put stubs in place of what is asked for, in the course's packages and in torch.

    The stubs can be imported; calling one fails with a message that says whose job it
    is. The source is not hidden: packages and book are open on purpose.

    Args:
        questions: the questions that are asked, by name.
        labs: the module that holds the questions, and the `check` of notebooks.
        packages: the course's packages; their own functions still use what is replaced.
    """
    others = {*packages} - {labs}

    def is_own(name: str) -> bool:
        own = name.partition(".")[0] in others or LAYERS.match(name) is not None
        # If a mode (TorchFunctionMode) is active, it is the caller.
        return own or name == watching.__name__

    stubs: dict[int, Any] = {}
    aten = sys.modules["torch"].ops.aten  # it has functions, too
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
    # The judge checks; this does not.
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
    """Import finder that keeps modules with replaced objects from being loaded again.

    `importlib.reload` would restore the originals.

    Args:
        modules: their names.
    """

    def __init__(self, modules: set[str]):
        self.modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse these modules, and leave all others to Python's own finders."""
        if name in self.modules:
            raise ModuleNotFoundError(
                f"{name} cannot be imported a second time here", name=name
            )


def _stub(real: Any, why: str, is_own: Callable[[str], bool]) -> Any:
    """Make a stub that works for the modules that `is_own` names, and for no others."""

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
