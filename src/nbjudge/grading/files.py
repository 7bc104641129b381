"""Find notebooks in the folders and zip archives that were handed in, and hash them.

No library is made for folders that strangers have filled: this module follows no link,
waits for no pipe, unpacks nothing to disk, and stops at fixed sizes. To parse a
notebook, see `notebooks`.
"""

import contextlib
import hashlib
import io
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

NOTEBOOK_BYTES = 20 << 20
# For all notebooks of one submission together.
TOTAL_BYTES = 60 << 20
# The most files that are examined in a folder or in an archive.
ENTRIES = 1000
DEPTH = 8
# Browsers and chat programs add the extension of what they take the file for.
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)
# Files that nbgrader adds to what a student hands in.
TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"
NOT_OF_THE_STUDENT = {TIMESTAMP, SECRET}
HIDDEN = (".", "__MACOSX")


class Unreadable(Exception):
    """A person has to look at the submission; the message says why."""


def fingerprint(folder: Path) -> str:
    """Hash what a folder holds; the hash changes if something else is handed in."""
    total = hashlib.sha256()
    if not _is_link(folder) and os.access(folder, os.R_OK):
        # of hidden files, only the names are read, so that they make a difference
        total.update(os.fsencode("/".join(sorted(os.listdir(folder)))))
    for path, status in _entries(folder):
        total.update(os.fsencode(path.relative_to(folder)) + b"\0")
        if stat.S_ISLNK(status.st_mode):
            total.update(os.fsencode(os.readlink(path)))
        elif stat.S_ISREG(status.st_mode):
            content = content_of(path)
            if isinstance(content, Unreadable):
                content = f"{status.st_size} {status.st_mtime_ns}".encode()
            total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def notebooks(
    folder: Path, flags: list[str]
) -> Iterator[tuple[str, bytes | Unreadable]]:
    """Yield notebooks: those at the top first, then the newest.

    Archives are opened only if there is no notebook outside them.

    Args:
        folder: what was handed in.
        flags: gets descriptions of what is odd.

    Yields:
        The name, and the content or the reason why there is none.

    Raises:
        Unreadable: it is not a folder, or it cannot be read, or it holds something but
            no notebook.
    """
    if _is_link(folder) or not folder.is_dir():
        raise Unreadable("the submission is a link or a file, not a folder")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Unreadable("the folder cannot be read")
    found: list[tuple[int, int, str]] = []
    archives: list[tuple[int, int, str]] = []
    for path, status in _entries(folder):
        name = str(path.relative_to(folder))
        place = (len(path.parts), -status.st_mtime_ns, name)
        if NOTEBOOK.search(name):
            found.append(place)
        elif stat.S_ISLNK(status.st_mode):
            flags.append(f"a link was not followed: {printable(name)}")
        elif not stat.S_ISREG(status.st_mode):
            flags.append(f"not a file: {printable(name)}")
        elif path.suffix.lower() == ".zip":
            archives.append(place)
    if found:
        beside = "an archive beside the notebook was not opened"
        flags += [f"{beside}: {printable(name)}" for _, _, name in archives]
    total, seen = 0, False
    for _, _, name in sorted(found or archives):
        content = content_of(folder / name)
        total += len(content) if isinstance(content, bytes) else 0
        if total > TOTAL_BYTES:
            much = f"more than {TOTAL_BYTES >> 20} MB"
            flags.append(f"{much}; not looked at: {printable(name)}")
        elif isinstance(content, bytes) and not found:
            for each in _unzip(name, content, flags):
                seen = True
                yield each
        else:
            seen = True
            yield name, content
    held = sorted({*os.listdir(folder)} - NOT_OF_THE_STUDENT)
    if held and not seen:
        names = ", ".join(map(printable, held[:5]))
        raise Unreadable(f"no notebook is among what was handed in: {names}")


def content_of(path: Path) -> bytes | Unreadable:
    """Read a file; return the reason if it is not a file, or too large."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink():
        return Unreadable("it is a link, which is not followed")
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Unreadable("not a file")
            content = file.read(NOTEBOOK_BYTES + 1)
    except OSError as error:
        return Unreadable(f"it cannot be read ({error.strerror})")
    large = len(content) > NOTEBOOK_BYTES
    return Unreadable(f"larger than {NOTEBOOK_BYTES >> 20} MB") if large else content


def printable(name: str) -> str:
    """Make the name of a file safe to print, and at most 80 characters long.

    Backslashes are replaced, because they begin commands in formulas on the pages.
    """
    text = name.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)[:80]


def _is_link(folder: Path) -> bool:
    """Return whether a submission, or the folder of its student, is a link."""
    return folder.is_symlink() or folder.parent.is_symlink()


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files below a folder, except hidden ones.

    A folder is listed only if its name is that of a notebook.
    """
    number = 0
    for root, folders, files in os.walk(folder) if not _is_link(folder) else ():
        deep = len(Path(root).relative_to(folder).parts) > DEPTH
        folders[:] = [n for n in folders if not deep and not n.startswith(HIDDEN)]
        for name in sorted([*folders, *(n for n in files if not n.startswith("."))]):
            number += 1
            if number > ENTRIES:
                return
            with contextlib.suppress(OSError):
                path, status = Path(root, name), Path(root, name).lstat()
                if not stat.S_ISDIR(status.st_mode) or NOTEBOOK.search(name):
                    yield path, status


def _unzip(
    name: str, content: bytes, flags: list[str]
) -> Iterator[tuple[str, bytes | Unreadable]]:
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist()[:ENTRIES]:
                name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
                safe = name.isprintable() and not name.startswith("/")
                safe = safe and ".." not in Path(name).parts and "\\" not in name
                if safe and any(part.startswith(HIDDEN) for part in Path(name).parts):
                    continue
                if not safe or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    flags.append(f"entry of the archive refused: {printable(name)}")
                elif entry.file_size > min(NOTEBOOK_BYTES, TOTAL_BYTES - total):
                    if NOTEBOOK.search(name):
                        large = "entry of the archive is too large"
                        flags.append(f"{large}: {printable(name)}")
                elif NOTEBOOK.search(name) and not entry.is_dir():
                    total += entry.file_size
                    # read no more than the announced size
                    with archive.open(entry) as file:
                        yield name, file.read(entry.file_size)
    except Exception as error:  # zipfile and its decompressors raise many kinds
        yield name, Unreadable(f"the archive cannot be read ({type(error).__name__})")
