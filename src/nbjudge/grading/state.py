"""The course's folder gradebook/: records, pages, the secret, what is being graded.

It has a record for each submission, pages for the instructor, what was handed in, the
secret of the course, and which submissions are being graded. The database has no place
for them. A file appears whole or not at all; for that, the standard library has only
`os.replace`.
"""

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any


class State:
    """The files of a course.

    Args:
        root: the course's root folder.
    """

    def __init__(self, root: Path):
        self.folder = root / "gradebook"

    def claimed(self) -> Path:
        """Return the folder in which runs say which submissions they are grading."""
        return self.folder / "claims"

    def kept(self) -> Path:
        """Return the folder that keeps the bytes handed in, each under its hash."""
        path = self.folder / "kept"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def secret(self) -> str:
        """Return the secret of the course, which is made once."""
        path = self.folder / "secret"
        if not path.is_file():
            made = path.with_name(f"secret.{secrets.token_hex(4)}")
            self.write(made, secrets.token_hex(32))
            with contextlib.suppress(FileExistsError):  # another run was first
                os.link(made, path)
            made.unlink()
        return path.read_text()

    def record(self, lab: str, student: str) -> dict[str, Any]:
        """Return a submission's record; empty if there is none that can be read."""
        return _read_json(self._path(lab, student)) or {}

    def write_record(self, record: dict[str, Any]) -> None:
        """Write a submission's record."""
        lab, student = record["lab"], record["student"]
        self._write_json(self._path(lab, student), record)
        if record["sha256"]:
            attempts = self.attempts(lab, student)
            if attempts and attempts[-1]["sha256"] == record["sha256"]:
                del attempts[-1]
            path = self._path(lab, student, "attempts")
            self._write_json(path, [*attempts, record])

    def attempts(self, lab: str, student: str) -> list[dict[str, Any]]:
        """Return the records of all notebooks that a student has handed in, in order.

        A notebook that was graded again occurs once, with its last record.
        """
        return _read_json(self._path(lab, student, "attempts")) or []

    def labs(self) -> list[str]:
        """List the labs that have records."""
        return sorted(path.name for path in (self.folder / "records").glob("*/"))

    def records(self, lab: str) -> list[dict[str, Any]]:
        """Return the records of a lab, sorted by student."""
        paths = (self.folder / "records" / lab).glob("*.json")
        found = [record for path in paths if (record := _read_json(path))]
        return sorted(found, key=lambda record: str(record["student"]))

    def forget(self, lab: str, student: str) -> None:
        """Remove a submission's record, so that it is graded again."""
        self._path(lab, student).unlink(missing_ok=True)

    def write_report(self, name: str, page: str) -> Path:
        """Write a page for the instructor; return its path."""
        path = self.folder / "reports" / f"{name}.html"
        self.write(path, page)
        return path

    def write(self, path: Path, text: str) -> None:
        """Write a file whole or not at all, readable only by its owner."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # graders on several machines may share the folder and have the same process id
        made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(made, flags, 0o600), "wb") as file:
            file.write(text.encode())
        os.replace(made, path)

    def _write_json(self, path: Path, data: Any) -> None:
        self.write(path, json.dumps(data, indent=1, ensure_ascii=True))

    def _path(self, lab: str, student: str, kind: str = "records") -> Path:
        name = "".join(
            c if c.isalnum() and c.isascii() or c in "-_." else f"%{ord(c):x}."
            for c in student
        )
        if len(name) > 200:  # longer than a file name may be
            raw = student.encode("utf-8", "surrogateescape")
            name = name[:100] + hashlib.sha256(raw).hexdigest()
        return self.folder / kind / lab / f"{name}.json"


def _read_json(path: Path) -> Any:
    """Read a file; None if it is not there or cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
