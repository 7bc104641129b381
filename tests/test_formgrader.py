"""Formgrader leads to the instructor's pages, on the real server."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Serve a course whose pages are there; give the address."""
    course = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    for path in ("gradebook/reports/index.html", "_build/html/book/a.html"):
        (course / path).parent.mkdir(parents=True)
        (course / path).write_text(f"this is {path}", encoding="utf-8")
    (course / "gradebook" / "secret").write_text("the secret", encoding="utf-8")
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--port=0"]
    root = ["--allow-root", "--IdentityProvider.token=t"]
    place = {name: str(course / ".jupyter") for name in ("JUPYTER_CONFIG_DIR",)}
    runtime = {"JUPYTER_RUNTIME_DIR": str(course / ".runtime"), "PYTHONWARNINGS": ""}
    with subprocess.Popen(
        [*command, *root],
        cwd=course,
        env={**os.environ, **place, **runtime},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if found := re.search(r"(http://\S+?:\d+)/\S*\?token=", line):
                break
        while True:  # it says so before it listens
            with contextlib.suppress(urllib.error.URLError):
                fetched(f"{found[1]}/api")
                break
            assert process.poll() is None
            time.sleep(0.1)
        yield found[1]
        process.terminate()
        process.communicate()


def fetched(address, token="t"):
    request = urllib.request.Request(address)
    if token:
        request.add_header("Authorization", f"token {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.url, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, address, ""


def test_formgrader_links_to_the_pages(server):
    _, _, html = fetched(f"{server}/formgrader/manage_assignments")
    assert '/formgrader/course/gradebook/reports/index.html">' in html
    assert "Manage Students" in html  # its own links stay
    _, _, html = fetched(f"{server}/formgrader/manage_submissions/lab03")
    assert '/formgrader/course/gradebook/reports/lab03.html">' in html


@pytest.mark.parametrize(
    "path", ["gradebook/reports/index.html", "_build/html/book/a.html"]
)
def test_the_pages_are_handed_out_to_who_is_logged_in(server, path):
    address = f"{server}/formgrader/course/{path}"
    assert fetched(address) == (200, address, f"this is {path}")
    _, url, html = fetched(address, token="")
    assert "/login" in url and "this is" not in html


@pytest.mark.parametrize(
    "path",
    ["gradebook/secret", "gradebook/reports/../secret", "nbgrader_config.py"],
)
def test_nothing_else_is_handed_out(server, path):
    status, _, html = fetched(f"{server}/formgrader/course/{path}")
    assert status in (403, 404) and "secret" not in html
