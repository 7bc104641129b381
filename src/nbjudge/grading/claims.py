"""Locks on submissions: one grader at a time for each, where several share a course.

On PostgreSQL, a claim is an advisory lock on the server, which ends with the
connection; elsewhere it is a file lock, which ends with the process.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from filelock import BaseFileLock, FileLock
from sqlalchemy import Connection, NullPool, create_engine, func, make_url, select
from sqlalchemy.exc import SQLAlchemyError

# How long a server may be unavailable before we give up.
AWAY_SECONDS = 600.0


def claims(url: str, course: str, folder: Path) -> "Claims":
    """Return the claims of one run.

    Args:
        url: URL of the gradebook.
        course: id of the course, because several courses may share a server.
        folder: folder for the lock files.

    Raises:
        SQLAlchemyError: the server does not answer.
        ImportError: there is no driver for it.
    """
    if make_url(url).get_backend_name() == "postgresql":
        return ServerClaims(url, course)
    return FileClaims(folder)


class FileClaims:
    """Claims by file locks, for graders on one machine.

    Args:
        folder: where the lock files are.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._held: dict[tuple[str, str], BaseFileLock] = {}

    def take(self, lab: str, student: str) -> bool:
        """Claim a submission; return False if another run has claimed it."""
        path = self.folder / _hash(f"{lab}/{student}").hex()
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, blocking=False, thread_local=False)
        with contextlib.suppress(TimeoutError):
            lock.acquire()
            self._held[lab, student] = lock
        return lock.is_locked

    def keep(self, lab: str, student: str) -> None:
        """Make sure that a submission is claimed, and wait if it is not."""
        while (lab, student) not in self._held and not self.take(lab, student):
            time.sleep(0.2)

    def release(self, lab: str, student: str) -> None:
        """Let other runs claim the submission."""
        if lock := self._held.pop((lab, student), None):
            lock.release()

    def close(self) -> None:
        """Release everything."""
        for lab, student in list(self._held):
            self.release(lab, student)


class ServerClaims:
    """Claims on a PostgreSQL server, for graders on any machine.

    A server that is restarted forgets all claims; `keep` claims a submission again.

    Args:
        url: URL of the gradebook.
        course: id of the course.
    """

    def __init__(self, url: str, course: str):
        self._engine = create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        self._course, self._lock = course, threading.RLock()
        self._held: set[tuple[str, str]] = set()
        self._connection: Connection = self._engine.connect()

    def take(self, lab: str, student: str) -> bool:
        """Claim a submission; return False if another run has claimed it.

        Raises:
            SQLAlchemyError: the server has been away for too long.
        """
        with self._lock:
            lock = select(func.pg_try_advisory_lock(self._key(lab, student)))
            taken = bool(self._again(lambda: self._connection.execute(lock).scalar()))
            if taken:
                self._held.add((lab, student))
        return taken

    def keep(self, lab: str, student: str) -> None:
        """Make sure that a submission is claimed, and wait if it is not.

        Raises:
            SQLAlchemyError: the server has been away for too long.
        """
        while True:
            with self._lock:
                self._again(lambda: self._connection.execute(select(1)))
                if (lab, student) in self._held or self.take(lab, student):
                    return
            time.sleep(0.2)

    def release(self, lab: str, student: str) -> None:
        """Let other runs claim the submission."""
        with self._lock:
            if (lab, student) in self._held:
                self._held.discard((lab, student))
                with contextlib.suppress(SQLAlchemyError):  # the server has released it
                    self._connection.execute(
                        select(func.pg_advisory_unlock(self._key(lab, student)))
                    )

    def close(self) -> None:
        """Release everything."""
        with contextlib.suppress(SQLAlchemyError):
            self._connection.close()
        self._engine.dispose()

    def _again(self, ask: Callable[[], object]) -> object:
        """Query the server, and wait while it is unavailable."""
        end = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                return ask()
            except SQLAlchemyError:
                if time.monotonic() > end:
                    raise
                self._held.clear()
                with contextlib.suppress(SQLAlchemyError):
                    self._connection.close()
                time.sleep(0.2)
                with contextlib.suppress(SQLAlchemyError):
                    self._connection = self._engine.connect()

    def _key(self, lab: str, student: str) -> int:
        """Return the number of a lock; the server has one range of numbers for all."""
        digest = _hash(f"nbjudge/{self._course}/{lab}/{student}")
        return int.from_bytes(digest[:8], signed=True)


Claims = FileClaims | ServerClaims


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16]
