"""The course on a JupyterHub, with accounts that are made for it and removed again.

Only a machine that is there for tests gets accounts: as root, and where CI is true.
"""

import contextlib
import json
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import requests

ROOT = Path(__file__).parents[1]
LAB = "lab05_self_attention"
ADA, BEN, EVE = TEACHER, *STUDENTS = "hub-test-ada", "hub-test-ben", "hub-test-eve"
PATIENCE = 180


def missing():
    """Say what this needs and does not find."""
    if os.environ.get("CI") != "true" or os.geteuid() != 0:
        return "accounts are made as root, and only where CI=true"
    for program in ("configurable-http-proxy", "bwrap", "useradd"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    return ""


# Not plain: all of them share one hub, so one process has to run the whole file.
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def open_to_all():
    """Give a command's beginning with which other accounts can run this Python.

    Root's own folders are closed to them, and Python may be in one.
    """
    command = ["bwrap", "--dev-bind", "/", "/", "--cap-add", "ALL"]
    needed = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
    closed = {
        parent
        for place in needed
        for parent in place.parents
        if not parent.stat().st_mode & 0o001
    }
    for folder in sorted(closed):
        command += ["--perms", "0755", "--tmpfs", str(folder)]
    for place in sorted(needed):
        inside = [x for x in reversed(place.parents) if closed & {*x.parents}]
        for folder in inside:  # which bubblewrap itself would close
            command += ["--perms", "0755", "--dir", str(folder)]
        if inside or place.parent in closed:
            command += ["--bind", str(place), str(place)]
    return [*command, "--"] if closed else []


class Person:
    """Somebody with an account here, logged in on the hub."""

    def __init__(self, hub, name, password):
        self.hub, self.name, self.session = hub, name, requests.Session()
        form = self.session.get(f"{hub}/hub/login")
        form = {"username": name, "password": password, **self._xsrf()}
        done = self.session.post(f"{hub}/hub/login", data=form, allow_redirects=False)
        assert done.status_code == 302, done.text
        asked = self.session.post(
            f"{hub}/hub/api/users/{name}/tokens", params=self._xsrf(), json={}
        )
        assert asked.ok, asked.text
        token = asked.json()["token"]
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"token {token}"

    def _xsrf(self):
        # the hub sets it once for each of its paths; the newest counts
        return {
            "_xsrf": [x.value for x in self.session.cookies if x.name == "_xsrf"][-1]
        }

    def start(self):
        """Have the hub start this person's server."""
        address = f"{self.hub}/hub/api/users/{self.name}"
        assert self.session.post(f"{address}/server").status_code in (201, 202)
        until = time.monotonic() + PATIENCE
        while not self.session.get(address).json()["servers"].get("", {}).get("ready"):
            assert time.monotonic() < until, "the server does not start"
            time.sleep(0.3)

    def get(self, path, of=None):
        return self.session.get(f"{self.hub}/user/{of or self.name}/{path}")

    def ask(self, path, **data):
        """Press a button: nbgrader's own answer, which has to say that it went well."""
        done = self.session.post(f"{self.hub}/user/{self.name}/{path}", data=data)
        assert done.ok, done.text
        said = done.json() if done.text else {"success": True}
        assert said["success"], json.dumps(said)[-2000:]
        return said

    def read(self, *command):
        """Run a program as this person's kernel could."""
        account = pwd.getpwnam(self.name)
        return subprocess.run(
            command,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            errors="replace",
        )


@pytest.fixture(scope="module")
def accounts():
    """Three accounts with homes of their own: name -> password."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    assert not known & {TEACHER, *STUDENTS}, "accounts of an earlier run are here"
    # not pytest's own folder, which is closed to other accounts
    folder = Path(tempfile.mkdtemp(prefix="hub-test-"))
    folder.chmod(0o755)
    passwords = {name: secrets.token_urlsafe() for name in (TEACHER, *STUDENTS)}
    try:
        for name, password in passwords.items():
            home = [
                "--create-home",
                "--home-dir",
                folder / name,
                "--shell",
                "/bin/bash",
            ]
            subprocess.run(["useradd", *home, name], check=True)
            (folder / name).chmod(0o700)
            line = f"{name}:{password}"
            subprocess.run(["chpasswd"], input=line, text=True, check=True)
        yield folder, passwords
    finally:
        for process in psutil.process_iter(["username"]):
            if process.info["username"] in passwords:
                process.kill()
        for name in passwords:
            subprocess.run(["userdel", "--remove", name], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(number):
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


@pytest.fixture(scope="module")
def hub(accounts):
    """The hub, with a course of its instructor's: its address, and where things are."""
    folder, _ = accounts
    course, state = folder / TEACHER / "course", folder / "state"
    shutil.copytree(ROOT / "solutions" / LAB, course / "solutions" / LAB)
    shutil.copy(ROOT / "nbgrader_config.py", course)
    subprocess.run(["chown", "-R", f"{TEACHER}:", course], check=True)
    public, inner, proxy = free_ports(3)
    address = f"http://127.0.0.1:{public}"
    command = [*open_to_all(), sys.executable, "-m", "jupyterhub"]
    command += ["-f", ROOT / "scripts" / "jupyterhub_config.py"]
    command += [f"--JupyterHub.bind_url={address}", f"--JupyterHub.hub_port={inner}"]
    command += [f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy}"]
    told = {"HUB_INSTRUCTORS": TEACHER, "HUB_COURSE": course, "HUB_STATE": state}
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = folder / "log"
    with said.open("wb") as log:
        running = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **{k: str(v) for k, v in told.items()}, "PATH": scripts},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        until = time.monotonic() + PATIENCE
        while True:
            assert running.poll() is None, said.read_text()
            with contextlib.suppress(OSError):
                if requests.get(f"{address}/hub/health").ok:
                    break
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.3)
        yield address, course, state, proxy
    finally:
        # the hub stops the servers and the proxy, too; bubblewrap hands no signal on
        everything = psutil.Process(running.pid).children(recursive=True)
        (everything[0] if open_to_all() else running).terminate()
        running.wait()
        for left in psutil.wait_procs(everything, timeout=PATIENCE)[1]:
            left.kill()
        print(said.read_text()[-20_000:])


@pytest.fixture(scope="module")
def people(hub, accounts):
    """The instructor and two students, whose servers run."""
    address, *_ = hub
    everybody = [Person(address, name, word) for name, word in accounts[1].items()]
    with ThreadPoolExecutor() as pool:
        list(pool.map(Person.start, everybody))
    return everybody


@pytest.fixture(scope="module")
def term(people, hub):
    """A lab that was released, done by two students, graded and handed back."""
    ada, *students = people
    lab = f"formgrader/api/assignment/{LAB}"
    whole = {"course_id": "attention", "assignment_id": LAB}
    ada.ask(f"{lab}/assign")
    ada.ask(f"{lab}/release")
    for student in students:
        (listed,) = student.ask("assignments/fetch", **whole)["value"]
        assert (listed["assignment_id"], listed["status"]) == (LAB, "fetched")
    done = (ROOT / "solutions" / LAB / f"{LAB}.ipynb").read_text(encoding="utf-8")
    done = re.sub(r" *### (BEGIN|END) SOLUTION(\\n)?", "", done)
    ben, eve = students
    saved = ben.session.put(
        f"{ben.hub}/user/{BEN}/api/contents/{LAB}/{LAB}.ipynb",
        json={"type": "notebook", "content": json.loads(done)},
    )
    assert saved.ok, saved.text
    for student in students:
        student.ask("assignments/submit", **whole)
    ada.ask(f"{lab}/collect")
    for student in students:
        ada.ask(f"formgrader/api/submission/{LAB}/{student.name}/autograde")
    ada.ask(f"{lab}/generate_feedback")
    ada.ask(f"{lab}/release_feedback")
    for student in students:
        student.ask("assignments/fetch_feedback", **whole)
    return ada, ben, eve


def feedback(student):
    """Read the one page of feedback that a student has."""
    contents = f"api/contents/{LAB}/feedback"
    (handed_in,) = student.get(contents).json()["content"]
    (page,) = student.get(f"api/contents/{handed_in['path']}").json()["content"]
    return student.get(f"api/contents/{page['path']}").json()["content"]


def test_each_student_gets_the_feedback_on_the_own_work(term):
    ada, ben, eve = term
    assert "split_heads: 3 of 3 points" in feedback(ben)
    assert "split_heads: 0 of 3 points" in feedback(eve)
    graded = ada.get(f"formgrader/api/submissions/{LAB}").json()
    assert {each["student"]: each["score"] for each in graded} == {BEN: 23.0, EVE: 0.0}


def test_servers_run_under_the_accounts(term):
    for person in term:
        assert server(person).username() == person.name


def test_a_student_has_no_formgrader(term):
    ada, ben, _ = term
    assert ada.get("formgrader/manage_assignments").status_code == 200
    assert ben.get("formgrader/manage_assignments").status_code == 404


def server(person):
    """Find the process that is somebody's server."""
    (found,) = (
        process
        for process in psutil.process_iter(["username", "cmdline"])
        if process.info["username"] == person.name
        and "jupyterhub.singleuser" in (process.info["cmdline"] or ())
    )
    return found


def port(person):
    """Find where somebody's server listens, behind the hub's back."""
    (listening,) = {
        each.laddr.port
        for each in server(person).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    return listening


# What is tried: how it is asked, given the one who asks, everybody, and the places.
ATTEMPTS = {
    "list another's home": lambda me, eve, at: me.read("ls", at / EVE),
    "read another's notebook": lambda me, eve, at: me.read(
        "cat", at / EVE / LAB / f"{LAB}.ipynb"
    ),
    "list the course": lambda me, eve, at: me.read("ls", at / TEACHER / "course"),
    "read the solutions": lambda me, eve, at: me.read(
        "cat", at / TEACHER / "course" / "solutions" / LAB / f"{LAB}.ipynb"
    ),
    "read the gradebook": lambda me, eve, at: me.read(
        "cat", at / TEACHER / "course" / "gradebook" / "gradebook.db"
    ),
    "list what was handed in": lambda me, eve, at: me.read(
        "ls", at / "state" / "exchange" / "attention" / "inbound"
    ),
    "list all feedback": lambda me, eve, at: me.read(
        "ls", at / "state" / "exchange" / "attention" / "feedback"
    ),
    "read the key of another's server": lambda me, eve, at: me.read(
        "cat", f"/proc/{server(eve).pid}/environ"
    ),
    "read the key of the hub": lambda me, eve, at: me.read(
        "cat", at / "state" / "hub" / "cookie_secret"
    ),
    "open another's server": lambda me, eve, at: me.get("api/contents", of=EVE),
    "open the instructor's Formgrader": lambda me, eve, at: me.get(
        "formgrader/manage_assignments", of=TEACHER
    ),
    "open another's server past the hub": lambda me, eve, at: me.session.get(
        f"http://127.0.0.1:{port(eve)}/user/{EVE}/api/contents"
    ),
}
# Who may.
OWNER = {
    name: TEACHER
    for name in ATTEMPTS
    if any(word in name for word in ("course", "solutions", "gradebook", "instructor"))
} | {"list what was handed in": TEACHER, "list all feedback": TEACHER}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_student_is_refused(name, term, accounts):
    """And whoever it belongs to is not: the attempt is a real one."""
    folder, _ = accounts
    ada, ben, eve = term
    refused = ATTEMPTS[name](ben, eve, folder)
    if isinstance(refused, requests.Response):
        assert refused.status_code in (403, 404), refused.text
    else:
        assert refused.returncode and "Permission denied" in refused.stderr
        assert not refused.stdout
    if name == "read the key of the hub":  # it is root's
        assert (folder / "state" / "hub" / "cookie_secret").stat().st_size
        return
    granted = ATTEMPTS[name](ada if OWNER.get(name) else eve, eve, folder)
    if isinstance(granted, requests.Response):
        assert granted.status_code == 200
    else:
        assert granted.returncode == 0 and granted.stdout, granted.stderr
