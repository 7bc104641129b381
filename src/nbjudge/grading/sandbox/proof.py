"""Self-test of the sandbox: prove that its walls hold before students' code runs.

The test is code that tries to get out, and it runs as a student's cells do.
"""

import contextlib
import sys
import time

from nbjudge.grading.sandbox.bubblewrap import PACKAGE, Limits, bubblewrap
from nbjudge.grading.sandbox.nursery import Nursery
from nbjudge.grading.sandbox.process import Sandbox, SandboxError, Trouble
from nbjudge.grading.sandbox.usage import memory_used, processes_of

# The test takes this long only if a wall is missing, however busy the machine: the
# probe ends by itself or is killed.
SECONDS = 600.0
# Bytes that the test may use beyond what it starts with; it tries to use more.
MEMORY = 128 << 20
WALLS = """
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
wall("it can see this machine's files", not os.path.exists(HIDDEN))
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
assert not failures, "; ".join(failures)
"""
MUCH = """
hoard = []
while True:
    hoard.append(bytearray(b"x") * (32 << 20))
    time.sleep(0.001)
"""


class NoWalls(Exception):
    """Submissions cannot be isolated here; the message says why."""


def lacking() -> str:
    """Return what walls need and this machine lacks; empty if it has all."""
    if sys.platform != "linux":
        return f"bubblewrap is for Linux, this is {sys.platform}"
    return "" if bubblewrap() else "bubblewrap (bwrap) is not installed"


def prove(limits: Limits) -> str:
    """Test the walls as they are built on this machine.

    Args:
        limits: all but `memory` are used; the test takes another one.

    Returns:
        Why there are no walls, in one line; empty if they hold.
    """
    if reason := lacking():
        return reason
    with contextlib.closing(Nursery("", [], [], limits)) as nursery:
        try:
            return prove_of(nursery)
        except SandboxError as error:
            return str(error)


def prove_of(nursery: Nursery) -> str:
    """Test a nursery's walls: no network, read-only, limits hold, all can be killed.

    Returns:
        Why there are no walls, in one line; empty if they hold.

    Raises:
        SandboxError: there is no sandbox to test.
    """
    with contextlib.closing(nursery.sandbox()) as box:
        return _try(box)


def _try(box: Sandbox) -> str:
    leader = box.nursery.leader
    box.limits = box.limits._replace(memory=memory_used(leader) + MEMORY)
    before = processes_of(leader)
    deadline = time.monotonic() + SECONDS
    cell = {"name": "walls", "seed": 0, "source": f"HIDDEN = {str(PACKAGE)!r}\n{WALLS}"}
    try:
        ran = box.call("cell", cell, deadline)
    except Trouble as trouble:
        raise SandboxError(f"the sandbox did not answer: {trouble}") from trouble
    if ran != ("ran", ""):
        failures = str(ran.data).removeprefix("AssertionError: ")
        return failures.partition(" (line")[0] or "the test did not run"
    try:
        box.call("cell", {**cell, "source": MUCH}, deadline)
    except Trouble:
        if box.killed_for:
            left = processes_of(leader) - before
            return "something outlives the kill" if left else ""
    return "it can use any amount of memory"
