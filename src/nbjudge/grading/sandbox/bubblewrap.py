"""The isolation of a student's process: bubblewrap's arguments, and the limits.

Inside there is no network, nothing of the course except what a notebook imports,
nothing of other submissions, and no place to write except a small /tmp. Paths inside
are neutral, so that no path of this machine can be printed.
"""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import nbjudge

PACKAGE = Path(nbjudge.__file__).parent
# Only these files of the instructor's half are visible inside: the judge, the gradebook
# and the course's secret stay outside.
VISIBLE = (
    *("__init__.py", "course.py", "wire.py"),
    *(
        f"sandbox/{name}.py"
        for name in ("__init__", "kernel", "notebook", "server", "stubs")
    ),
)
LIBRARY = "/course/lib"
# Names of the folders in which packages are installed; Debian has its own.
INSTALLED = ("site-packages", "dist-packages")
# Ids of users without an account, one for each sandbox: process limits apply to a user,
# and not to root.
FIRST_USER = 0x70000000


class Limits(NamedTuple):
    """What one submission may use.

    Attributes:
        cell: seconds of CPU time for one cell, including all its processes.
        question: seconds of CPU time for one question, including all its calls and
            processes.
        patience: wall-clock seconds that may pass for each of these seconds, because
            the machine may have other things to do.
        idle: wall-clock seconds that a cell or a question may wait without computing
            anything; a submission may wait four times as long.
        submission: wall-clock seconds for everything.
        memory: bytes of memory for all its processes together.
        processes: number of processes at a time, including threads.
        file: bytes per file.
        output: bytes of a cell's output that are kept.
    """

    cell: float = 20.0
    question: float = 20.0
    patience: float = 5.0
    idle: float = 15.0
    submission: float = 900.0
    memory: int = 2 << 30
    processes: int = 64
    file: int = 64 << 20
    output: int = 10_000


def bubblewrap() -> str | None:
    """Return the path of bubblewrap; None if it is not installed."""
    return shutil.which("bwrap")


def interpreter(walls: bool) -> list[str]:
    """Return the command that starts Python with the program that serves the judge.

    Args:
        walls: whether it runs in isolation; False starts it as this process was
            started.
    """
    paths = (
        [LIBRARY, *(f"/course/packages{i}" for i, _ in enumerate(packages()))]
        if walls
        else None
    )
    # no garbage is collected during the imports, which saves a quarter of their time
    start = "import gc, sys; gc.disable(); "
    start += f"sys.path[:0] = {paths!r}; " if walls else ""
    start += "from nbjudge.grading.sandbox.server import main; main()"
    if not walls:
        return [sys.executable, "-c", start]
    return [_python(), "-I", "-S", "-X", "faulthandler=0", "-c", start]


def arguments(user: int, places: Iterable[Path] = ()) -> list[str]:
    """Return bubblewrap's arguments, without the command.

    Args:
        user: id of the user that the program becomes if it starts as root; otherwise
            -1.
        places: folders and files of the course's packages, which a notebook may import.
    """
    binds = [
        *(
            part
            for path in (
                "/usr",
                "/lib",
                "/lib64",
                "/bin",
                "/etc/ld.so.cache",
                "/etc/fonts",
                "/etc/alternatives",
            )
            for part in ("--ro-bind-try", path, path)
        ),
    ]
    if not _system_python():
        binds += ["--ro-bind", sys.base_prefix, "/python"]
    binds += [
        "--perms",
        "0755",
        "--dir",
        "/course",
        "--perms",
        "0755",
        "--dir",
        LIBRARY,
    ]
    for place in (PACKAGE, *places):
        binds += ["--ro-bind", str(place), f"{LIBRARY}/{place.name}"]
    hidden = f"{LIBRARY}/nbjudge/grading"
    binds += ["--perms", "0755", "--tmpfs", hidden]
    binds += ["--perms", "0755", "--dir", f"{hidden}/sandbox"]
    for name in VISIBLE:
        binds += ["--ro-bind", str(PACKAGE / "grading" / name), f"{hidden}/{name}"]
    binds += ["--remount-ro", hidden]
    for i, place in enumerate(map(Path, packages())):
        binds += ["--ro-bind", str(place), f"/course/packages{i}"]
        if PACKAGE == place / "nbjudge":
            binds += ["--tmpfs", f"/course/packages{i}/nbjudge"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "student",
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": "" if _system_python() else "/python/lib",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TQDM_DISABLE": "1",
    }
    # As root, bubblewrap needs no user namespace, and the program itself switches to
    # another user as its first step.
    privileges = (
        ["--unshare-user", "--uid", "1000", "--gid", "1000"]
        if user < 0
        else ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    )
    return [
        *(
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ),
        *(
            "--die-with-parent",
            "--new-session",
            "--hostname",
            "sandbox",
            "--cap-drop",
            "ALL",
            *privileges,
        ),
        *binds,
        *(
            "--proc",
            "/proc",
            "--tmpfs",
            "/dev",
            *_devices(),
            "--perms",
            "1777",
            "--tmpfs",
            "/tmp",
        ),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--clearenv"),
        *(
            part
            for name, value in environment.items()
            for part in ("--setenv", name, value)
        ),
        *("--chdir", "/tmp"),
    ]


def _devices() -> list[str]:
    """Return the arguments that fill /dev, without terminals.

    There is no /dev/zero either, because memory shared through it is not counted.
    """
    places = (f"/dev/{name}" for name in ("null", "random", "urandom"))
    return [part for place in places for part in ("--dev-bind", place, place)]


def packages() -> list[str]:
    """List the folders in which packages are installed.

    An environment may refer to the folder of another.
    """
    folders = (path for path in sys.path if Path(path).name in INSTALLED)
    return [path for path in dict.fromkeys(folders) if Path(path).is_dir()]


def _system_python() -> bool:
    return Path(sys.base_prefix).is_relative_to("/usr")


def _python() -> str:
    name = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    return f"{sys.base_prefix if _system_python() else '/python'}/{name}"
