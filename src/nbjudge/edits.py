"""Mistakes as edits: replace text in a right answer's source, and compile it again.

A wrong answer that is written out by hand repeats the right one, and goes out of date
when the right one changes. An edit names its owner (the answer itself, or a function,
class or method that the answer uses), the text to replace, and the new text. The owner
is compiled again, and so is everything on the path from the answer to the owner.
Everything else is shared, so that types stay the same.
"""

import __future__

import ast
import functools
import inspect
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Edit:
    """Replacements of text in the sources of one or more owners.

    Attributes:
        changes: for each replacement, its owner, the old text and the new text.
    """

    changes: tuple[tuple[Any, str, str], ...]

    def __and__(self, other: "Edit") -> "Edit":
        """Combine two edits."""
        return Edit(self.changes + other.changes)

    def apply(self, reference: Any) -> Any:
        """Return a copy of the reference in which the owners are edited.

        Args:
            reference: a function, class or method that is the owner or uses it.

        Raises:
            ValueError: an old text does not occur exactly once in its owner's source,
                or the reference does not use the owner.
        """
        reference = inspect.unwrap(reference)
        edited = _apply(self.changes, _home(reference))
        for name in reference.__qualname__.split(".")[1:]:
            edited = getattr(edited, name)
        return edited


def edit(owner: Any, old: str, new: str) -> Edit:
    """Describe a mistake as an edit of a right answer's source.

    Args:
        owner: the function, class or method whose source is edited.
        old: the text to replace. It must occur exactly once in the owner's dedented
            source without its docstring.
        new: the text that replaces it.
    """
    return Edit(((owner, old, new),))


@functools.cache
def _apply(changes: tuple[tuple[Any, str, str], ...], reference: Any) -> Any:
    by_owner: dict[Any, list[tuple[str, str]]] = {}
    for owner, old, new in changes:
        by_owner.setdefault(inspect.unwrap(owner), []).append((old, new))
    edited: dict[Any, ast.Module] = {}  # function or class -> its edited source
    for owner, of_owner in by_owner.items():
        home = _home(owner)
        edited.setdefault(home, _tree(home))
        _replace(edited[home], owner, of_owner)
    return _rebuild(reference, edited)


# --- sources --------------------------------------------------------------------------


def _home(owner: Any) -> Any:
    """Return the top-level function or class that an owner belongs to."""
    owner = inspect.unwrap(owner)
    top = owner.__qualname__.split(".")[0]
    return inspect.unwrap(getattr(sys.modules[owner.__module__], top))


@functools.cache
def _source(home: Any) -> str:
    """Return the source of a top-level function or class.

    From Python 3.13 on, `inspect.getsource` leaves out a class's decorators if an
    import hook has added one.
    """
    module = inspect.getsource(sys.modules[home.__module__])
    (node,) = (
        node
        for node in ast.parse(module).body
        if getattr(node, "name", None) == home.__name__
    )
    lines = module.splitlines(keepends=True)
    return "".join(lines[_first_line(node) - 1 : node.end_lineno])


def _tree(home: Any) -> ast.Module:
    return ast.parse(_source(home))


def _replace(tree: ast.Module, owner: Any, changes: list[tuple[str, str]]) -> None:
    """Replace text in the part of a syntax tree that belongs to an owner."""
    lines = _source(_home(owner)).splitlines(keepends=True)
    parent: Any = tree
    node: Any = tree.body[0]
    for name in owner.__qualname__.split(".")[1:]:
        parent, node = (
            node,
            next(n for n in node.body if getattr(n, "name", None) == name),
        )
    shown = {*range(_first_line(node), node.end_lineno + 1)}
    if ast.get_docstring(node) is not None and len(node.body) > 1:
        shown -= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    text = textwrap.dedent("".join(lines[number - 1] for number in sorted(shown)))
    for old, new in changes:
        if text.count(old) != 1:
            name = f"{owner.__module__}.{owner.__qualname__}"
            raise ValueError(
                f"{old!r} stands {text.count(old)} times in {name}, not once"
            )
        text = text.replace(old, new)
    parent.body[parent.body.index(node)] = ast.parse(text).body[0]


def _first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


# --- namespaces -----------------------------------------------------------------------


def _rebuild(reference: Any, edited: dict[Any, ast.Module]) -> Any:
    """Compile the edited code, and all code on the path to it, in copies of modules."""
    way = _way(reference, set(edited))
    copies: dict[str, types.ModuleType] = {}
    for name in _modules(way):
        copies[name] = types.ModuleType(name)
        vars(copies[name]).update(vars(sys.modules[name]))
    for copy in copies.values():
        for key, value in list(vars(copy).items()):
            if isinstance(value, types.ModuleType) and value.__name__ in copies:
                setattr(copy, key, copies[value.__name__])
    made: Any = None
    # Base classes come before the classes that are derived from them.
    for thing in sorted(way, key=lambda x: len(x.__mro__) if inspect.isclass(x) else 0):
        names = vars(copies[thing.__module__])
        _compile(edited.get(thing) or _tree(thing), thing, names)
        made = names[thing.__name__]
        for copy in copies.values():
            for key, value in list(vars(copy).items()):
                if _is_code(value) and inspect.unwrap(value) is thing:
                    setattr(copy, key, made)
        if thing is reference:
            result = made
    return result


def _modules(way: set[Any]) -> set[str]:
    """List the modules that define objects, and those through which they are used."""
    names = {thing.__module__ for thing in way}
    used = (x for name in names for x in list(vars(sys.modules[name]).values()))
    return names | {
        module.__name__
        for module in used
        if isinstance(module, types.ModuleType)
        and way & {x for x in vars(module).values() if _is_code(x)}
    }


def _compile(tree: ast.Module, thing: Any, names: dict[str, Any]) -> None:
    source = ast.unparse(tree)
    filename = f"<edit {next(_numbers)} of {thing.__module__}.{thing.__qualname__}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    later = isinstance(names.get("annotations"), __future__._Feature)
    flags = __future__.annotations.compiler_flag if later else 0
    exec(compile(source, filename, "exec", flags=flags, dont_inherit=True), names)


def _way(reference: Any, owners: set[Any]) -> set[Any]:
    """Find the functions and classes on the paths from a reference to all owners.

    Raises:
        ValueError: there is no path to one of them.
    """
    packages = {x.__module__.partition(".")[0] for x in (reference, *owners)}
    uses: dict[Any, list[Any]] = {}
    new = [reference]
    while new:
        thing = new.pop()
        if thing not in uses:
            uses[thing] = [
                found
                for value in _used(thing)
                if _is_code(found := inspect.unwrap(value))
                and found.__module__.partition(".")[0] in packages
                and "." not in found.__qualname__
            ]
            new += uses[thing]
    if missing := owners - set(uses):
        names = ", ".join(sorted(owner.__qualname__ for owner in missing))
        raise ValueError(f"{reference.__qualname__} does not use {names}")
    way = set(owners)
    while more := {x for x, used in uses.items() if x not in way and way & set(used)}:
        way |= more
    return way


def _used(thing: Any) -> Iterator[Any]:
    """Yield the top-level objects that the code of a function or class refers to."""
    if inspect.isclass(thing):
        yield from thing.__bases__
        for member in vars(thing).values():
            member = getattr(member, "fget", getattr(member, "__func__", member))
            if inspect.isfunction(member):
                yield from _used(inspect.unwrap(member))
        return
    names = list(_names(thing.__code__))
    for name in names:
        value = thing.__globals__.get(name)
        if isinstance(value, types.ModuleType):
            yield from (vars(value)[inner] for inner in names if inner in vars(value))
        elif value is not None:
            yield value


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_code(value: Any) -> bool:
    return inspect.isfunction(value) or inspect.isclass(value)
