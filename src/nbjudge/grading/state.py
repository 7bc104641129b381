"""What a course keeps on disk beside nbgrader's database, in its folder gradebook/.

A record for each submission, pages for the instructor, what was handed in, the secret
of the course, and which submissions are being graded. The database has no place for
them; a file appears whole or not at all, for which the standard library has
`os.replace` and no more.
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
        root: of the course.
    """

    def __init__(self, root: Path):
        self.folder = root / "gradebook"

    def claimed(self) -> Path:
        """Return where a run says which submission it grades."""
        return self.folder / "claims"

    def kept(self) -> Path:
        """Return where the bytes that were handed in stay, each under its hash."""
        path = self.folder / "kept"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def secret(self) -> str:
        """Return the secret of the course, made once."""
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
        try:
            found: dict[str, Any] = json.loads(self._path(lab, student).read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def write_record(self, record: dict[str, Any]) -> None:
        """Write a submission's record."""
        path = self._path(record["lab"], record["student"])
        self.write(path, json.dumps(record, indent=1, ensure_ascii=True))

    def forget(self, lab: str, student: str) -> None:
        """Remove a submission's record, so that it is graded again."""
        self._path(lab, student).unlink(missing_ok=True)

    def write_report(self, lab: str, page: str) -> Path:
        """Write the instructor's page on a lab; returns where it is."""
        path = self.folder / "reports" / f"{lab}.html"
        self.write(path, page)
        return path

    def write(self, path: Path, text: str) -> None:
        """Write a file whole or not at all, for its owner's eyes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # graders on several machines may share the folder, and the number of a process
        made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(made, flags, 0o600), "wb") as file:
            file.write(text.encode())
        os.replace(made, path)

    def _path(self, lab: str, student: str) -> Path:
        name = "".join(
            c if c.isalnum() and c.isascii() or c in "-_." else f"%{ord(c):x}."
            for c in student
        )
        if len(name) > 200:  # more than a file's name may have
            raw = student.encode("utf-8", "surrogateescape")
            name = name[:100] + hashlib.sha256(raw).hexdigest()
        return self.folder / "records" / lab / f"{name}.json"
