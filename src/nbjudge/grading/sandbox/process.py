"""Outside: start the process that runs one student's code; query, watch and kill it.

Deadlines end this process and everything that it has started, whatever it does.
"""

import contextlib
import math
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from nbjudge.grading import wire
from nbjudge.grading.sandbox.text import last_line, plain_text
from nbjudge.grading.sandbox.usage import cpu_used, is_idle, uses_more

if TYPE_CHECKING:
    from nbjudge.grading.sandbox.nursery import Nursery

WATCH_SECONDS = 0.04
FORK_SECONDS = 60.0
TOO_SLOW = "an endless loop, or far too slow"


class Trouble(Exception):
    """The student's process gave no answer; the student may read why."""


class Ended(Trouble):
    """The student's process ended by itself, or something else has killed it."""


class SandboxError(Exception):
    """There is no sandbox, and the student's code is not the reason."""


class Sandbox:
    """A process that runs one student's code.

    Args:
        nursery: the process that it is forked from.
        judge: our end of the socket.
        output: file descriptor from which its output can be read.

    Raises:
        SandboxError: the process could not be forked.
    """

    def __init__(self, nursery: "Nursery", judge: socket.socket, output: int):
        self.nursery, self.limits, self.judge, self._output = (
            nursery,
            nursery.limits,
            judge,
            output,
        )
        self.killed_for, self._printed, self._cpu_end = "", bytearray(), math.inf
        # seconds in which it did nothing although it was asked something
        self.idle, self._idle_end, self._is_asked = 0.0, math.inf, False
        self._reading, self._ended = threading.Lock(), threading.Event()
        judge.settimeout(FORK_SECONDS)
        try:
            told, ancillary, _, _ = judge.recvmsg(8, socket.CMSG_SPACE(12))
            # Its process id out here; in namespaces of its own, it has another.
            self._first = (
                struct.unpack("3i", ancillary[0][2])[0] if nursery.walls else int(told)
            )
            self._handle = os.pidfd_open(self._first) if nursery.walls else -1
        except (OSError, ValueError, IndexError) as error:
            judge.close()
            said = last_line(os.read(output, 4000)) or error
            os.close(output)
            raise SandboxError(f"no process for a submission: {said}") from error
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def allow(self, seconds: float, idle: float = math.inf) -> None:
        """Limit the time of what comes next; without walls, only the clock ends it.

        Args:
            seconds: seconds of CPU time.
            idle: seconds in which it may do nothing.
        """
        if self.nursery.leader:
            self._cpu_end = cpu_used(self.nursery.leader) + seconds
            self._idle_end = self.idle + idle

    def send(self, kind: str, data: Any, deadline: float) -> None:
        """Send a frame.

        Args:
            kind: what the frame is.
            data: see `wire.pack`.
            deadline: time on time.monotonic()'s clock.

        Raises:
            Trouble: the frame was not accepted; the sandbox can no longer be used.
        """
        try:
            wire.send(self.judge, wire.Frame(kind, data), deadline)
        except wire.WireError as error:
            self._give_up(error, deadline)

    def call(self, kind: str, data: Any, deadline: float) -> wire.Frame:
        """Send a frame and wait for the answer.

        Args:
            kind: what the frame is.
            data: see `wire.pack`.
            deadline: time on time.monotonic()'s clock.

        Raises:
            Trouble: there was no answer; the sandbox can no longer be used.
        """
        self.send(kind, data, deadline)
        self._is_asked = True
        try:
            return wire.receive(self.judge, deadline)
        except wire.WireError as error:
            self._give_up(error, deadline)
        finally:
            self._is_asked = False

    def text(self) -> str:
        """Return what was printed since the last call, as plain text."""
        with self._reading:
            # what was printed before an answer is in the pipe by now
            for _ in range(64):
                if self._ended.is_set() or not self._readable(0.0) or not self._read():
                    break
            raw, self._printed = bytes(self._printed), bytearray()
        return plain_text(raw, self.limits.output)

    def close(self) -> None:
        """Kill everything in the sandbox, and wait until it is gone."""
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

    def _has_ended(self) -> bool:
        return bool(select.select([self._handle], [], [], 0)[0])

    def _kill(self) -> None:
        # If the first process of the namespace ends, all others end; without walls,
        # there is only the session to kill.
        with contextlib.suppress(ProcessLookupError):
            if self._handle >= 0 and sys.platform == "linux":
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif self._first:
                os.killpg(self._first, signal.SIGKILL)

    def _readable(self, seconds: float) -> bool:
        return bool(select.select([self._output], [], [], seconds)[0])

    def _read(self) -> bool:
        """Keep only the first bytes of the output; return False at its end."""
        chunk = os.read(self._output, 1 << 20)
        self._printed += chunk[: max(0, 4 * self.limits.output - len(self._printed))]
        return bool(chunk)

    def _watch(self) -> None:
        """Read the output, and kill what takes too much memory or time."""
        due, open_, was_over = time.monotonic(), True, False
        looked = due
        # A process that closes its output is still watched; without walls, there is
        # nothing else to watch.
        while open_ or (self._handle >= 0 and not self._has_ended()):
            if open_:
                self._readable(WATCH_SECONDS)
                with self._reading:
                    if self._readable(0.0):
                        open_ = self._read()
            else:
                select.select([self._handle], [], [], WATCH_SECONDS)
            if self.nursery.leader and time.monotonic() > due:
                now = time.monotonic()
                due = now + WATCH_SECONDS
                self._count_idle(now - looked)
                looked = now
                if uses_more(self.nursery.leader, self.limits.memory):
                    self.killed_for = (
                        f"used more than {self.limits.memory / (1 << 30):.2g} GiB of"
                        " memory"
                    )
                    self._kill()
                # A process that ends between two readings of /proc may be counted twice
                # in the first look.
                is_over = cpu_used(self.nursery.leader) > self._cpu_end
                if is_over and was_over:
                    self.killed_for = TOO_SLOW
                    self._kill()
                was_over = is_over
        with self._reading:
            self._ended.set()
            os.close(self._output)

    def _count_idle(self, seconds: float) -> None:
        """Count the time since the last look as idle, if nothing was done in it."""
        if self._is_asked and is_idle(self.nursery.leader):
            # on a busy machine, a look may come late
            self.idle += min(seconds, 2 * WATCH_SECONDS)
            if self.idle > self._idle_end:
                self.killed_for = (
                    f"it waited for {self.limits.idle:g} s, and did nothing"
                )
                self._kill()
