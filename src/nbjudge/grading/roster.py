"""Enter a platform's students into the gradebook.

`python -m nbjudge.grading.roster FILE`
"""

import sys
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps.baseapp import NbGrader

from nbjudge.grading.commands import GradingError
from nbjudge.grading.names import clashes
from nbjudge.grading.platforms import people


class RosterApp(NbGrader):
    """Enter everyone in a table into the gradebook, and say what cannot be read."""

    name = "nbjudge-roster"
    description = (
        "Take over the roster: Moodle's participants, Canvas's gradebook, or a table"
        " with a column id."
    )
    aliases: dict[str, str] = {}
    flags: dict[str, tuple[dict[str, dict[str, bool]], str]] = {}

    def start(self) -> None:
        """Enter the students that can be read; the exit code is 1 if some cannot."""
        super().start()
        if len(self.extra_args) != 1:
            self.fail("name one file: python -m nbjudge.grading.roster FILE")
        try:
            found, odd = people(Path(self.extra_args[0]))
        except GradingError as error:
            self.fail(str(error))
        refused = clashes(person.id for person in found)
        odd += [f"{id}: as a student's name, {why}" for id, why in refused.items()]
        entered = [person for person in found if person.id not in refused]
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            for person in entered:
                gradebook.update_or_create_student(
                    person.id,
                    first_name=person.first_name,
                    last_name=person.last_name,
                    email=person.email,
                    lms_user_id=person.number or None,
                )
        for line in odd:
            self.log.error("%s", line)
        self.log.info("%d students are in the gradebook now", len(entered))
        sys.exit(bool(odd))


if __name__ == "__main__":
    RosterApp.launch_instance()
