"""Change single lines of the packages, and see whether a test notices.

Each mutant is the source with one change on one line, of the kinds that the answers to
the labs are changed in (`answers.mutants`). The tests that run the line are run on it,
the quickest first, with and without the hook that checks shapes and types, as in
`make test`; which tests those are is measured once, with coverage. The questions of the
labs are left out: `make fidelity` changes the answers to those.

Run it on one seed, and mend; report another one: `python -m measure.mutants --seed 2`.
"""

import argparse
import ast
import functools
import hashlib
import itertools
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from answers.mutants import _names, _replacements
from measure import report

ROOT = report.ROOT
SRC = ROOT / "src"
KEPT = ROOT / "_build" / "mutants"
LEFT_OUT = "attention_labs"
# Mutants that no test can notice, with the reason: "path: line -> line".
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
# These read sources, and notice that one changed, not what it breaks; or they build the
# book or the labs, start a hub, or grade all answers, which takes longer than the rest.
NOT_THESE = {
    f"test_{name}.py"
    for name in (
        *("addresses", "claims", "style"),
        *("book", "epub", "labs", "make", "packaging", "slides", "take_along"),
        *("hub", "jupyterlab", "fidelity"),
    )
}
KEPT_AS_IT_IS = "test_kept.py"
GRADERS = {"test_trusted.py", "test_grader.py", "test_gradebook.py"}
# The two halves of `make test`.
HALVES = (
    (
        *("-m", "not plain"),
        "--jaxtyping-packages=attention_course,attention_labs,nbjudge,beartype.beartype",
    ),
    ("-m", "plain"),
)
# Of processor time for the tests of a mutant: a mutant that takes longer loops.
SECONDS = 120
# For each group of these tests, of which there are at most four.
OF_TESTS = 20
FEW = 5  # cases


class Mutant(NamedTuple):
    """A line of a file, and the same line with one thing in it changed."""

    path: str
    number: int
    old: str
    new: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}: {self.old.strip()} -> {self.new.strip()}"


@functools.cache
def places(path: Path) -> dict[int, list[ast.AST]]:
    """Find what can be changed in a file: line -> the nodes that stand on it alone."""
    found = defaultdict(list)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _code(tree):
        number = getattr(node, "lineno", None)
        if number is not None and number == node.end_lineno:
            if any(True for _ in _replacements(node, [])):
                found[number].append(node)
    return found


def mutants(path: Path, number: int) -> list[Mutant]:
    """Make all mutants of a line."""
    source = path.read_text(encoding="utf-8")
    lines, tree = source.splitlines(keepends=True), ast.parse(source)
    old = lines[number - 1]
    made = []
    for node in places(path)[number]:
        # Columns count bytes.
        before = old.encode()[: node.col_offset].decode()
        after = old.encode()[node.end_col_offset :].decode()
        for new in _replacements(node, _names(tree, node, set())):
            text = ast.unparse(ast.fix_missing_locations(new))
            if isinstance(new, ast.expr) and not isinstance(new, ast.Name):
                text = f"({text})"
            line = before + text + after
            changed = "".join([*lines[: number - 1], line, *lines[number:]])
            try:
                same = _dumped(ast.parse(changed)) == _dumped(tree)
            except SyntaxError:
                continue
            if not same:
                shown = str(path.relative_to(SRC))
                made.append(Mutant(shown, number, old, line, changed))
    return made


def _dumped(tree: ast.AST) -> str:
    """Write a tree as text, without regard to the ways of returning None."""
    return ast.dump(tree).replace("Return()", "Return(value=Constant(value=None))")


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Go through what runs: no annotations, no docstrings, no imports."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(
                child.value, ast.Constant
            )
            if isinstance(child, ast.AST) and not is_text:
                yield child
                yield from _code(child)


def drawn(seed: int, number: int) -> list[Mutant]:
    """Draw mutants of as many different lines."""
    generator = random.Random(seed)
    lines = [
        (path, line)
        for path in sorted(SRC.rglob("*.py"))
        if LEFT_OUT not in path.parts
        for line in sorted(places(path))
    ]
    generator.shuffle(lines)
    made = (mutants(*line) for line in lines)
    chosen = (generator.choice(of_line) for of_line in made if of_line)
    return list(itertools.islice(chosen, number))


# --- which tests run a line -----------------------------------------------------------


class Covered(NamedTuple):
    """What the tests run, and how long they take.

    Attributes:
        lines: path -> line -> cases of tests that run it.
        seconds: case of a test -> how long it takes.
        halves: case of a test -> its half of `make test`.
    """

    lines: Mapping[str, Mapping[str, Set[str]]]
    seconds: dict[str, float]
    halves: dict[str, int]


def covering() -> Covered:
    """Find out which tests run which line.

    It is measured once for each state of src and each file of tests, and kept. A case
    that fails here would notice every mutant: it is left out.
    """
    files = [
        f for f in sorted((ROOT / "tests").glob("test_*.py")) if f.name not in NOT_THESE
    ]
    folder = KEPT / _digest(*sorted(SRC.rglob("*.py")))
    folder.mkdir(parents=True, exist_ok=True)
    jobs = list(itertools.product(range(len(HALVES)), files))
    with ThreadPoolExecutor(2) as pool:
        measured = list(pool.map(lambda job: _measured(*job, folder), jobs))
    cases: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    halves: dict[str, int] = {}
    for (half, _), of_file in zip(jobs, measured):
        seconds |= of_file["seconds"]
        halves |= dict.fromkeys(of_file["seconds"], half)
        for path, of_lines in of_file["lines"].items():
            for line, ran in of_lines.items():
                cases[path][line] |= seconds.keys() & ran
    return Covered(cases, seconds, halves)


def _measured(half: int, file: Path, kept: Path) -> dict[str, Any]:
    """Run a file of tests with coverage.

    Returns:
        "seconds": how long each case that passes takes; "lines": path -> line -> cases.
    """
    result = kept / f"{file.stem}-{half}-{_digest(file)}.json"
    if result.is_file():
        return json.loads(result.read_text())
    import coverage

    seconds: dict[str, float] = defaultdict(float)
    failed: set[str] = set()
    lines: dict[str, dict[int, list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = _copied(Path(folder))
        settings, data_file = Path(folder, "settings"), Path(folder, "data")
        settings.write_text(f"[run]\nsource = {source}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["--durations=0", "--durations-min=0", "--cov", "--cov-report="]
        command += ["--cov-context=test", f"--cov-config={settings}", str(file)]
        done = subprocess.run(
            [*command, *HALVES[half]],
            cwd=ROOT,
            env=_environment(source) | {"COVERAGE_FILE": str(data_file)},
            capture_output=True,
            text=True,
        )
        for line in done.stdout.splitlines():
            match line.split(maxsplit=2):
                case ["FAILED" | "ERROR", *_]:
                    print(line, flush=True)
                    failed.add(line.partition(" ")[2].partition(" - ")[0])
                case [time_, "call" | "setup", case] if time_.endswith("s"):
                    seconds[case] += float(time_[:-1])
        data = coverage.CoverageData(basename=str(data_file))
        data.read()
        for path in data.measured_files():
            # a case and its phase; nothing while a module is imported
            lines[str(Path(path).relative_to(source))] = {
                line: sorted({ran.rpartition("|")[0] for ran in contexts} - {""})
                for line, contexts in data.contexts_by_lineno(path).items()
            }
    passed = {case: cost for case, cost in seconds.items() if case not in failed}
    result.write_text(json.dumps({"seconds": passed, "lines": lines}))
    return json.loads(result.read_text())


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(map(Path.read_bytes, paths))).hexdigest()[:12]


def _in_time(cases: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Take as many cases as time allows: one of each test, the quickest first, and so on."""
    tests: dict[str, list[str]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: (seconds.get(case, 1.0), case)):
        tests[case.partition("[")[0]].append(case)
    rounds = itertools.chain(*itertools.zip_longest(*tests.values()))
    taken, spent = [], 0.0
    for case in filter(None, rounds):
        spent += seconds.get(case, 1.0)
        if taken and spent > OF_TESTS:
            break
        taken.append(case)
    return taken


def chosen_tests(mutant: Mutant, covered: Covered) -> list[str]:
    """Choose the cases of tests to run on a mutant: those that run its line.

    Among them, those in files that name the module come first. A line that few run may
    only be run by the first to import another module: then tests of other lines of the
    module are tried, too. What runs while a module is imported, in a fixture or in
    another process is seen by no test: there, the tests of what stays as it is, all in
    files that name the module, and those of the grader for its modules have to do.
    """
    of_lines = covered.lines.get(mutant.path, {})
    often = Counter(case for cases in of_lines.values() for case in cases)
    near = {case for case, _ in often.most_common(50)}
    own = _files_about(mutant.path) - {KEPT_AS_IT_IS}
    first = _first_line(mutant)
    lines = range(mutant.number, first - 1, -1) if first else ()
    if cases := next(filter(None, (of_lines.get(str(line)) for line in lines)), None):
        by_name = {case for case in cases if _file_of(case) in own}
        groups = [by_name, cases - by_name, near if len(cases) <= FEW else set()]
    else:
        others = GRADERS - own if mutant.path.startswith("nbjudge/grading") else set()
        groups = [
            {case for case in covered.seconds if _file_of(case) in files}
            for files in ({KEPT_AS_IT_IS}, own, others)
        ]
        groups.append(near)
    # all groups together have to stay below SECONDS
    chosen = (_in_time(group, covered.seconds) for group in groups)
    return list(dict.fromkeys(itertools.chain(*chosen)))


def _file_of(case: str) -> str:
    return case.partition("::")[0].rpartition("/")[2]


def _first_line(mutant: Mutant) -> int | None:
    """Return where the statement begins, whose later lines may count as its; or None.

    Outside functions, a line runs once, in whichever test is the first to import it.
    """
    around = [
        node
        for node in ast.walk(ast.parse(mutant.source))
        if isinstance(node, ast.stmt)
        and node.lineno <= mutant.number <= (node.end_lineno or 0)
    ]
    around.sort(key=lambda node: node.lineno)
    is_inside = any(isinstance(node, ast.FunctionDef) for node in around[:-1])
    return around[-1].lineno if is_inside else None


def _files_about(path: str) -> set[str]:
    """Return the files of tests that name a module, or bear its name."""
    dotted = re.sub(r"(/__(init|main)__)?\.py$", "", path).replace("/", ".")
    above, _, own = dotted.rpartition(".")
    names = [dotted, f"from {above} import {own}\n", f"test_{own}.py"]
    return {
        file.name
        for file in (ROOT / "tests").glob("test_*.py")
        if any(name in file.name + file.read_text(encoding="utf-8") for name in names)
    }


# --- running them ---------------------------------------------------------------------


def is_noticed(
    mutant: Mutant, tests: Sequence[str], halves: Mapping[str, int] = {}
) -> bool:
    """Run tests on a copy of src that holds the mutant, until one fails."""
    with tempfile.TemporaryDirectory() as folder:
        source = _copied(Path(folder))
        Path(source, mutant.path).write_text(mutant.source, encoding="utf-8")
        for number, half in enumerate(HALVES):
            chosen = [test for test in tests if halves.get(test, number) == number]
            command = [sys.executable, "-m", "pytest", "-x", "-q", *half, *chosen]
            try:
                done = chosen and subprocess.run(
                    [*command, "-p", "no:cacheprovider"],
                    cwd=ROOT,
                    env=_environment(source),
                    capture_output=True,
                    timeout=5 * SECONDS,
                    preexec_fn=_limit,
                )
            except subprocess.TimeoutExpired:
                return True
            if done and done.returncode not in (0, 5):  # 5: there was no test
                return True
    return False


def _copied(folder: Path) -> Path:
    """Copy src into a folder."""
    unwanted = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(SRC, folder / "src", ignore=unwanted))


def _environment(source: Path) -> dict[str, str]:
    """Let a copy of src be imported in place of src, and no test be skipped for it."""
    return {
        **os.environ,
        "CI": "true",
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))


def main() -> None:
    """Try the mutants of a seed, print who survives, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--number", type=int, default=300)
    chosen = parser.parse_args()
    began = time.monotonic()
    equivalent = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    covered = covering()
    tried = drawn(chosen.seed, chosen.number)
    survivors = []
    with ThreadPoolExecutor(2) as pool:
        jobs = pool.map(
            lambda m: is_noticed(m, chosen_tests(m, covered), covered.halves), tried
        )
        for number, (mutant, noticed) in enumerate(zip(tried, jobs), 1):
            if not noticed:
                survivors.append(mutant)
                print(
                    f"{number}/{len(tried)} survives, line {mutant.number}: {mutant}",
                    flush=True,
                )
    same = [mutant for mutant in survivors if str(mutant) in equivalent]
    alive = [mutant for mutant in survivors if str(mutant) not in equivalent]
    counted = len(tried) - len(same)
    share = 100 * len(alive) / counted if counted else None
    usage = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    rows = [
        report.row("mutants tried", len(tried), f"single lines, seed {chosen.seed}"),
        report.row("of these equivalent", len(same), "listed with the reason"),
        report.row("survivors among the others", share, "%", at_most=8),
        report.row(
            "processor time",
            sum(part.ru_utime + part.ru_stime for part in usage) / 60,
            "min",
            at_most=90,
        ),
        *(
            report.row(f"equivalent: {m}", None, "", note=equivalent[str(m)])
            for m in same
        ),
        *(report.row(f"survives: {m}", m.number, "line") for m in alive),
    ]
    report.write("mutants", rows, time.monotonic() - began)


if __name__ == "__main__":
    main()
