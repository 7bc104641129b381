"""Build the judge as a distribution of its own, for courses other than this one.

`python -m scripts.nbjudge_wheel DIRECTORY`.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

import nbjudge

# No module names it, but torch hands out bytes through it, and warns if it is missing.
UNNAMED = {"numpy"}
PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "nbjudge"
version = "{version}"
description = "{description}"
readme = "README.md"
requires-python = "{python}"
license = "MIT"
license-files = ["LICENSE"]
dependencies = {dependencies}

[project.optional-dependencies]
grading = {grading}
scale = {scale}
"""


def imports(modules: Iterable[Path]) -> set[str]:
    """Name the top-level packages that some modules import."""
    found = set()
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
    return {name.partition(".")[0].lower() for name in found}


def pyproject(course: Path) -> str:
    """Write what describes the distribution.

    It needs what the judge imports, with the bounds of the course's own pyproject.toml;
    what only the instructor's half imports is an extra. What these bring, such as
    nbgrader its nbformat, is not named.

    Args:
        course: the course's repository.
    """
    with (course / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].values()
    known = [*project["dependencies"], *(x for extra in extras for x in extra)]
    bounds = {re.split(r"[^\w.-]", x)[0].lower(): x for x in known}
    modules = {*(course / "src" / "nbjudge").rglob("*.py")}
    grading = {path for path in modules if "grading" in path.parts}
    scale = project["optional-dependencies"]["scale"]  # few courses need it
    basic = imports(modules - grading) | UNNAMED
    more = imports(grading) - {re.split(r"[^\w.-]", x)[0] for x in scale}
    return PYPROJECT.format(
        version=nbjudge.__version__,
        description=(nbjudge.__doc__ or "").splitlines()[0],
        python=project["requires-python"],
        dependencies=json.dumps([bounds[x] for x in sorted(basic & {*bounds})]),
        grading=json.dumps([bounds[x] for x in sorted((more - basic) & {*bounds})]),
        scale=json.dumps(scale),
    )


def build(course: Path, into: Path) -> Path:
    """Build the wheel.

    Args:
        course: the course's repository.
        into: the folder for the wheel.

    Returns:
        The wheel.

    Raises:
        RuntimeError: hatchling failed; the message is what it said.
    """
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(
            course / "src" / "nbjudge",
            root / "nbjudge",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (root / "pyproject.toml").write_text(pyproject(course), encoding="utf-8")
        (root / "README.md").write_text(f"# nbjudge\n\n{nbjudge.__doc__}")
        # what stands before it is about the book
        _, title, terms = (course / "LICENSE").read_text().partition("MIT License\n")
        (root / "LICENSE").write_text(title + terms)
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-d",
            into,
        ]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
    return into / f"nbjudge-{nbjudge.__version__}-py3-none-any.whl"


def main(arguments: list[str]) -> int:
    """Build into the directory named."""
    (into,) = arguments
    wheel = build(Path.cwd(), Path(into).resolve())
    print(f"the judge alone is in {into}/{wheel.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
