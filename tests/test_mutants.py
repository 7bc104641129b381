"""`make mutants`: single lines are changed, and what no test runs survives."""

import ast
import shlex

import pytest
from measure.mutants import (
    EQUIVALENT,
    HALVES,
    ROOT,
    SRC,
    Covered,
    _in_time,
    chosen_tests,
    drawn,
    is_noticed,
    mutants,
    places,
)

MASKS = SRC / "attention_course" / "masks.py"


def line_of(text):
    lines = MASKS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_mutant_is_one_line_with_one_change():
    made = [m for number in places(MASKS) for m in mutants(MASKS, number)]
    assert len(made) > 20
    original = MASKS.read_text().splitlines()
    for mutant in made:
        ast.parse(mutant.source)
        changed = zip(original, mutant.source.splitlines(), strict=True)
        assert [old for old, new in changed if old != new] == [mutant.old.rstrip("\n")]


def test_a_seed_draws_the_same_mutants_again():
    assert drawn(3, 5) == drawn(3, 5) != drawn(4, 5)


def test_no_mutant_is_of_a_question():
    assert not [m for m in drawn(5, 30) if m.path.startswith("attention_labs")]


def test_what_a_test_runs_is_noticed_and_the_rest_survives():
    mutant = mutants(MASKS, line_of("torch.arange"))[0]
    assert is_noticed(mutant, ["tests/test_masks.py"])
    assert not is_noticed(mutant, ["tests/test_report.py"])
    assert not is_noticed(mutant, [])


def test_the_tests_of_a_line_come_from_coverage_or_from_files_about_it():
    (mutant, *_) = mutants(MASKS, line_of("torch.arange"))
    seconds = {
        **{"tests/test_x.py::test_y[1]": 3.0, "tests/test_x.py::test_y[2]": 2.0},
        **{"tests/test_masks.py::test_z": 1.0, "tests/test_kept.py::test_k": 9.0},
    }
    both = {"tests/test_x.py::test_y[1]", "tests/test_masks.py::test_z"}
    ran = {mutant.path: {str(mutant.number): both}}
    assert chosen_tests(mutant, Covered(ran, seconds, {})) == [
        "tests/test_masks.py::test_z",
        "tests/test_x.py::test_y[1]",
    ]
    before = {mutant.path: {str(mutant.number - 1): {"tests/test_x.py::test_y[1]"}}}
    assert chosen_tests(mutant, Covered(before, seconds, {})) == [
        "tests/test_kept.py::test_k",
        "tests/test_masks.py::test_z",
        "tests/test_x.py::test_y[1]",
    ]


def test_what_runs_on_import_is_not_only_tried_by_the_first_to_import_it():
    path = SRC / "attention_course" / "registry.py"
    lines = path.read_text().splitlines()
    number = lines.index('RECURRENT = (*STACK, "dropout")') + 1
    (mutant, *_) = mutants(path, number)
    ran = {mutant.path: {str(number): {"tests/test_x.py::test_y"}}}
    seconds = {"tests/test_x.py::test_y": 1.0, "tests/test_kept.py::test_k": 9.0}
    covered = Covered(ran, seconds, {})
    assert chosen_tests(mutant, covered) == list(reversed(seconds))


def test_one_case_of_each_test_is_tried_before_a_second_of_any():
    seconds = {"y[1]": 3.0, "y[2]": 2.0, "z[1]": 5.0, "slow": 30.0, "z[2]": 6.0}
    assert _in_time(seconds, seconds) == ["y[2]", "z[1]"]
    del seconds["slow"]
    assert _in_time(seconds, seconds) == ["y[2]", "z[1]", "y[1]", "z[2]"]


def test_the_halves_are_those_of_make_test():
    recipe = (ROOT / "Makefile").read_text().splitlines()
    said = [line.partition("-m pytest ")[2] for line in recipe if "-m pytest" in line]
    assert len(said) == len(HALVES)
    for options, half in zip(map(shlex.split, said), HALVES):
        assert options[-len(half) :] == list(half) and options[:2] == ["-n", "2"]


def test_what_is_called_equivalent_is_still_there():
    import tomllib

    listed = tomllib.loads(EQUIVALENT.read_text())
    for mutant, reason in listed.items():
        path, _, change = mutant.partition(": ")
        old = change.partition(" -> ")[0]
        assert old in (SRC / path).read_text() and len(reason) > 20, mutant


@pytest.mark.parametrize("seed", [1, 2])
def test_both_seeds_have_something_to_draw(seed):
    assert len(drawn(seed, 3)) == 3
