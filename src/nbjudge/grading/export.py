"""`nbgrader export`: a table of the scores that says whether each of them is final."""

import csv
from collections.abc import Iterable
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import CsvExportPlugin

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
    "status",
)
FINAL, AGAIN, PERSON, NOTHING = (
    "final",
    "look again",
    "needs a person",
    "nothing graded",
)


class Scores(CsvExportPlugin):
    """nbgrader's own table, with a column for the status of each score.

    If a person has to look, there is no score, neither zero nor full.

    The status of a score is one of:

    - final;
    - a number of points to be marked: nobody has marked some of the questions yet;
    - look again: a score that was given by hand still stands, but the notebook or the
      judge's points have changed since; this may be combined with points to be marked;
    - needs a person: nothing has been marked, so there is no score;
    - nothing graded: nothing was handed in, or it was not graded; the score is 0, as in
      nbgrader's own table.
    """

    def export(self, gradebook: Gradebook) -> None:
        """Write the table.

        Args:
            gradebook: where the scores are.
        """
        to, students, labs = (
            self.to or "grades.csv",
            set(map(str, self.student)),
            set(map(str, self.assignment)),
        )
        self.log.info("Exporting grades to %s", to)
        with open(to, "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            for lab in gradebook.assignments:
                if labs and lab.name not in labs:
                    continue
                chosen = [
                    s for s in gradebook.students if not students or s.id in students
                ]
                rows = rows_of(gradebook, lab, chosen)
                table.writerows(rows)
                if odd := [
                    row["student_id"]
                    for row in rows
                    if row["status"] not in (FINAL, NOTHING)
                ]:
                    self.log.warning(
                        "%s: %d scores are not final: %s",
                        lab.name,
                        len(odd),
                        ", ".join(odd),
                    )


def rows_of(
    gradebook: Gradebook, lab: Any, students: Iterable[Any]
) -> list[dict[str, Any]]:
    """Make the rows of a lab.

    Args:
        gradebook: where the scores are.
        lab: the lab, as in the gradebook.
        students: the students, as in the gradebook.

    Returns:
        The columns of the table, for each student.
    """
    return [_row(gradebook, lab, student) for student in students]


def _row(gradebook: Gradebook, lab: Any, student: Any) -> dict[str, Any]:
    row = {
        "assignment": lab.name,
        "duedate": lab.duedate,
        "student_id": student.id,
        "last_name": student.last_name,
        "first_name": student.first_name,
        "email": student.email,
        "max_score": lab.max_score,
    }
    try:
        submission = gradebook.find_submission(lab.name, student.id)
    except MissingEntry:
        return {
            **row,
            "raw_score": 0.0,
            "late_submission_penalty": 0.0,
            "score": 0.0,
            "status": NOTHING,
        }
    penalty, status = submission.late_submission_penalty, _status(submission)
    scores = {
        "raw_score": submission.score,
        "score": max(0.0, submission.score - penalty),
    }
    return {
        **row,
        "timestamp": submission.timestamp,
        "late_submission_penalty": penalty,
        **({} if status == PERSON else scores),
        "status": status,
    }


def _status(submission: Any) -> str:
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    unmarked = [
        grade
        for grade in grades
        if grade.auto_score is None and grade.manual_score is None
    ]
    if len(unmarked) == len(grades):
        return PERSON
    left = [f"{sum(grade.max_score for grade in unmarked):g} points to be marked"]
    again = any(x.needs_manual_grade for x in grades if x not in unmarked)
    return ", ".join(left * bool(unmarked) + [AGAIN] * again) or FINAL
