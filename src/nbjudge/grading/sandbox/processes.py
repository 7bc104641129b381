"""Outside: processes forked from a warm one, asked with deadlines, watched, killed.

They are forked from a warm one behind walls, which no pool of workers does; and each
has deadlines that end it with all that it has started, whatever it does.
"""

import contextlib
import fcntl
import itertools
import json
import math
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, NoReturn

from nbjudge.grading import wire
from nbjudge.grading.course import load
from nbjudge.grading.sandbox.bubblewrap import (
    FIRST_USER,
    Limits,
    arguments,
    bubblewrap,
    interpreter,
    scrub,
)
from nbjudge.grading.sandbox.usage import cpu_used, uses_more

WATCH_SECONDS = 0.04
START_SECONDS = 600.0
FORK_SECONDS = 60.0
TOO_SLOW = "an endless loop, or far too slow"
# Address space that is never touched: a thread takes 8 MB for its stack and 64 MB to
# allocate from. What imports have taken is not counted: 0.7 GB with the CPU build of
# torch, 3.4 GB with its CUDA build, on every Python.
RESERVED_BYTES = 2 << 30
_users = itertools.count(os.getpid() << 8)


class Trouble(Exception):
    """The student's process gave no answer; the student may read why."""


class Ended(Trouble):
    """The student's process ended of itself, or something else has killed it."""


class SandboxError(Exception):
    """There is no sandbox, and the student's code has nothing to do with it."""


class Nursery:
    """A process behind walls that has imported torch, and waits to be forked from.

    Args:
        course: the module that holds the questions; none is needed for a probe.
        questions: names of those that will be asked.
        preload: modules to import ahead.
        limits: what one submission may use.
        walls: False runs everything as this user, with everything in reach.
        probe: code to run in place of a submission, for the self-test, and what it is
            told.
    """

    def __init__(
        self,
        course: str,
        questions: Iterable[str],
        preload: Iterable[str],
        limits: Limits,
        walls: bool = True,
        **probe: str,
    ):
        self.limits, self.walls, self.leader = limits, walls, 0
        self.places = load(course).places().values() if course else ()
        self._orders, theirs = socket.socketpair()
        self._output, out = os.pipe()
        setup = {
            "course": course,
            "questions": list(questions),
            "preload": list(preload),
            "limits": self._limits(),
            **probe,
        }
        try:
            self._start(theirs.fileno(), out)
        finally:
            theirs.close()
            os.close(out)
        # it has ended already: the wait below will say so
        with contextlib.suppress(OSError):
            self._orders.sendall(json.dumps(setup).encode() + b"\n")
        self._is_ready = False

    def sandbox(self) -> "Sandbox":
        """Fork a process for one submission.

        Raises:
            SandboxError: there is none.
        """
        self._wait()
        ours, theirs = socket.socketpair()
        output, out = os.pipe()
        try:
            if sys.platform == "linux":
                # fewer turns for those who print much
                fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, 1 << 20)
            if self.walls:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            socket.send_fds(self._orders, [b"+"], [theirs.fileno(), out])
        except OSError as error:
            ours.close()
            os.close(output)
            raise SandboxError(f"the process to fork from has gone: {error}") from error
        finally:
            theirs.close()
            os.close(out)
        return Sandbox(self, ours, output)

    def is_alive(self) -> bool:
        """Whether it can be forked from."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it, and with it everything that was forked from it."""
        self._orders.close()
        with contextlib.suppress(ProcessLookupError):
            if self.leader:
                os.kill(self.leader, signal.SIGKILL)
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._output)

    def _limits(self) -> dict[str, int]:
        if not self.walls:
            return {}
        return {
            "AS": self.limits.memory + RESERVED_BYTES,
            "NPROC": self.limits.processes,
            "FSIZE": self.limits.file,
            "CPU": math.ceil(self.limits.submission),
            "NOFILE": 128,
            "CORE": 0,
        }

    def _wait(self) -> None:
        if self._is_ready:
            return
        self._orders.settimeout(START_SECONDS)
        try:
            self._is_ready = self._orders.recv(1) == b"!"
        except OSError:
            pass
        self._orders.settimeout(FORK_SECONDS)
        if not self._is_ready:
            self._process.kill()
            self._process.wait()
            said = plain_text(os.read(self._output, 4000), 4000).strip().splitlines()
            raise SandboxError(
                "the sandbox did not start:"
                f" {said[-1][:300] if said else 'it said nothing'}"
            )

    def _start(self, theirs: int, out: int) -> None:
        user = (
            FIRST_USER + next(_users) % 0x0FFFFFFF
            if self.walls and os.getuid() == 0
            else -1
        )
        command = [
            *interpreter(self.walls),
            str(theirs),
            str(user),
            "walls" if self.walls else "open",
        ]
        inherited = [theirs]
        if self.walls:
            told, telling = os.pipe()
            listing = arguments(user, self.places)
            # By a descriptor: the command line can be read from inside.
            listed = os.memfd_create("arguments")
            os.write(listed, b"\0".join(part.encode() for part in listing))
            os.lseek(listed, 0, os.SEEK_SET)
            inherited += [telling, listed]
            command = [
                str(bubblewrap()),
                "--info-fd",
                str(telling),
                "--args",
                str(listed),
                "--",
                *command,
            ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=inherited,
            start_new_session=True,
        )
        if self.walls:
            os.close(telling)
            os.close(listed)
            with os.fdopen(told, "rb") as file, contextlib.suppress(ValueError):
                self.leader = json.loads(file.read())["child-pid"]


class Sandbox:
    """A process that runs one student's code.

    Args:
        nursery: what it is forked from.
        judge: our end of the socket.
        output: where what it prints can be read.

    Raises:
        SandboxError: it was not forked.
    """

    def __init__(self, nursery: Nursery, judge: socket.socket, output: int):
        self.nursery, self.limits, self.judge, self._output = (
            nursery,
            nursery.limits,
            judge,
            output,
        )
        self.killed_for, self._printed, self._cpu_end = "", bytearray(), math.inf
        self._reading, self._ended = threading.Lock(), threading.Event()
        judge.settimeout(FORK_SECONDS)
        try:
            told, ancillary, _, _ = judge.recvmsg(8, socket.CMSG_SPACE(12))
            # Its number as the kernel knows it here; in namespaces of its own it has
            # another.
            self._first = (
                struct.unpack("3i", ancillary[0][2])[0] if nursery.walls else int(told)
            )
            self._handle = os.pidfd_open(self._first) if nursery.walls else -1
        except (OSError, ValueError, IndexError) as error:
            judge.close()
            said = plain_text(os.read(output, 4000), 4000).strip().splitlines()
            os.close(output)
            raise SandboxError(
                f"no process for a submission: {said[-1][:300] if said else error}"
            ) from error
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def allow(self, seconds: float) -> None:
        """Give what comes next CPU time; without walls, only the clock ends it."""
        self._cpu_end = (
            cpu_used(self.nursery.leader) + seconds if self.nursery.leader else math.inf
        )

    def send(self, kind: str, data: Any, deadline: float) -> None:
        """Send a frame.

        Args:
            kind: what it is.
            data: see `wire.pack`.
            deadline: on time.monotonic()'s clock.

        Raises:
            Trouble: it was not taken; the sandbox is of no use any more.
        """
        try:
            wire.send(self.judge, wire.Frame(kind, data), deadline)
        except wire.WireError as error:
            self._give_up(error, deadline)

    def call(self, kind: str, data: Any, deadline: float) -> wire.Frame:
        """Send a frame and wait for the answer.

        Args:
            kind: what it is.
            data: see `wire.pack`.
            deadline: on time.monotonic()'s clock.

        Raises:
            Trouble: there was none; the sandbox is of no use any more.
        """
        self.send(kind, data, deadline)
        try:
            return wire.receive(self.judge, deadline)
        except wire.WireError as error:
            self._give_up(error, deadline)

    def text(self) -> str:
        """Return what was printed since the last call, as plain text."""
        with self._reading:
            # what was printed before an answer is in the pipe by now
            for _ in range(64):
                if self._ended.is_set() or not self._readable(0.0) or not self._read():
                    break
            raw, self._printed = bytes(self._printed), bytearray()
        return plain_text(raw, self.limits.output)

    def is_alive(self) -> bool:
        """Whether its first process runs."""
        if self._handle >= 0:
            return not select.select([self._handle], [], [], 0)[0]
        with contextlib.suppress(OSError):
            if self._first:
                os.kill(self._first, 0)
                return True
        return False

    def close(self) -> None:
        """Kill everything in it, and wait until it is gone."""
        self.judge.close()
        self._kill()
        self._watcher.join()
        if self._handle >= 0:
            select.select([self._handle], [], [], FORK_SECONDS)
            os.close(self._handle)
            self._handle = -1
        self._first = 0

    def _give_up(self, error: wire.WireError, deadline: float) -> NoReturn:
        late = time.monotonic() >= deadline
        self.close()
        if not self.nursery.is_alive():
            raise SandboxError("the process to fork from was killed") from error
        if self.killed_for or late:
            raise Trouble(self.killed_for or TOO_SLOW) from error
        raise (Ended if error.ended else Trouble)(str(error)) from error

    def _kill(self) -> None:
        # The first process of the namespace takes all others with it; without walls
        # there is only the session.
        with contextlib.suppress(ProcessLookupError):
            if self._handle >= 0 and sys.platform == "linux":
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif self._first:
                os.killpg(self._first, signal.SIGKILL)

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._output], [], [], seconds)[0])

    def _read(self) -> bool:
        """Keep the first bytes of what is printed, and no more; False at its end."""
        chunk = os.read(self._output, 1 << 20)
        self._printed += chunk[: max(0, 4 * self.limits.output - len(self._printed))]
        return bool(chunk)

    def _watch(self) -> None:
        """Read what is printed, and end what takes too much memory or CPU time."""
        due, open_, was_over = time.monotonic(), True, False
        # Whoever closes its output is watched all the same; without walls there is no
        # more to watch.
        while open_ or (self._handle >= 0 and self.is_alive()):
            if open_:
                self._readable(WATCH_SECONDS)
                with self._reading:
                    if self._readable(0.0):
                        open_ = self._read()
            else:
                select.select([self._handle], [], [], WATCH_SECONDS)
            if self.nursery.leader and time.monotonic() > due:
                due = time.monotonic() + WATCH_SECONDS
                if uses_more(self.nursery.leader, self.limits.memory):
                    self.killed_for = (
                        f"used more than {self.limits.memory / (1 << 30):.2g} GiB of"
                        " memory"
                    )
                    self._kill()
                # A process that ends between two looks is counted twice in the first.
                is_over = cpu_used(self.nursery.leader) > self._cpu_end
                if is_over and was_over:
                    self.killed_for = TOO_SLOW
                    self._kill()
                was_over = is_over
        with self._reading:
            self._ended.set()
            os.close(self._output)


def plain_text(raw: bytes, limit: int) -> str:
    """Make text of what was printed: no escapes, no control characters, no paths."""
    text = raw.decode("utf-8", "replace")
    text = re.sub(
        r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", "", text
    )
    text = "".join(
        c
        for c in text.replace("\r\n", "\n").replace("\r", "\n")
        if c in "\n\t" or c.isprintable()
    )
    text = scrub(text)
    return text if len(text) <= limit else text[:limit] + "\n... (cut)"
