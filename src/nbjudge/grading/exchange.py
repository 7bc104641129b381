"""Files that nbgrader's exchange needs with a submission, to return its feedback."""

import secrets
from datetime import datetime
from pathlib import Path

from nbjudge.grading.files import SECRET, TIMESTAMP, Unreadable, content_of


def keep_for_exchange(handed_in: Path, graded: Path, when: datetime | None) -> None:
    """Put two small files next to the graded notebook; no other file is copied.

    `nbgrader release_feedback` reads both files for every student, and stops at the
    first student who lacks one, for example because the work was collected in another
    way. The secret names the page that a student fetches; a secret made here belongs to
    nobody.

    Args:
        handed_in: the student's folder.
        graded: the folder of the graded notebook.
        when: the time at which it was handed in, if known.
    """
    content = content_of(handed_in / SECRET)
    secret = (
        "" if isinstance(content, Unreadable) else content.decode("ascii", "ignore")
    )
    if not (secret.isalnum() and len(secret) <= 200):
        secret = secrets.token_hex()
    (graded / SECRET).write_text(secret)
    (graded / TIMESTAMP).write_text(f"{when} UTC" if when else "")
