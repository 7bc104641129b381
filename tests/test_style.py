import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("tool", ["ruff check .", "ruff format --check .", "mypy"])
def test_passes(tool):
    done = subprocess.run(
        [sys.executable, "-m", *tool.split()], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_text_stands_alone():
    """A second line of a text, without parentheses around both, is lost."""
    lost = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            body = getattr(node, "body", None)
            if not isinstance(body, list):
                continue
            begins = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            lost += [
                f"{path.relative_to(ROOT)}:{line.lineno}"
                for line in body[begins:]
                if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
            ]
    assert not lost
