"""Export what students need, and no solution of a lab.

`python -m scripts.edition DIRECTORY`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from nbjudge.grading.commands import GradingError
from scripts.release import generate, replace
from scripts.wheel import copy_packages

README = """\
# Attention, measured: the student edition

The book is already built. Open `_build/html/index.html` in a browser. You need no
network to read it.

For the labs, you need Python 3.11 or newer and 4 GB of free disk space. Run these
commands once, in this folder:

```
python3 -m venv .venv
.venv/bin/python -m pip install --constraint constraints.txt --editable '.[labs]'
```

On Linux, the usual `torch` comes with several gigabytes of CUDA libraries, but the CPU
build is enough. To get it, choose *Linux, Pip, Python, CPU* on
[pytorch.org](https://pytorch.org/get-started/locally/). Before you install, set the
variable `PIP_EXTRA_INDEX_URL` to the address that the page shows after `--index-url`.

Each time you want to work, start JupyterLab:

```
.venv/bin/jupyter lab --LabApp.default_url=/lab/tree/labs
```

On Windows, write `py -3.11` instead of `python3`, and `.venv\\Scripts\\` instead of
`.venv/bin/`.

The page *How to use this book* explains how to work in a lab. When you hand in a
notebook, keep its name.

You also find each chapter as an executed notebook in `_build/html/notebooks/`. To work
in a container instead, see `Containerfile`.

Code: MIT. Text: CC BY 4.0. See [LICENSE](LICENSE). To cite the course, see
[CITATION.cff](CITATION.cff).
"""


def export(course: Path, into: Path) -> Path:
    """Export labs, packages and book, so that the links between them hold.

    The labs are made anew from solutions/, whatever has become of labs/. Of the
    package, the grader stays behind.

    Args:
        course: where nbgrader_config.py, solutions/ and the built book are; nothing is
            written there but `into`.
        into: replaced, once everything else is ready.

    Returns:
        An archive of `into`, beside it.

    Raises:
        GradingError: the book is not built, or shows other labs; or see `generate`.
    """
    site = course / "_build" / "html"
    if not (site / "index.html").is_file():
        raise GradingError(f"there is no book at {site.relative_to(course)}; make book")
    with tempfile.TemporaryDirectory() as staging:
        labs = Path(staging)
        generate(course, labs)
        if _notebooks(site / "_sources" / "labs") != _notebooks(labs):
            raise GradingError(
                "the book shows other labs than solutions/ gives; make labs book"
            )
        shutil.rmtree(into, ignore_errors=True)
        # not the directory itself, which is closed to others, as temporary ones are
        for lab in labs.iterdir():
            replace(into / "labs" / lab.name, lab)
    copy_packages(course, into)
    shutil.copy(course / "Containerfile", into)
    # what the buttons of its pages lead to, where the edition is what REPOSITORY names
    shutil.copytree(
        course / "book", into / "book", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(
        site,
        into / "_build" / "html",
        ignore=shutil.ignore_patterns(".ipynb_checkpoints"),
    )
    (into / "README.md").write_text(README, encoding="utf-8")
    return Path(shutil.make_archive(str(into), "zip", into.parent, into.name))


def _notebooks(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*/*.ipynb")}


def main(arguments: list[str]) -> int:
    """Export into the directory named."""
    (into,) = arguments
    try:
        archive = export(Path.cwd(), Path(into).resolve())
    except GradingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = archive.stat().st_size / 2**20
    print(
        f"the student edition is in {into}, and as one file in {into}.zip"
        f" ({size:.1f} MB)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
