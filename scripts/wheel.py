"""Build the packages as students get them: a wheel without the grader.

`python -m scripts.wheel DIRECTORY`.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ("pyproject.toml", "constraints.txt", "LICENSE", "CITATION.cff")


def copy_packages(course: Path, into: Path) -> None:
    """Copy what installs the packages. Of them, the grader stays behind.

    Args:
        course: the course's repository.
        into: a folder.
    """
    shutil.copytree(
        course / "src",
        into / "src",
        ignore=shutil.ignore_patterns("grading", "__pycache__", "*.egg-info"),
    )
    for name in FILES:
        shutil.copy(course / name, into)


def build(course: Path, into: Path) -> Path:
    """Build the wheel.

    Args:
        course: the course's repository.
        into: the folder for the wheel; older wheels in it go.

    Returns:
        The wheel.

    Raises:
        RuntimeError: hatchling failed; the message is what it said.
    """
    for old in into.glob("attention_course-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as staging:
        copy_packages(course, Path(staging))
        shutil.copy(course / "README.md", staging)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
        done = subprocess.run(
            [*command, into.resolve()], cwd=staging, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
    (wheel,) = into.glob("attention_course-*.whl")
    return wheel


if __name__ == "__main__":
    build(Path.cwd(), Path(sys.argv[1]))
