"""Read Moodle's and Canvas's tables and file names, and find the student of each file.

Moodle names each student's folder or file NAME_NUMBER_assignsubmission_file_, with the
group in front of the name for group work; the number is that of the grading worksheet.
(mod/assign/locallib.php, mod/assign/feedback/offline/importgradeslib.php)

Canvas puts NAME_USER_ATTACHMENT_ or NAME_LATE_USER_ATTACHMENT_ before a file's name;
the user is the column ID of its gradebook. (lib/content_zipper.rb)
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nbjudge.grading.commands import GradingError

MOODLE = re.compile(r"(?P<name>.+?)_(?P<user>\d+)_assignsubmission_file_?(?P<file>.*)")
CANVAS = re.compile(
    r"(?P<name>.*?)_(?:LATE_)?(?P<user>\d+)_(?P<attachment>\d+)_(?P<file>.+)"
)
# Names of the columns that identify a person, the best first.
COLUMNS = {
    "id": (
        *("id_number", "username", "sis_login_id", "login_id", "student_id", "id"),
        *("id-nummer", "anmeldename", "matrikelnummer"),
    ),
    "first_name": ("first_name", "vorname"),
    "last_name": ("last_name", "surname", "nachname"),
    "name": ("full_name", "student", "name", "vollständiger_name"),
    "email": ("email_address", "email", "e-mail-adresse"),
}


class Table(NamedTuple):
    """A table that a platform or a spreadsheet has written.

    Attributes:
        head: the names of the columns.
        rows: for each row, its line number in the file and its cells.
        odd: messages about lines that could not be read.
    """

    head: list[str]
    rows: list[tuple[int, list[str]]]
    odd: list[str]


class Person(NamedTuple):
    """A person on the roster.

    Attributes:
        id: the id in nbgrader.
        number: the number in Canvas, if it is known.
    """

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    number: str = ""


def read_table(path: Path) -> Table:
    """Read a table with commas, semicolons or tabs, with or without a byte order mark.

    Args:
        path: path of a CSV file in UTF-8, UTF-16 or, as old spreadsheets write it, in
            Windows-1252.

    Raises:
        GradingError: the file does not exist, or it is not such a table.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise GradingError(f"{path}: {error.strerror}") from error
    text, odd = _decoded(content, path)
    if "\0" in text or not text.strip():
        raise GradingError(f"{path} is no table; save it as CSV (comma separated)")
    first = text.splitlines()[0]
    heads = {each: next(csv.reader([first], delimiter=each)) for each in ",;\t"}
    delimiter = max(heads, key=lambda each: len(heads[each]))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        head, *rows = [(reader.line_num, row) for row in reader if any(row)]
    except csv.Error as error:
        raise GradingError(f"{path}, line {reader.line_num}: {error}") from error
    names = [name.strip() for name in head[1]]
    fitting = [(line, row) for line, row in rows if len(row) == len(names)]
    odd += [
        f"{path}, line {line}: {len(row)} cells, but the head has {len(names)}"
        for line, row in rows
        if len(row) != len(names)
    ]
    return Table(names, fitting, odd)


def _decoded(content: bytes, path: Path) -> tuple[str, list[str]]:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace"), []
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        said = "is not in UTF-8, and was read as Windows-1252: look at its names"
        return content.decode("cp1252", "replace"), [f"{path} {said}"]


def people(path: Path) -> tuple[list[Person], list[str]]:
    """Read a roster: Moodle's participants or grading worksheet, Canvas's gradebook.

    A table with nbgrader's own column names is read, too.

    Args:
        path: path of the table.

    Returns:
        The people in it, and messages about what could not be read.

    Raises:
        GradingError: there is no table, or no column identifies people.
    """
    head, rows, odd = read_table(path)
    at = _columns(head)
    if "id" in at and all(" " in row[at["id"]].strip() for _, row in rows):
        del at["id"]  # "Participant 17", which changes with every worksheet
    if "id" not in at and "email" not in at:
        raise GradingError(
            f"{path} has no column with an id; it has: {', '.join(head)}. Name one of"
            f" them id"
        )
    canvas = is_canvas(head)
    found: dict[str, Person] = {}
    for line, row in rows:
        cells = {what: row[number].strip() for what, number in at.items()}
        if canvas and _is_no_student(cells):
            continue
        id = cells.get("id") or cells.get("email", "")
        first, last = _names(cells)
        number = row[head.index("ID")].strip() if canvas else ""
        if not id:
            odd.append(f"{path}, line {line}: no id: {', '.join(filter(None, row))}")
        elif id in found:
            odd.append(f"{path}, line {line}: {id} is there twice; the first counts")
        else:
            found[id] = Person(id, first, last, cells.get("email", ""), number)
    return list(found.values()), odd


def _columns(head: Sequence[str]) -> dict[str, int]:
    """Find the columns that identify a person."""
    names = ["_".join(name.casefold().split()) for name in head]
    return {
        what: names.index(known)
        for what, candidates in COLUMNS.items()
        if (known := next((name for name in candidates if name in names), ""))
    }


def _names(cells: Mapping[str, str]) -> tuple[str, str]:
    """Return first and last name; Canvas writes "last, first", Moodle "first last"."""
    if "last_name" in cells:
        return cells.get("first_name", ""), cells["last_name"]
    last, comma, first = cells.get("name", "").partition(",")
    if not comma:
        first, _, last = last.rpartition(" ")
    return first.strip(), last.strip()


def is_canvas(head: Iterable[str]) -> bool:
    """Return whether a table is Canvas's gradebook."""
    return {"Student", "ID", "Section"} <= {*head}


def _is_no_student(cells: Mapping[str, str]) -> bool:
    """Return whether a row of Canvas's gradebook is for points or the test student."""
    name = cells.get("name", "")
    return name in ("Points Possible", "Student, Test") or not any(cells.values())


def plain(name: str) -> str:
    """Make names comparable: ignore case, and keep only letters and digits.

    A name in UTF-8 that was decoded with the encoding of old archives is repaired.
    """
    try:
        name = name.encode("cp437").decode("utf-8")
    except UnicodeError:
        pass
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in folded if c.isalnum())


class Named(NamedTuple):
    """A file in a platform's archive.

    Attributes:
        name: the student's name, or group and student, as the archive has it.
        user: the number after the name.
        file: the student's name for the file.
        order: of two files with the same name, the later one has the larger number.
    """

    name: str
    user: str
    file: str
    order: int
    canvas: bool


def named(parts: Sequence[str], lab: str) -> Named | None:
    """Parse the path of a file in an archive; None if neither platform has written it.

    Args:
        parts: parts of the path, from the archive's folder on.
        lab: name of the lab.
    """
    for at, part in enumerate(parts):
        if found := MOODLE.fullmatch(part):
            own = [found["file"], *parts[at + 1 :]]
            return Named(
                found["name"], found["user"], "/".join(filter(None, own)), 0, False
            )
        if found := CANVAS.fullmatch(part):
            # Canvas numbers the files of later attempts: lab-1.ipynb
            file = re.sub(rf"({re.escape(lab)})-\d+\.", r"\1.", found["file"])
            order = int(found["attachment"])
            return Named(found["name"], found["user"], file, order, True)
    return None


class Roster:
    """The people of a course, to find the student whom an archive means.

    Args:
        people: the people of the course.
        worksheet: Moodle's number -> a student's id or email.
    """

    def __init__(self, people: Iterable[Person], worksheet: Mapping[str, str] = {}):
        self.people = list(people)
        self.worksheet = worksheet

    def student(self, its: Named) -> str:
        """Return the id of the student.

        Raises:
            GradingError: there is no such student, or more than one.
        """
        said = self.worksheet.get(its.user, "") if not its.canvas else ""
        keys = {said.casefold()} - {""}
        found = [
            p.id for p in self.people if keys & {p.id.casefold(), p.email.casefold()}
        ]
        if its.canvas:
            found = [p.id for p in self.people if p.number == its.user]
        found = found or self.called(its.name)
        if len(found) == 1:
            return found[0]
        who = f"{its.name} ({its.user})"
        if found:
            raise GradingError(f"{who} may be any of {', '.join(found)}")
        raise GradingError(f"{who} is not in the roster")

    def called(self, name: str) -> list[str]:
        """Find the people with a name; a group's name and a dash may precede it."""
        parts = name.split("-")
        for at in range(len(parts)):
            called = plain("-".join(parts[at:]))
            found = [
                p.id
                for p in self.people
                if called
                in (
                    plain(p.first_name + p.last_name),
                    plain(p.last_name + p.first_name),
                )
            ]
            if found and called:
                return found
        return []


def worksheet(folder: Path) -> tuple[Path, Table] | None:
    """Find the platform's own table of a lab: the only CSV file in a folder.

    Raises:
        GradingError: there are several, or the file cannot be read.
    """
    paths = sorted(folder.glob("*.csv"))
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise GradingError(f"{folder} has several tables; leave one of {names}")
    return (paths[0], read_table(paths[0])) if paths else None


def moodle_number(cell: str) -> str:
    """Extract the number from the first cell of a row of a grading worksheet."""
    return cell.rpartition(" ")[2]


def students_of(table: Table) -> dict[str, str]:
    """Read a grading worksheet: Moodle's number -> a student's id or email.

    The first column is the identifier, whatever the language.
    """
    at = _columns(["", *table.head[1:]])
    column = at.get("id", at.get("email"))
    if column is None or is_canvas(table.head):
        return {}
    return {moodle_number(row[0]): row[column].strip() for _, row in table.rows}
