"""What stays as it is unless it is changed on purpose.

Each test compares with a file in `test_kept`. After a change that is meant, look at what
differs, run the test once with --force-regen, and commit the file with the change.
"""

import hashlib
import importlib
import inspect
import io
import pkgutil
import re
from enum import Enum
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest
import torch
from torch import Tensor, nn
from traitlets import HasTraits

import attention_course
import nbjudge
from attention_course import plotting
from attention_course.registry import MODELS, SIZES, TASKS, make_model, make_task
from attention_course.training.folder import VERSION

# The hook's wrappers are not what users see.
pytestmark = pytest.mark.plain


# --- figures --------------------------------------------------------------------------

WEIGHTS = [[0.7, 0.2, 0.1], [0.0, 0.25, 0.75]]
FIGURES = {
    "heat_map": lambda: plotting.heat_map(
        WEIGHTS, ["a", "b", " "], ["x", "y"], gold=[{0, 2}, {1}]
    ),
    "bahdanau": lambda: plotting.decoder_step("Bahdanau"),
    "luong": lambda: plotting.decoder_step("Luong"),
    "length_curves": lambda: plotting.length_curves(
        {"one": {1: 1.0, 5: 0.5, 9: 0.1}, "two": {1: 0.9, 5: 0.8, 9: 0.7}}
    ),
    "training_loss": lambda: plotting.training_curve(
        [3.0, 2.0, 1.5, 1.2], {2: 2.1, 4: 1.4}
    ),
    "training_score": lambda: plotting.training_curve(
        [3.0, 2.0, 1.5, 1.2], {2: 0.4, 4: 0.6}, measured="exact match"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_looks_as_it_did(name, image_regression):
    drawn = io.BytesIO()
    with plt.rc_context(rc=plt.rcParamsDefault | {"backend": "Agg"}):
        FIGURES[name]().figure.savefig(drawn, dpi=60)
    plt.close("all")
    image_regression.check(drawn.getvalue(), diff_threshold=0.01)


# --- tasks and models -----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TASKS.keys() - {"multi30k"}))
def test_a_seed_draws_the_same_examples(name, data_regression):
    """The book's figures and the scores of stored runs rest on them."""
    task = make_task(name)
    parts = {part: getattr(task, part) for part in ("train", "validation", "test")}
    kept = {"sizes": [task.source_size, task.target_size], "metric": task.metric}
    for part, examples in parts.items():
        kept[part] = {
            "examples": len(examples),
            "digest": hashlib.sha256(repr(_plain(examples)).encode()).hexdigest()[:16],
            "first": _shown(_plain(examples[0])),
        }
        if numbers := [x.double().mean() for x in _tensors(examples)]:
            kept[part]["mean"] = torch.stack(numbers).mean().item()
    data_regression.check(kept, round_digits=5)


def _tensors(value):
    """Find the pictures and frames in examples."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in _tensors(part)]
    return []


def _plain(value):
    """Reduce an example to what is the same on every machine."""
    match value:
        case Tensor() if value.is_floating_point():
            return list(value.shape)  # the last digits depend on the machine
        case Tensor():
            return value.tolist()
        case set() | frozenset():
            return sorted(value)
        case str() | int() | None:
            return value
        case float():
            return round(value, 6)
    return [_plain(part) for part in value]


def _shown(value):
    """Join the tokens of an example, so that it can be read."""
    if isinstance(value, list) and value and all(isinstance(t, str) for t in value):
        return " | ".join(value)
    return [_shown(part) for part in value] if isinstance(value, list) else value


def test_checkpoints_of_a_version_fit_the_models(data_regression):
    """Where this changes, stored runs can no longer be read: raise `VERSION`, too."""
    kept = {"version": VERSION, "models": {}}
    for name, row in MODELS.items():
        sizes = {size: SIZES[size].default for size in row.sizes}
        layers = {"layers": 4} if name == "gnmt" else {}
        model = make_model(name, source_size=9, target_size=7, **(sizes | layers))
        assert isinstance(model, nn.Module)
        kept["models"][name] = {
            "sizes": sizes,
            "weights": {
                key: " x ".join(map(str, weight.shape))
                for key, weight in model.state_dict().items()
            },
        }
    data_regression.check(kept)


# --- the packages' interface ----------------------------------------------------------


@pytest.mark.parametrize(
    "package", [attention_course, nbjudge], ids=lambda p: p.__name__
)
def test_the_interface_is_the_same(package, file_regression):
    """The public names of each module, with their arguments and defaults."""
    lines = []
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            lines += [f"{info.name}:", *_interface(importlib.import_module(info.name))]
    file_regression.check("\n".join(lines) + "\n")


def _interface(module: ModuleType):
    for name, value in sorted(vars(module).items()):
        if name.startswith("_"):
            continue
        if name.isupper() and isinstance(value, (int, float, str)):
            if len(shown := repr(value)) <= 80:  # no templates, no programs
                yield f"    {name} = {shown}"
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value) and issubclass(value, Enum):
            yield f"    {name}: {', '.join(f'{one.name}={one.value}' for one in value)}"
        elif inspect.isclass(value) and issubclass(value, HasTraits):
            for trait, kind in sorted(value.class_own_traits(config=True).items()):
                yield f"    {name}.{trait} = {_default(kind.default())}"
        elif inspect.isclass(value) and issubclass(value, Exception):
            yield f"    {name}: {', '.join(base.__name__ for base in value.__bases__)}"
        elif inspect.isclass(value) or inspect.isroutine(value):
            yield f"    {name}{_arguments(value)}"
        if inspect.isclass(value):
            for method, function in sorted(vars(value).items()):
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"    {name}.{method}{_arguments(function)}"


def _arguments(function) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    return "({})".format(
        ", ".join(
            stars.get(p.kind.name, "")
            + p.name
            + ("" if p.default is p.empty else f"={_default(p.default)}")
            for p in inspect.signature(function).parameters.values()
        )
    )


def _default(value) -> str:
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__qualname__
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Path):
        return value.name  # where it lies depends on the machine
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
