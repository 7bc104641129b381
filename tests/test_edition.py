"""The student edition: all that a student needs, and nothing of a solution, in whatever
form."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import bare
import nbformat
import pytest
from addresses import without_addresses
from bs4 import BeautifulSoup
from solution_text import ROOT, flat, rubrics, secret_lines, solution_regions

from nbjudge.grading.commands import GradingError
from scripts.edition import export
from scripts.release import main as release

CANARY = "zqcanary77"  # one word, which no stemmer shortens and no highlighter cuts
OPEN = "zqopen88"  # as good a word, in a page that everybody may read
TOC = (
    "format: jb-book\nroot: book/index\nchapters:\n  - file: book/how_to_use\n  - glob:"
    " labs/*/*\n"
)


def hide_canaries(notebook):
    """Put the canary into every solution region and every rubric; returns how many."""
    cells = nbformat.read(notebook, as_version=4)
    for cell in cells.cells:
        cell.source = cell.source.replace(
            "### BEGIN SOLUTION\n", f"### BEGIN SOLUTION\n# {CANARY}\n"
        )
    hidden = sum(len(solution_regions(cell)) for cell in cells.cells)
    for cell in rubrics(cells.cells):
        cell.source += f"\n- {CANARY}"
        hidden += 1
    nbformat.write(cells, notebook)
    assert notebook.read_text().count(CANARY) == hidden
    return hidden


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course with canaries in its solutions and two chapters in its book, released
    and built."""
    course = tmp_path_factory.mktemp("edition") / "course"
    for name in ("book/_ext", "book/_templates", "book/assets", "scripts", "solutions"):
        shutil.copytree(
            ROOT / name,
            course / name,
            ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"),
        )
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, course)
    (course / "src").symlink_to(ROOT / "src")
    shutil.copy(ROOT / "book" / "how_to_use.md", course / "book")
    (course / "book" / "references.bib").touch()
    (course / "book" / "index.md").write_text(
        f"({OPEN})=\n# A small book\n\nIt has the labs and {OPEN}.\n"
    )
    (course / "_toc.yml").write_text(TOC)
    assert (
        sum(hide_canaries(path) for path in (course / "solutions").glob("*/*.ipynb"))
        > 20
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(course)
        assert release([]) == 0
    jupyter_book = shutil.which("jupyter-book", path=Path(sys.executable).parent)
    done = subprocess.run(
        [jupyter_book, "build", course],
        env=without_addresses(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return course


@pytest.fixture(scope="module")
def edition(course):
    export(course, course / "_build" / "student")
    return course / "_build" / "student"


def contents(path):
    """A file's bytes and whatever is packed into them."""
    data = path.read_bytes()
    yield data
    if path.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif path.name == "objects.inv":
        yield zlib.decompress(data.split(b"\n", 4)[4])


def holding(edition, wanted):
    files = [
        path
        for path in [*edition.rglob("*"), edition.with_suffix(".zip")]
        if path.is_file()
    ]
    return [path for path in files if any(wanted in data for data in contents(path))]


def test_no_byte_of_it_is_of_a_solution(edition):
    assert holding(edition, CANARY.encode()) == []


def test_what_is_in_a_page_is_found_wherever_it_goes(edition):
    found = {path.name for path in holding(edition, OPEN.encode())}
    assert found == {
        "index.html",
        "index.md",
        "searchindex.js",
        "excerpts.js",
        "objects.inv",
        "student.zip",
    }


def test_no_line_of_the_true_solutions_is_in_it(edition):
    text = [
        BeautifulSoup(path.read_text(), "html.parser").get_text()
        for path in edition.rglob("*.html")
    ]
    text += [
        c.source
        for path in edition.rglob("*.ipynb")
        for c in nbformat.read(path, as_version=4).cells
    ]
    text = flat("\n".join(text))
    assert "def masked_softmax" in text
    assert not [line for line in secret_lines() if line in text]


def test_what_belongs_to_it(edition):
    assert {path.name for path in edition.iterdir()} == {
        *("README.md", "LICENSE", "CITATION.cff", "pyproject.toml", "constraints.txt"),
        *("Containerfile", "book", "labs", "src", "_build"),
    }
    assert {path.name for path in (edition / "labs").iterdir()} == {
        p.name for p in (ROOT / "solutions").iterdir()
    }
    ours, theirs = ROOT / "src", edition / "src"
    assert {path.relative_to(theirs) for path in theirs.rglob("*.py")} == {
        path.relative_to(ours)
        for path in ours.rglob("*.py")
        if "nbjudge/grading" not in path.as_posix()
    }
    assert [p.name for p in (edition / "_build").iterdir()] == ["html"]


def test_everybody_may_read_it(edition):
    """Wherever an instructor puts it: as much as this process lets others read what it
    makes."""
    mask = os.umask(0o022)
    os.umask(mask)
    for path in (edition, *edition.rglob("*")):
        wanted = 0o555 if path.is_dir() else 0o444
        assert path.stat().st_mode & wanted == wanted & ~mask, path


def test_a_lab_runs_in_it(edition):
    """Until the first check: that is worth nothing yet, and says so."""
    directory = edition / "labs" / "lab03_scoring"
    cells = nbformat.read(directory / "lab03_scoring.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    first = next(i for i, source in enumerate(code) if source.startswith("check("))
    script = "\n".join(
        [
            *code[:first],
            f"grade = {code[first]}",
            "print(float(grade), grade.as_text())",
        ]
    )
    script += "\nimport attention_course; print(attention_course.__file__)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(edition / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.startswith("0.0 masked_softmax: 0 of 5 points")
        and "not written yet" in done.stdout
    )
    assert str(edition / "src" / "attention_course") in done.stdout


def test_it_installs_without_the_grader(edition, tmp_path):
    copied = shutil.copytree(edition, tmp_path / "student")
    student = bare.make(tmp_path / "bare")
    install = "-m pip install --no-index --no-deps --no-build-isolation"
    options = ["--ignore-installed", "--editable", str(copied)]
    bare.run(student, *install.split(), *options, cwd=tmp_path)
    code = "import attention_labs, nbjudge; print(attention_labs.check, nbjudge)"
    assert str(copied / "src" / "nbjudge") in bare.run(
        student, "-c", code, cwd=tmp_path
    )
    said = bare.run(student, "-c", "import nbjudge.grading", cwd=tmp_path, ok=False)
    assert "No module named 'nbjudge.grading'" in said


def test_a_book_that_shows_other_labs_is_not_exported(course, edition, tmp_path):
    shown = (
        course
        / "_build"
        / "html"
        / "_sources"
        / "labs"
        / "lab03_scoring"
        / "lab03_scoring.ipynb"
    )
    before = shown.read_text()
    shown.write_text(
        before.replace("raise NotImplementedError()", "return scores.softmax(dim=-1)")
    )
    with pytest.raises(
        GradingError,
        match="the book shows other labs than solutions/ gives; make labs book",
    ):
        export(course, tmp_path / "student")
    shown.write_text(before)
    assert not (tmp_path / "student").exists()


def test_no_book_is_one_line(tmp_path):
    with pytest.raises(
        GradingError, match="there is no book at _build/html; make book"
    ):
        export(tmp_path, tmp_path / "student")


def test_the_hubs_guide_closes_whatever_holds_solutions():
    """Its students work beside the whole course, not in their edition."""
    guide = (ROOT / "book" / "jupyterhub.md").read_text()
    (folders,) = re.findall(r"chmod -R go-rwx (.*)", guide)
    closed = set(folders.split())
    assert {".git", "_build", "solutions", "tests"} <= closed
    tracked = subprocess.run(
        ["git", "ls-files", "*.ipynb"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    readable = [path for path in tracked if path.split("/")[0] not in closed]
    assert readable and not any(
        "BEGIN SOLUTION" in (ROOT / path).read_text() for path in readable
    )
