import json

import pytest
from measure import report, spread


@pytest.mark.parametrize("page", spread.PAGES)
def test_every_page_s_runs_leave_the_rows_of_its_report(page, tmp_path, monkeypatch):
    """The stored report has the rows that the verb writes today, and no others."""
    monkeypatch.setattr(report, "REPORTS", tmp_path)

    spread.main([page, "--quick"])

    def names(path):
        return {row["what"] for row in json.loads(path.read_text())["rows"]}

    stored = report.ROOT / "book" / "reports" / f"spread_{page}.json"
    assert names(tmp_path / f"spread_{page}-quick.json") == names(stored)


def test_a_page_without_runs_is_refused(capsys):
    with pytest.raises(SystemExit):
        spread.main(["no_such_page"])
    assert "no runs for 'no_such_page'" in capsys.readouterr().err
