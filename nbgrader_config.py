"""How nbgrader is used here: stock commands, from the root of the repository.

nbgrader generate_assignment, validate, autograde, generate_feedback, export,
formgrader: all read this file.
"""

import os
import secrets
import sys
import warnings
from pathlib import Path

from nbjudge.grading.converter import install
from nbjudge.grading.export import Scores
from nbjudge.grading.lms import Collector, Extractor

c = get_config()
install()

root = Path(__file__).resolve().parent
c.NbJudge.questions = "attention_labs"
c.CourseDirectory.course_id = "attention"
c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
c.CourseDirectory.submitted_directory = "gradebook/submitted"
c.CourseDirectory.autograded_directory = "gradebook/autograded"
c.CourseDirectory.feedback_directory = "gradebook/feedback"
c.CourseDirectory.solution_directory = "gradebook/solution"
c.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook' / 'gradebook.db'}"
c.ExportApp.plugin_class = Scores
c.ZipCollectApp.extractor_plugin = Extractor
c.ZipCollectApp.collector_plugin = Collector
c.ExportPlugin.to = str(root / "gradebook" / "grades.csv")
(root / "gradebook").mkdir(exist_ok=True)  # SQLite makes the file, not its directory

# A cell may train a model; the limit is per cell.
c.Execute.timeout = 180
c.Execute.shutdown_kernel = "immediate"
# A cell tagged with this is not executed, and an unexecuted test cell has full marks:
# nobody may know the tag.
c.Execute.skip_cells_with_tag = secrets.token_hex(16)

# nbgrader calls alembic by name, also when it is called by its path and the environment
# is not active.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
)
# No progress bars in feedback; one thread is fastest for models of this size.
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# nbgrader's own way with its database, which SQLAlchemy tells in three lines whenever a
# student is new.
warnings.filterwarnings("ignore", message="Object of type .* not in session")
