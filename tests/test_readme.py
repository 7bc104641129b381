"""The script that the README shows runs as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.plain
def test_the_script_of_the_readme_rewrites_a_date(tmp_path, monkeypatch, capsys):
    (script,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(script.replace("steps=300", "steps=3"), "README.md", "exec"), {})
    assert "exact match 0.0" in capsys.readouterr().out
    assert (tmp_path / "map.png").stat().st_size > 1000
