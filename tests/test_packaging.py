"""The distributions: what is in each wheel and in the source distribution."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import bare
import pytest

import nbjudge
from scripts.nbjudge_wheel import build, imports, pyproject

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The course's own distributions."""
    into = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    subprocess.run([*command, "-d", into], cwd=ROOT, check=True, capture_output=True)
    return into


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The judge's own wheel."""
    return build(ROOT, tmp_path_factory.mktemp("alone") / "new")


def modules(*packages):
    """List the modules of some packages."""
    src = ROOT / "src"
    return {
        path.relative_to(src).as_posix()
        for package in packages
        for path in (src / package).rglob("*.py")
    }


def contents(wheel):
    """Read a wheel: the files of its packages, its metadata, its licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (x for x in names if x.endswith(".dist-info/METADATA"))
        (licence,) = (x for x in names if x.endswith(".dist-info/licenses/LICENSE"))
        return (
            {name for name in names if ".dist-info/" not in name},
            message_from_bytes(archive.read(metadata)),
            archive.read(licence).decode(),
        )


def test_the_course_s_wheel(built):
    files, metadata, licence = contents(next(built.glob("*.whl")))
    installed = {name.partition(".data/data/")[2] for name in files} - {""}
    settings = ROOT / "src" / "attention_labs" / "jupyter"
    assert installed == {
        f"etc/jupyter/{path.relative_to(settings).as_posix()}"
        for path in settings.rglob("*.json")
    }
    files = {name for name in files if ".data/" not in name}
    assert {name.partition("/")[0] for name in files} == PACKAGES
    assert {name for name in files if name.endswith(".py")} == modules(*PACKAGES)
    assert "nbjudge/grading/converter.py" in files
    assert metadata["Name"] == "attention-course"
    assert not any("nbjudge" in x for x in metadata.get_all("Requires-Dist"))
    assert licence == (ROOT / "LICENSE").read_text()


def test_the_source_distribution(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.partition("/")[0] for name in names} == {
        *("src", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"),
        *("CITATION.cff", ".gitignore", "PKG-INFO"),
    }
    assert {f"src/{name}" for name in modules(*PACKAGES)} <= names


def test_the_judge_s_wheel(alone):
    files, metadata, licence = contents(alone)
    assert {name.partition("/")[0] for name in files} == {"nbjudge"}
    assert {name for name in files if name.endswith(".py")} == modules("nbjudge")
    assert "nbjudge/grading/converter.py" in files
    assert (metadata["Name"], metadata["Version"]) == ("nbjudge", nbjudge.__version__)
    assert metadata["License-Expression"] == "MIT"
    assert licence.startswith("MIT License\n") and "Creative Commons" not in licence


def closure(names):
    """Add to some distributions what they require, and what that requires."""
    found, new = set(), {name.lower() for name in names}
    while new:
        found |= new
        lines = [line for name in new for line in known(name) if "extra ==" not in line]
        new = {re.split(r"[^\w.-]", line)[0].lower() for line in lines} - found
    return found


def known(name):
    try:
        return requires(name) or []
    except ModuleNotFoundError:  # it is for another platform
        return []


@pytest.mark.parametrize("half", ["basic", "grading"])
def test_the_judge_s_wheel_needs_what_the_judge_imports(half):
    project = tomllib.loads(pyproject(ROOT))["project"]
    needed = project["dependencies"]
    paths = (ROOT / "src" / "nbjudge").rglob("*.py")
    if half == "grading":
        extras = project["optional-dependencies"]
        needed = needed + extras["grading"] + extras["scale"]
    else:
        paths = (path for path in paths if "grading" not in path.parts)
    named = closure(re.split(r"[^\w.-]", line)[0] for line in needed)
    homes = {k.lower(): v for k, v in packages_distributions().items()}
    missing = {
        name
        for name in imports(paths) - {"nbjudge"} - sys.stdlib_module_names
        if not named & {home.lower() for home in homes[name]}
    }
    assert not missing


def test_the_bounds_are_the_course_s():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    alone = tomllib.loads(pyproject(ROOT))["project"]
    assert {"torch", "numpy"} <= {x.partition(">")[0] for x in alone["dependencies"]}
    assert {*alone["dependencies"]} <= {*project["dependencies"]}
    grading = alone["optional-dependencies"]["grading"]
    assert "nbgrader" in {x.partition(">")[0] for x in grading}
    extras = project["optional-dependencies"]
    known = {*project["dependencies"], *extras["labs"], *extras["similar"]}
    assert {*grading} <= known


def test_the_judge_works_without_the_course(alone, tmp_path):
    folder = bare.make(tmp_path / "bare", alone)
    code = "import nbjudge, nbjudge.grading.converter as c; print(nbjudge.__file__)"
    assert str(folder) in bare.run(folder, "-c", code, cwd=tmp_path)
    for name in sorted(PACKAGES - {"nbjudge"}):
        said = bare.run(folder, "-c", f"import {name}", cwd=tmp_path, ok=False)
        assert f"No module named '{name}'" in said
