"""Self-test of the sandbox: prove that its walls hold before students' code runs."""

import sys
import time
from typing import TYPE_CHECKING

from nbjudge.grading.sandbox.bubblewrap import PACKAGE, Limits, bubblewrap

if TYPE_CHECKING:
    from nbjudge.grading.sandbox.process import Sandbox

# The test takes this long only if a wall is missing, however busy the machine: the
# probe ends by itself or is killed.
SECONDS = 600.0
# The probe's memory in bytes: more than importing torch takes, which is 150 MB for its
# CPU build and 300 MB for its CUDA build.
MEMORY = 1 << 30
PROBE = """
import os, resource, signal, socket, time
failures = []
def wall(name, holds):
    if not holds:
        failures.append(name)
wall("it runs as root", os.getuid() != 0)
try:
    socket.create_connection(("192.0.2.1", 9), 0.5)
    wall("there is a network", False)
except OSError as error:
    refused = isinstance(error, PermissionError) or "unreachable" in str(error).lower()
    wall("there is a network", refused)
for place in ("/", "/usr", "/course", "/dev"):
    try:
        open(place + "/written", "w")
        wall("it can write to " + place, False)
    except OSError:
        pass
wall("it can see this machine's files", not os.path.exists(setup["hidden"]))
try:
    os.memfd_create("memory")
    wall("it can have memory that is not counted", False)
except OSError:
    pass
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
try:
    child = os.fork() or os._exit(0)
    os.waitpid(child, 0)
except OSError:
    wall("CPU time of its children is not counted", False)
resource.setrlimit(resource.RLIMIT_NPROC, (16, 16))
children = 0
try:
    while children < 64:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
    wall("it can start any number of processes", False)
except OSError:
    pass
judge.sendall(("; ".join(failures) or "fine").encode())
hoard = []
while True:
    hoard.append(bytearray(b"x" * (32 << 20)))
    time.sleep(0.001)
"""


def prove(limits: Limits) -> str:
    """Test the walls: no network, read-only, limits hold, nothing outlives the kill.

    Args:
        limits: all but `memory` are used: the test takes a smaller one.

    Returns:
        Why there are no walls, in one line; empty if they hold.
    """
    if sys.platform != "linux":
        return f"bubblewrap is for Linux, this is {sys.platform}"
    if bubblewrap() is None:
        return "bubblewrap (bwrap) is not installed"
    from nbjudge.grading.sandbox.nursery import Nursery
    from nbjudge.grading.sandbox.process import SandboxError

    nursery = Nursery(
        "", [], [], limits._replace(memory=MEMORY), probe=PROBE, hidden=str(PACKAGE)
    )
    try:
        box = nursery.sandbox()
        try:
            return _try(box)
        finally:
            box.close()
    except SandboxError as error:
        return str(error)
    finally:
        nursery.close()


def _try(box: "Sandbox") -> str:
    box.judge.settimeout(SECONDS)
    try:
        said = box.judge.recv(1000).decode()
    except OSError as error:
        return f"the sandbox did not answer: {error}"
    if said != "fine":
        return said or f"the sandbox did not start: {box.text().strip()[-200:]}"
    deadline = time.monotonic() + SECONDS
    while box.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    if not box.killed_for:
        return "it can use any amount of memory"
    return "something outlives the kill" if box.is_alive() else ""
