"""Locks: one grader at a time for each submission, where several share a course.

On PostgreSQL a claim is an advisory lock of the server's, which goes with the
connection; elsewhere it is a lock on a file, which goes with the process.
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

# How long a server that has gone may stay away.
AWAY_SECONDS = 600.0


def claims(url: str, course: str, folder: Path) -> "Claims":
    """Return the claims of one run.

    Args:
        url: of the gradebook.
        course: its id, as several courses may share a server.
        folder: for the files.

    Raises:
        SQLAlchemyError: the server does not answer.
        ImportError: there is no driver for it.
    """
    if make_url(url).get_backend_name() == "postgresql":
        return ServerClaims(url, course)
    return FileClaims(folder)


class FileClaims:
    """Claims on files, for graders on one machine.

    Args:
        folder: where the files are.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._held: dict[tuple[str, str], BaseFileLock] = {}

    def take(self, lab: str, student: str) -> bool:
        """Claim a submission; False if another run has claimed it."""
        path = self.folder / _hash(f"{lab}/{student}").hex()
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, blocking=False, thread_local=False)
        with contextlib.suppress(TimeoutError):
            lock.acquire()
            self._held[lab, student] = lock
        return lock.is_locked

    def keep(self, lab: str, student: str) -> None:
        """Make sure of a claim, and wait for it if it is not held."""
        while (lab, student) not in self._held and not self.take(lab, student):
            time.sleep(0.2)

    def release(self, lab: str, student: str) -> None:
        """Let others claim it."""
        if lock := self._held.pop((lab, student), None):
            lock.release()

    def close(self) -> None:
        """Release everything."""
        for lab, student in list(self._held):
            self.release(lab, student)


class ServerClaims:
    """Claims on a PostgreSQL server, for graders on any machine.

    A server that is restarted forgets all claims; `keep` takes one again.

    Args:
        url: of the gradebook.
        course: its id.
    """

    def __init__(self, url: str, course: str):
        self._engine = create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        self._course, self._lock = course, threading.RLock()
        self._held: set[tuple[str, str]] = set()
        self._connection: Connection = self._engine.connect()

    def take(self, lab: str, student: str) -> bool:
        """Claim a submission; False if another run has claimed it.

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
        """Make sure of a claim, and wait for it if it is not held.

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
        """Let others claim it."""
        with self._lock:
            if (lab, student) in self._held:
                self._held.discard((lab, student))
                with contextlib.suppress(SQLAlchemyError):  # gone with it
                    self._connection.execute(
                        select(func.pg_advisory_unlock(self._key(lab, student)))
                    )

    def close(self) -> None:
        """Release everything."""
        with contextlib.suppress(SQLAlchemyError):
            self._connection.close()
        self._engine.dispose()

    def _again(self, ask: Callable[[], object]) -> object:
        """Ask the server, and wait for it while it is away."""
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
        """Return the number of a lock; the server has one space of them for all."""
        digest = _hash(f"nbjudge/{self._course}/{lab}/{student}")
        return int.from_bytes(digest[:8], signed=True)


Claims = FileClaims | ServerClaims


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16]
