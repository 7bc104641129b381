"""Choose the options and sizes that a task and a model take, and refuse all others."""

from collections.abc import Mapping
from typing import Any

from attention_course import registry


def options_of(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the options that a task takes.

    Args:
        task: its name.
        given: values by the names in `registry.OPTIONS`; None: use the default.

    Returns:
        Values by name, for `registry.make_task`.

    Raises:
        ValueError: there is no such task, an option was given that it does not take, or
            no folder was named for a task that reads one.
    """
    options = _taken(given, registry.find_task(task).options, f"for the task {task}")
    if "data" in options and options["data"] is None:
        raise ValueError(f"{task} reads a corpus from a folder: name it with --data")
    for name, value in options.items():
        if isinstance(value, int) and value < 1:
            raise ValueError(f"--{_option(name)} is at least 1, got {value}")
    return options


def sizes_of(model: str, task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the sizes that a model takes.

    Args:
        model: its name.
        task: name of the task that it is to learn.
        given: values by the names in `registry.SIZES`; None: use the default.

    Returns:
        Values by name, for `registry.make_model`.

    Raises:
        ValueError: there is no such task, there is no such model for it, or a size was
            given that has no effect or makes no sense.
    """
    usual = {
        name: registry.SIZES[name].default
        for name in registry.find_model(model, task).sizes
    }
    sizes = _taken(given, usual, f"for the model {model}")
    for name, value in sizes.items():
        if not registry.SIZES[name].holds(value):
            raise ValueError(
                f"--{_option(name)} is {registry.SIZES[name].what}, got {value}"
            )
    if sizes.get("heads") and sizes["dim"] % sizes["heads"]:
        raise ValueError(
            f"--heads {sizes['heads']} does not divide --dim {sizes['dim']}"
        )
    return sizes


def refuse(given: Mapping[str, Any], why: str) -> None:
    """Refuse options that would have no effect.

    Args:
        given: values by name; None: the option was not given.
        why: end of the error message.

    Raises:
        ValueError: one of them was given.
    """
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--{_option(name)} does nothing {why}")


def _taken(
    given: Mapping[str, Any], usual: Mapping[str, Any], why: str
) -> dict[str, Any]:
    refuse({name: given[name] for name in given if name not in usual}, why)
    return {
        name: default if given[name] is None else given[name]
        for name, default in usual.items()
    }


def _option(name: str) -> str:
    return name.replace("_", "-")
