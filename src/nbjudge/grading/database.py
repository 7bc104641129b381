"""Wait for nbgrader's database while another program holds it or its server is away."""

import contextlib
import functools
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from nbjudge.grading.claims import AWAY_SECONDS
from nbjudge.grading.commands import GradingError

SAID_AFTER = 5.0
HELD = (
    "the gradebook does not answer: another program holds it, or its server is away;"
    " waiting until it does"
)
TRIES = 5
RETRIED = (InvalidEntry, SQLAlchemyError)
# Messages of SQLite and psycopg about a gradebook that is only away for a while.
AWAY = (
    "database is locked",
    "connection failed",
    "connection is closed",
    "connection to server",
    "consuming input failed",
    "server closed the connection",
    "terminating connection",
    "the connection is lost",
)


def patient(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method that uses the gradebook wait while it is unavailable.

    Another program may hold the gradebook, or its server may be away. Besides, nbgrader
    fails to add an entry if another process adds the same one; then the method is tried
    again.
    """

    @functools.wraps(method)
    def again(self: Any, *arguments: Any) -> Any:
        url, began, tries = self.coursedir.db_url, time.monotonic(), 0
        tell = functools.cache(lambda: self.log.warning(HELD))
        # a server may answer late, whereas a locked file is known at once
        late = threading.Timer(SAID_AFTER, tell)
        if not sqlite_file(url):
            late.start()
        try:
            while True:
                if _is_held(url):
                    tell()
                    continue
                try:
                    return method(self, *arguments)
                except Exception as error:  # nbgrader wraps some in its own types
                    if any(text in str(error) for text in AWAY):
                        if time.monotonic() - began > AWAY_SECONDS:
                            raise
                        tell()
                    else:
                        tries += 1
                        if tries == TRIES or not isinstance(error, RETRIED):
                            raise
                time.sleep(random.uniform(0.1, 0.5))
        finally:
            late.cancel()

    return again


def check_gradebook(url: str, course_id: str, lab: str) -> None:
    """Make sure that the gradebook can be written, and that it holds a lab.

    Raises:
        GradingError: it cannot be written, or nothing of this lab is in it yet.
    """
    place = sqlite_file(url)
    if os.path.exists(place) and not os.access(place, os.W_OK):
        raise GradingError(
            f"{place} cannot be written; make it yours, then run this again"
        )
    with Gradebook(url, course_id) as gradebook:
        with contextlib.suppress(MissingEntry):
            gradebook.find_assignment(lab)
            return
    raise GradingError(
        f"{lab} is not in the gradebook yet; nbgrader generate_assignment {lab} --force"
    )


def first_line(error: Exception) -> str:
    """Describe an error in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def sqlite_file(url: str) -> str:
    """Return the path of a gradebook's file; empty if it is on a server."""
    parts = make_url(url)
    return parts.database or "" if parts.get_backend_name() == "sqlite" else ""


def _is_held(url: str) -> bool:
    """Return whether another program has locked a gradebook's file for a second."""
    place = sqlite_file(url)
    if place and os.path.exists(place):
        with contextlib.closing(sqlite3.connect(place, timeout=1)) as database:
            try:
                database.execute("begin immediate")
            except sqlite3.OperationalError as error:
                return "locked" in str(error)
    return False
