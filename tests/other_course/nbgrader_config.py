"""What nbgrader has to know of a course on statistics."""

import sys
from pathlib import Path

from nbjudge.grading.converter import install
from nbjudge.grading.export import Scores

c = get_config()
install()  # nbgrader autograde uses the judge from now on
sys.path.insert(0, str(Path(__file__).resolve().parent))  # where questions.py is
c.NbJudge.questions = "questions"
c.CourseDirectory.course_id = "statistics"
c.ExportApp.plugin_class = Scores
