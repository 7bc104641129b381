"""`make`: what it refuses, it refuses in one line, and leaves nothing behind."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        ["make", *arguments], cwd=clone, capture_output=True, text=True, env=environment
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line]


def python(clone, version, modules_ok=True):
    """Something that answers as a Python of this version would."""
    fake = clone / f"python{version}"
    comparison = 0 if tuple(map(int, version.split("."))) >= (3, 11) else 1
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) echo "Python {version}.0";;'
        f" *version_info*) exit {comparison};; *ensurepip*) exit"
        f" {0 if modules_ok else 1};; *) exit 99;; esac\n"
    )
    fake.chmod(0o755)
    return f"PYTHON={fake}"


@pytest.mark.parametrize("verb", ["course", "test", "labs", "student-edition"])
def test_a_too_old_python(clone, verb):
    code, lines = make(clone, verb, python(clone, "3.9"))
    assert code and len(lines) == 1
    assert "Python 3.9.0 is too old; install Python 3.11 or newer" in lines[0]
    assert not (clone / ".venv").exists()


def test_no_python(clone):
    code, lines = make(clone, "course", "PYTHON=no-such-python")
    assert code and len(lines) == 1
    assert "no-such-python does not run" in lines[0]


def test_a_python_without_venv(clone):
    code, lines = make(clone, "course", python(clone, "3.12", modules_ok=False))
    assert code and len(lines) == 1
    assert "install its venv package" in lines[0]
    assert not (clone / ".venv").exists()


def test_no_room_on_the_disk(clone):
    code, lines = make(clone, "course", python(clone, "3.12"), "DISK_MB=999999999")
    assert code and len(lines) == 1
    assert "999999999 MB are needed; make room" in lines[0]
    assert not (clone / ".venv").exists()


def test_help_lists_every_verb(clone):
    code, lines = make(clone, "help")
    assert code == 0
    (phony,) = [
        line
        for line in (clone / "Makefile").read_text().splitlines()
        if line.startswith(".PHONY:")
    ]
    *lines, site, repository = lines
    assert "SITE=https://" in site and "REPOSITORY=https://" in repository
    assert [line.split()[1] for line in lines] == [
        verb for verb in phony.split()[1:] if verb != "environment"
    ]


@pytest.mark.parametrize("name", ["SITE", "REPOSITORY"])
def test_an_address_that_is_not_https(clone, name):
    for value in ("http://course.example", "git@course.example:a/b", "https://a b"):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        done = subprocess.run(
            ["make", "help", f"{name}={value}"],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode and not done.stdout
        assert done.stderr.count("\n") == 1
        assert f"{name} is no plain https address: {value}" in done.stderr


def test_addresses_reach_the_book(clone):
    """As variables of make or of the environment, or not at all."""
    with (clone / "Makefile").open("a") as makefile:
        makefile.write('show:\n\t@echo "$$SITE, $$REPOSITORY"\n')
    addresses = ["SITE=https://a.example", "REPOSITORY=https://b.example"]
    assert make(clone, "show", *addresses) == (
        0,
        [", ".join(a.partition("=")[2] for a in addresses)],
    )


def test_shapes_are_checked_in_every_package():
    """While tests run, by the hook that is told which packages."""
    text = (ROOT / "Makefile").read_text()
    (hooked,) = re.findall(r"--jaxtyping-packages=(\S+)", text)
    packages = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}
    assert {*hooked.split(",")} == {*packages, "beartype.beartype"}
