"""One student's process, from outside: started ahead, asked with deadlines, watched, and killed as a whole."""

import contextlib
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from attention_course.grader import wire
from attention_course.grader.walls import FIRST_USER, Limits, arguments, bubblewrap, interpreter, scrub

WATCH_SECONDS = 0.04
START_SECONDS = 120.0
# torch reserves address space that it never touches.
RESERVED_BYTES = 3 << 30
_users = itertools.count(os.getpid() << 8)


class Trouble(Exception):
    """The student's process gave no answer; the message says why, for the student's eyes."""


class SandboxError(Exception):
    """There is no sandbox, and the student's code has nothing to do with it."""


class Sandbox:
    """A process that runs a student's code.

    Args:
        questions: names of those that will be asked.
        preload: modules to import ahead.
        limits: what it may use.
        walls: False runs it as this user, with everything in reach.
        probe: code to run in place of the server, for the self-test, and what it is told.
    """

    def __init__(
        self,
        questions: Iterable[str],
        preload: Iterable[str],
        limits: Limits,
        walls: bool = True,
        **probe: str,
    ):
        self.limits, self.walls, self.killed_for = limits, walls, ""
        self._printed, self._reading, self._closed = bytearray(), threading.Lock(), False
        self.leader: int | None = None
        self._ready = False
        self.judge, theirs = socket.socketpair()
        self._output, out = os.pipe()
        try:
            self._start(theirs.fileno(), out)
        finally:
            theirs.close()
            os.close(out)
        setup: dict[str, Any] = {"questions": list(questions), "preload": list(preload), "limits": {}}
        if walls:
            setup["limits"] = {"AS": limits.memory + RESERVED_BYTES, "NPROC": limits.processes, "FSIZE": limits.file,
                               "CPU": int(limits.submission), "NOFILE": 128, "CORE": 0}  # fmt: skip
        setup.update(probe)
        with contextlib.suppress(OSError):  # it has ended already: the first call will say so
            self.judge.sendall(json.dumps(setup).encode() + b"\n")
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

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

    def ready(self) -> None:
        """Wait until torch is imported.

        Raises:
            SandboxError: it did not start.
        """
        if not self._ready:
            try:
                self._ready = wire.receive(self.judge, time.monotonic() + START_SECONDS).kind == "ready"
                self.text()
            except wire.WireError as error:
                self.close()
                raise SandboxError(f"the sandbox did not start: {self.text(300) or error}") from error

    def text(self, limit: int | None = None) -> str:
        """Return what was printed since the last call, as plain text, cut to the limit."""
        with self._reading:
            for _ in range(64):  # what was printed before the answer is in the pipe by now
                if self._closed or not select.select([self._output], [], [], 0)[0] or not self._read():
                    break
            raw, self._printed = bytes(self._printed), bytearray()
        return plain_text(raw, self.limits.output if limit is None else limit)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill everything in it, and wait until it is gone."""
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        self._watcher.join()
        self.judge.close()

    def _give_up(self, error: wire.WireError, deadline: float) -> NoReturn:
        late = time.monotonic() >= deadline
        self.close()
        raise Trouble(self.killed_for or ("an endless loop, or far too slow" if late else str(error))) from error

    def _start(self, theirs: int, out: int) -> None:
        user = FIRST_USER + next(_users) % 0x0FFFFFFF if self.walls and os.getuid() == 0 else None
        command = [*interpreter(self.walls), str(theirs), str(-1 if user is None else user), "walls"]
        descriptors, closing = [theirs], []
        info = None
        if self.walls:
            told, telling = os.pipe()
            # By a descriptor: the command line can be read from inside.
            listed = os.memfd_create("arguments")
            os.write(listed, b"\0".join(part.encode() for part in arguments(user)))
            os.lseek(listed, 0, os.SEEK_SET)
            descriptors += [telling, listed]
            closing = [telling, listed]
            info = told
            command = [str(bubblewrap()), "--info-fd", str(telling), "--args", str(listed), "--", *command]
        else:
            command[-1] = "open"
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=descriptors,
            start_new_session=True,
        )
        for descriptor in closing:
            os.close(descriptor)
        if info is not None:
            with os.fdopen(info, "rb") as file, contextlib.suppress(ValueError):
                self.leader = json.loads(file.read() or b"null")["child-pid"]

    def _kill(self) -> None:
        # The first process of the namespace takes all others with it; without walls there is only the session.
        with contextlib.suppress(ProcessLookupError):
            if self.leader is not None:
                os.kill(self.leader, signal.SIGKILL)
            if not self.walls:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()

    def _read(self) -> bool:
        """Keep the first bytes of what is printed, throw the rest away; False at its end."""
        chunk = os.read(self._output, 1 << 20)
        self._printed += chunk[: max(0, 4 * self.limits.output - len(self._printed))]
        return bool(chunk)

    def _watch(self) -> None:
        """Read what is printed, so that nobody waits for it, and end what takes too much memory."""
        due, open_ = time.monotonic(), True
        while open_ and (self._process.poll() is None or select.select([self._output], [], [], 0)[0]):
            select.select([self._output], [], [], WATCH_SECONDS)
            with self._reading:
                if select.select([self._output], [], [], 0)[0]:
                    open_ = self._read()
            if self.leader is not None and time.monotonic() > due:
                due = time.monotonic() + WATCH_SECONDS
                if memory_used(self.leader) > self.limits.memory:
                    self.killed_for = f"used more than {self.limits.memory / (1 << 30):.2g} GiB of memory"
                    self._kill()
        with self._reading:
            self._closed = True
            os.close(self._output)


def memory_used(leader: int) -> int:
    """Add up what the processes of a namespace use, in bytes; pages that they share count once.

    Args:
        leader: its first process.
    """
    processes = Path(f"/proc/{leader}/root/proc")
    try:
        numbers = [name for name in os.listdir(processes) if name.isdigit()]
    except OSError:
        return 0
    upper = sum(_kilobytes(processes / n / "status", ("RssAnon", "RssShmem")) for n in numbers)
    if upper < 256 << 10:  # cheap, and above the truth, as forks share pages: look closer only where it matters
        return upper << 10
    return sum(_kilobytes(processes / n / "smaps_rollup", ("Pss_Anon", "Pss_Shmem")) for n in numbers) << 10


def _kilobytes(file: Path, names: tuple[str, ...]) -> int:
    try:
        text = file.read_text()
    except OSError:
        return 0  # it has just ended
    return sum(int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE) if name in names)


def plain_text(raw: bytes, limit: int) -> str:
    """Make text of what was printed: no escape sequences, no control characters, no paths of this machine."""
    text = raw.decode("utf-8", "replace")
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", "", text)
    text = "".join(c for c in text.replace("\r\n", "\n").replace("\r", "\n") if c in "\n\t" or c.isprintable())
    text = scrub(text)
    return text if len(text) <= limit else text[:limit] + "\n... (cut)"
