"""JupyterLab as a student and an instructor see it: the real server, a real browser.

What each window showed last is in _build/screenshots/.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from browser import needs_chromium, pages
from playwright.sync_api import expect

from nbjudge.grading.sandbox.bubblewrap import Limits
from nbjudge.grading.sandbox.proof import prove

ROOT = Path(__file__).parents[1]
LAB = "lab05_self_attention"
# Nothing here takes as long; a test that waits for it says what it waited for.
PATIENCE = 400
CELLS = 34
SIZE = {"viewport": {"width": 1600, "height": 1000}}
FORMGRADER = "iframe[src*=formgrader]"
# What the student gets wrong, and where the feedback sends its reader.
RIGHT = "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"
WRONG = "x.reshape(x.size(0), num_heads, x.size(1), -1)"
MISTAKE = "12_many_heads.html"


def solutions():
    """Read what a student has to type: number of the cell -> text."""
    text = (ROOT / "solutions" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    marks = re.compile(r"^ *### (BEGIN|END) SOLUTION\n?", re.MULTILINE)
    return {
        number: marks.sub("", "".join(cell["source"])).replace(RIGHT, WRONG)
        for number, cell in enumerate(cells)
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }


@contextlib.contextmanager
def jupyter(root, exchange, **environment):
    """Run JupyterLab as somebody whose files are below `root`; give its address."""
    home = root.parent / f"home of {root.name}"
    settings = home / ".jupyter"
    settings.mkdir(parents=True)
    (settings / "nbgrader_config.json").write_text(
        json.dumps({"Exchange": {"root": str(exchange)}})
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token="]
    command += ["--ServerApp.port_retries=0", "--ServerApp.password="]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
    own = {"HOME": str(home), "PYTHONWARNINGS": "", **environment}
    address = f"http://127.0.0.1:{port}"
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=root, env={**inherited, **own}, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + PATIENCE
        while True:
            assert server.poll() is None, (home / "log").read_text()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api")
                break
            assert time.monotonic() < until, (home / "log").read_text()
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def run_command(page, name):
    """Choose a command of the menu Nbgrader."""
    page.locator("#jp-menu-panel .lm-MenuBar-item", has_text="Nbgrader").click()
    page.locator(f'#jp-mainmenu-nbgrader li[data-command="{name}"]').click()


def write(page, cell, text):
    """Type into a cell, in place of what is there."""
    if cell.locator(".jp-MarkdownOutput").is_visible():
        cell.locator(".jp-MarkdownOutput").dblclick()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def assignment(page, kind):
    """Find the one row of the assignment list's part (released, fetched, submitted)."""
    rows = page.locator(f"#{kind}_assignments_list > .list_item")
    expect(rows).to_have_count(1)
    return rows


def press(row, column):
    """Press a button of Formgrader's table, and wait until it says that it is done."""
    row.locator(f"td.{column} a").click()
    said = row.page.frame_locator(FORMGRADER).locator(".modal.in")
    said.wait_for()
    assert "Success" in said.locator(".modal-title").inner_text(), said.inner_text()
    said.get_by_role("button", name="OK").click()
    said.wait_for(state="detached")


@pytest.fixture
def places(tmp_path):
    """A course's folder, a student's with the book beside it, and the exchange."""
    course, student, exchange = (
        tmp_path / name for name in ("course", "student", "exchange")
    )
    shutil.copytree(ROOT / "solutions" / LAB, course / "solutions" / LAB)
    shutil.copy(ROOT / "nbgrader_config.py", course)
    if prove(Limits()):
        with (course / "nbgrader_config.py").open("a") as config:
            config.write("c.Autograde.trust_submissions = True\n")
    for place in (course, student):
        site = place / "_build" / "html"
        (site / "book").mkdir(parents=True)
        (site / "index.html").write_text("")
        (site / "style.css").write_text("h1 { color: rgb(1, 2, 3) }")
        (site / "book" / MISTAKE).write_text(
            '<link rel="stylesheet" href="../style.css"><h1>Many heads</h1>'
        )
    exchange.mkdir()
    exchange.chmod(0o777)
    return course, student, exchange


@pytest.fixture
def windows(places):
    """The student's window and the instructor's."""
    course, student, exchange = places
    with (
        jupyter(course, exchange) as teaching,
        jupyter(student, exchange) as learning,
        pages(**SIZE) as first,
    ):
        # of the same host, but with cookies of their own
        contexts = first, first.browser.new_context(**SIZE)
        shown = {}
        for name, address, context in zip(
            ("student", "instructor"), (learning, teaching), contexts
        ):
            context.set_default_timeout(PATIENCE * 1000)
            shown[name] = context.new_page()
            shown[name].goto(f"{address}/lab")
        expect.set_options(timeout=PATIENCE * 1000)
        try:
            yield shown["student"], shown["instructor"]
        finally:
            expect.set_options(timeout=5000)
            for name, page in shown.items():
                page.screenshot(path=ROOT / "_build" / "screenshots" / f"{name}.png")


@needs_chromium
@pytest.mark.plain
def test_a_lab_goes_all_the_way_through_jupyterlab(windows, places):
    student, instructor = windows
    course, _, _ = places

    # the instructor hands out
    run_command(instructor, "nbgrader:open-formgrader")
    formgrader = instructor.frame_locator(FORMGRADER)
    row = formgrader.locator(f"#main-table tr:has(a:text-is('{LAB}'))")
    press(row, "assign")
    press(row, "release")

    # nobody greets the student, and the tools of authors are not there
    run_command(student, "nbgrader:open-assignment-list")
    assignment(student, "released").get_by_role("button", name="Fetch").click()
    assert student.locator(".Toastify__toast").count() == 0
    assert student.locator("[data-id*=create]").count() == 0

    # the student works
    fetched = assignment(student, "fetched")
    fetched.locator("a.assignment-notebooks-link").click()
    fetched.locator(".nested_list_item .item_name a").click()
    cells = student.locator(".jp-Notebook .jp-Cell")
    answers = solutions()
    expect(cells).to_have_count(CELLS)
    for number, answer in answers.items():
        write(student, cells.nth(number), answer)
    student.get_by_role("button", name="Validate").click()
    said = student.locator(".jp-Dialog")
    expect(said).to_contain_text("split_heads: 0 of 3 points")
    expect(said).to_contain_text("This looks like: ")
    assert "self_attention: " not in said.inner_text()
    said.get_by_role("button", name="OK").click()

    # and hands in
    run_command(student, "nbgrader:open-assignment-list")
    assignment(student, "fetched").get_by_role("button", name="Submit").click()
    expect(assignment(student, "submitted")).to_contain_text(LAB)

    # the instructor collects, and the judge grades
    press(row, "collect")
    row.locator("td.num-submissions a").click()
    submission = formgrader.locator("#main-table tr:has(td.student-id)")
    press(submission, "autograde")
    expect(submission.locator("td.status")).to_have_text("needs manual grading")

    # a person marks the prose
    submission.locator("td.student-name a").click()
    formgrader.locator(f"#main-table a:text-is('{LAB}')").click()
    # what is typed before the page has the marks is lost; then it writes placeholders
    formgrader.locator("#order_extra_credit[placeholder]").wait_for()
    formgrader.locator("#order-comment[placeholder]").wait_for()
    score = formgrader.locator("input#order.score")
    with instructor.expect_response(re.compile("/formgrader/api/grade/")) as saved:
        score.fill("3")
        score.press("Tab")
    assert saved.value.ok
    comment = formgrader.locator("textarea#order-comment")
    with instructor.expect_response(re.compile("/formgrader/api/comment/")) as saved:
        comment.fill("Which axis?")
        comment.press("Tab")
    assert saved.value.ok

    # and hands back
    instructor.locator(FORMGRADER).evaluate("frame => frame.src = frame.src")
    press(row, "generate-feedback")
    press(row, "release-feedback")

    # the student reads, and follows a link into the book
    student.locator("#refresh_assignments_list").click()
    submitted = assignment(student, "submitted")
    submitted.get_by_role("button", name="Fetch Feedback").click()
    submitted.locator("a", has_text="view feedback").click()
    student.locator(".jp-DirListing-item", has_text=f"{LAB}.html").dblclick()
    feedback = student.frame_locator(".jp-HTMLViewer iframe")
    page = feedback.locator("body")
    expect(page).to_contain_text("split_heads: 0 of 3 points")
    expect(page).to_contain_text("multi_head_attention: 6 of 6 points")
    expect(page).to_contain_text("Which axis?")
    expect(page).to_contain_text("(Score: 3.0 / 4.0)")
    feedback.locator(f"a[href*='{MISTAKE}']").first.click()
    title = feedback.get_by_role("heading", name="Many heads")
    expect(title).to_have_css("color", "rgb(1, 2, 3)")
