"""Without a hub: Moodle's and Canvas's tables and archives, with their mess of names."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.exportapp import ExportApp
from nbgrader.coursedir import CourseDirectory

from nbjudge.grading.commands import GradingError
from nbjudge.grading.lms import Upload, people_of
from nbjudge.grading.platforms import (
    Person,
    Roster,
    named,
    people,
    read_table,
    students_of,
    worksheet,
)

# nbgrader's own way with its database
pytestmark = pytest.mark.filterwarnings("ignore:Object of type .* not in session")
ROOT = Path(__file__).parents[1]
LAB = "lab05_self_attention"
PEOPLE = [
    Person("weiss", "Ada", "Weiß", "ada@uni.de", "11"),
    Person("oez", "Gül-Anne", "Öztürk", "guel@uni.de", "12"),
    Person("m1", "Max", "Meier", "max1@uni.de", "13"),
    Person("m2", "Max", "Meier", "max2@uni.de", "14"),
]
WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade)
Participant 901,Ada Weiß,ada@uni.de,Submitted,,27.00,-
Participant 902,Gül-Anne Öztürk,guel@uni.de,Submitted,5.00,27.00,-
Participant 903,Max Meier,MAX1@uni.de,Submitted,,27.00,-
Participant 904,Max Meier,max2@uni.de,No submission,,27.00,-
"""
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab05 Self-Attention (77),Essay (78),Final Score
    Points Possible,,,,,27.0,10.0,(read only)
"Weiß, Ada",11,u11,weiss,A,,9.0,50
"Öztürk, Gül-Anne",12,u12,oez,A,4.0,,50
"Student, Test",99,,,A,,,
"""


def table(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("mark", ",;\t")
def test_a_roster_is_read_as_spreadsheets_write_it(tmp_path, encoding, mark):
    rows = [
        ["First name", "Last name", "ID number", "Email address", "Groups"],
        ["Ada", "Weiß", "weiss", "ada@uni.de", f'a {mark} "b"'],
    ]
    written = io.StringIO()
    csv.writer(written, delimiter=mark).writerows(rows)
    found, odd = people(table(tmp_path / "r.csv", written.getvalue(), encoding))
    assert found == [Person("weiss", "Ada", "Weiß", "ada@uni.de")]
    assert len(odd) == (encoding == "cp1252")


def test_every_row_that_cannot_be_read_is_one_line(tmp_path):
    text = "id;first_name;last_name\na;A;B\n;C;D\na;E;F\nb;G\n\nc;H;I\n"
    found, odd = people(table(tmp_path / "r.csv", text))
    assert [person.id for person in found] == ["a", "c"]
    assert [line.partition("r.csv, ")[2] for line in sorted(odd)] == [
        "line 3: no id: C, D",
        "line 4: a is there twice; the first counts",
        "line 5: 2 cells, but the head has 3",
    ]


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "first_name,mood\nAda,good\n",
            "no column with an id; it has: first_name, mood",
        ),
        ("", "is no table"),
        ("a\0b,c\n", "is no table"),
    ],
)
def test_what_is_no_roster_is_one_line(tmp_path, text, said):
    with pytest.raises(GradingError, match=re.escape(said)):
        people(table(tmp_path / "r.csv", text))
    with pytest.raises(GradingError, match="No such file"):
        people(tmp_path / "none.csv")


def test_canvas_gradebook_and_moodles_worksheet_are_rosters(tmp_path):
    found, odd = people(table(tmp_path / "c.csv", CANVAS))
    assert found == [
        Person("weiss", "Ada", "Weiß", number="11"),
        Person("oez", "Gül-Anne", "Öztürk", number="12"),
    ]
    assert not odd
    found, _ = people(table(tmp_path / "m.csv", WORKSHEET))
    assert found[0] == Person("ada@uni.de", "Ada", "Weiß", "ada@uni.de")


def test_of_several_columns_the_one_that_names_a_person_best_counts(tmp_path):
    text = "Matrikelnummer,Anmeldename,ID-Nummer,Vorname,Nachname\n1,ada,7,Ada,Weiß\n"
    for id in ("7", "ada", "1"):
        found, _ = people(table(tmp_path / "m.csv", text))
        assert found == [Person(id, "Ada", "Weiß")]
        text = text.replace({"7": "ID-Nummer", "ada": "Anmeldename", "1": "-"}[id], "x")


FOLDER = "Ada Weiß_901_assignsubmission_file_"


@pytest.mark.parametrize(
    "path, name, user, file",
    [
        (f"all/{FOLDER}/{LAB}.ipynb", "Ada Weiß", "901", f"{LAB}.ipynb"),
        (f"all/{FOLDER}/my work/a.ipynb", "Ada Weiß", "901", "my work/a.ipynb"),
        (f"all/{FOLDER[:-1]}/a.ipynb", "Ada Weiß", "901", "a.ipynb"),
        (f"all/{FOLDER}a_1.ipynb", "Ada Weiß", "901", "a_1.ipynb"),
        (f"all/G 1-{FOLDER}/a.ipynb", "G 1-Ada Weiß", "901", "a.ipynb"),
        (f"all/weißada_11_501_{LAB}-2.ipynb", "weißada", "11", f"{LAB}.ipynb"),
        ("all/weißada_LATE_11_501_my_2_3_a.ipynb", "weißada", "11", "my_2_3_a.ipynb"),
    ],
)
def test_names_in_archives_are_read(path, name, user, file):
    found = named(path.split("/"), LAB)
    assert found and (found.name, found.user, found.file) == (name, user, file)


def test_other_names_belong_to_nobody():
    assert named(["all", "solution.ipynb"], LAB) is None
    assert named(["all", "anon_x7_501_a.ipynb"], LAB) is None


def whose(path, worksheet=None):
    return Roster(PEOPLE, worksheet or {}).student(named([path], LAB))


def test_students_are_found_by_number_and_by_name(tmp_path):
    numbers = students_of(read_table(table(tmp_path / "w.csv", WORKSHEET)))
    assert numbers["903"] == "MAX1@uni.de"
    end = "_assignsubmission_file_a.ipynb"
    assert whose(f"Max Meier_903{end}", numbers) == "m1"
    assert whose(f"Ada Weiß_1{end}") == "weiss"
    assert whose(f"{unicodedata.normalize('NFD', 'Gül-Anne Öztürk')}_1{end}") == "oez"
    assert whose(f"Group-A-Gül-Anne Öztürk_1{end}") == "oez"
    mojibake = "Ada Weiß".encode().decode("cp437")
    assert whose(f"{mojibake}_1{end}") == "weiss"
    assert whose("öztürkgülanne_12_501_a.ipynb") == "oez"
    with pytest.raises(GradingError, match="may be any of m1, m2"):
        whose(f"Max Meier_1{end}")
    with pytest.raises(GradingError, match=r"Eve \(1\) is not in the roster"):
        whose(f"Eve_1{end}")


def test_two_tables_of_one_lab_are_refused(tmp_path):
    assert worksheet(tmp_path) is None
    table(tmp_path / "a.csv", WORKSHEET)
    table(tmp_path / "b.csv", WORKSHEET)
    with pytest.raises(GradingError, match="leave one of a.csv, b.csv"):
        worksheet(tmp_path)


@pytest.fixture(scope="module")
def gradebook(tmp_path_factory):
    """A gradebook in which Ada has 20 points, Gül's prose is not marked, and the first
    Max has no submission."""
    url = f"sqlite:///{tmp_path_factory.mktemp('gradebook')}/g.db"
    with pytest.MonkeyPatch.context() as patch:
        # nbgrader calls alembic by name
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        found = Gradebook(url)
    with found:
        for person in PEOPLE[:3]:
            found.add_student(
                person.id,
                first_name=person.first_name,
                last_name=person.last_name,
                email=person.email,
                lms_user_id=person.number,
            )
        found.add_assignment(LAB)
        found.add_notebook(LAB, LAB)
        found.add_grade_cell("q", LAB, LAB, max_score=27, cell_type="code")
        for student, points in (("weiss", 20.0), ("oez", None)):
            found.add_submission(LAB, student)
            grade = found.find_grade("q", LAB, LAB, student)
            grade.auto_score, grade.needs_manual_grade = points, points is None
        found.db.commit()
        yield found


def test_the_roster_is_the_gradebooks(gradebook):
    found = people_of(gradebook)
    assert sorted(found) == sorted(PEOPLE[:3])


def filled(gradebook, folder, text, caplog):
    """Fill a table; give its rows and what was said."""
    table(folder / "downloaded" / LAB / "table.csv", text)

    app = ExportApp()
    app.coursedir = CourseDirectory(root=str(folder))
    app.log.addHandler(caplog.handler)
    try:
        Upload(parent=app).export(gradebook)
    finally:
        app.log.removeHandler(caplog.handler)
    to = folder / "gradebook" / "upload" / f"{LAB}.csv"
    with to.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file)), caplog.text


def test_moodle_gets_its_worksheet_back(gradebook, tmp_path, caplog):
    rows, said = filled(gradebook, tmp_path, "\ufeff" + WORKSHEET, caplog)
    before = list(csv.reader(io.StringIO(WORKSHEET)))
    before[1][4] = "20"
    assert rows == before
    assert "no final score, left as it was: m1, oez" in said


def test_moodle_gets_the_feedback_of_final_scores_in_folders_that_it_knows(
    gradebook, tmp_path, caplog
):
    worksheet = WORKSHEET.replace("Ada Weiß,", "Ada_Weiß/Li,")
    _, said = filled(gradebook, tmp_path, worksheet, caplog)
    assert f"to pack for weiss; run nbgrader generate_feedback {LAB}" in said
    for student in ("weiss", "oez"):
        page = tmp_path / "feedback" / student / LAB / f"{LAB}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"to {student}")
    _, said = filled(gradebook, tmp_path, worksheet, caplog)
    assert f"{LAB}_feedback.zip: 1\n" in said
    with zipfile.ZipFile(
        tmp_path / "gradebook" / "upload" / f"{LAB}_feedback.zip"
    ) as archive:
        (name,) = archive.namelist()
        assert archive.read(name) == b"to weiss"
    folder, page = name.split("/")
    # As Moodle's importer divides it: name, number, kind and name of the plugin.
    assert folder.split("_") == ["Ada Weiß Li", "901", "assignfeedback", "file"]
    assert page == f"{LAB}.html"


def test_canvas_gets_the_one_column(gradebook, tmp_path, caplog):
    rows, _ = filled(gradebook, tmp_path, CANVAS, caplog)
    assert rows[0][-1] == "Lab05 Self-Attention (77)" and len(rows[0]) == 6
    grades = {row[1]: row[-1] for row in rows}
    assert (grades["11"], grades["12"]) == ("20", "4.0")


@pytest.mark.parametrize(
    "text, said",
    [
        (
            WORKSHEET.replace("27.00", "100"),
            "counts up to 100 points, the lab up to 27",
        ),
        (CANVAS.replace("27.0", "10"), "counts up to 10 points, the lab up to 27"),
        (WORKSHEET.replace("Grade,Max", "Calif,Max"), "has no column Grade"),
        (CANVAS.replace("Lab05", "Lab06"), f"needs one column for {LAB}"),
    ],
)
def test_a_table_that_means_something_else_is_refused(
    gradebook, tmp_path, caplog, text, said
):
    with pytest.raises(SystemExit):
        filled(gradebook, tmp_path, text, caplog)
    assert said in caplog.text
    assert not (tmp_path / "gradebook").exists()


def nbgrader(course, *arguments):
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_an_archive_becomes_submissions(tmp_path):
    """With nbgrader's own command, from a roster of Moodle's."""
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(ROOT / "labs" / LAB, tmp_path / "labs" / LAB)
    rows = [f"{p.id};{p.first_name};{p.last_name};{p.email}" for p in PEOPLE]
    text = "\n".join(["\ufeffUsername;First name;Last name;Email", *rows, ";Eve;;"])
    table(tmp_path / "roster.csv", text)
    code, said = nbgrader(tmp_path, "nbjudge.grading.roster", "roster.csv")
    assert code == 1 and "4 students are in the gradebook now" in said
    assert "roster.csv, line 6: no id: Eve" in said and said.count("ERROR") == 1

    folder = tmp_path / "downloaded" / LAB
    table(folder / "worksheet.csv", WORKSHEET)
    (folder / "archive").mkdir()
    work = io.BytesIO()
    with zipfile.ZipFile(work, "w") as archive:
        archive.writestr("in a zip.ipynb", "{}")
    for name, files in {
        "2026-11-01.zip": {f"{FOLDER}/{LAB}.ipynb": b"first"},
        "2026-11-08.zip": {
            f"{FOLDER}/{LAB}.ipynb": b"second",
            f"{FOLDER}/notes.pdf": b"%PDF",
            f"Group-1-Gül-Anne Öztürk_902_assignsubmission_file_/{LAB}_FINAL (1).ipynb": (
                b"renamed"
            ),
            "Max Meier_903_assignsubmission_file_work.zip": work.getvalue(),
            "Eve_999_assignsubmission_file_/a.ipynb": b"a guest",
            "__MACOSX/._a.ipynb": b"",
        },
    }.items():
        with zipfile.ZipFile(folder / "archive" / name, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
    code, said = nbgrader(tmp_path, "nbgrader", "zip_collect", LAB)
    assert code == 0, said
    submitted = tmp_path / "gradebook" / "submitted"
    found = {
        str(path.relative_to(submitted)): path.read_bytes()
        for path in submitted.rglob("*")
        if path.is_file()
    }
    assert found == {
        f"weiss/{LAB}/{LAB}.ipynb": b"second",
        f"weiss/{LAB}/notes.pdf": b"%PDF",
        f"oez/{LAB}/{LAB}_FINAL (1).ipynb": b"renamed",
        f"m1/{LAB}/work.zip": work.getvalue(),
    }
    assert "Eve (999) is not in the roster" in said
    assert "weiss: left out, there is a later one: " in said and "2026-11-01" in said
    assert json.dumps(said).count("ERROR") == 1
