"""Rewrite the instructor's pages: `python -m nbjudge.grading.overview`.

With `--anonymous`, write pages that may be shown to the class.
"""

from nbgrader.apps.baseapp import NbGrader
from traitlets import Bool

from nbjudge.grading.converter import Autograde
from nbjudge.grading.figures import EVERYTHING, GROUPS


class Overview(NbGrader):
    """Write the pages that `nbgrader autograde` writes, without grading."""

    name = "nbjudge-overview"
    description = "Write gradebook/reports/: a page on each lab, and one on the course."
    flags = {
        "anonymous": (
            {"Overview": {"anonymous": True}},
            "Write pages to show, into gradebook/reports/anonymous/.",
        )
    }
    aliases: dict[str, str] = {}

    anonymous = Bool(
        False,
        help="No names, times and free text, and no group of fewer than five students.",
    ).tag(config=True)

    def start(self) -> None:
        """Write the pages."""
        super().start()
        shown = GROUPS if self.anonymous else EVERYTHING
        where = Autograde(self.coursedir, parent=self).report(shown=shown)
        self.log.info("the pages are at %s", where)


if __name__ == "__main__":
    Overview.launch_instance()
