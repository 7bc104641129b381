"""The nursery: a warm, isolated process from which submissions' processes are forked.

It has already imported torch, so that no submission has to wait for that. No existing
pool of workers forks inside an isolated process. The code in this module runs outside.
"""

import contextlib
import fcntl
import itertools
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable

from nbjudge.grading.course import load
from nbjudge.grading.sandbox.bubblewrap import (
    FIRST_USER,
    Limits,
    arguments,
    bubblewrap,
    interpreter,
)
from nbjudge.grading.sandbox.process import FORK_SECONDS, Sandbox, SandboxError
from nbjudge.grading.sandbox.text import last_line

START_SECONDS = 600.0
# Address space that is reserved but never used: a thread takes 8 MB for its stack and
# 64 MB to allocate from. What imports have taken is not counted: 0.7 GB with the CPU
# build of torch, 3.4 GB with its CUDA build, in every version of Python.
RESERVED_BYTES = 2 << 30
_users = itertools.count(os.getpid() << 8)


class Nursery:
    """An isolated process that has imported torch, and waits to be forked.

    Args:
        course: the module that holds the questions; without any, it may be empty.
        questions: names of the questions that will be asked.
        preload: modules to import in advance.
        limits: what one submission may use.
        walls: False runs everything as this user, without isolation.
    """

    def __init__(
        self,
        course: str,
        questions: Iterable[str],
        preload: Iterable[str],
        limits: Limits,
        walls: bool = True,
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
        }
        try:
            self._start(theirs.fileno(), out)
        finally:
            theirs.close()
            os.close(out)
        # if the process has ended already, `_wait` will report it
        with contextlib.suppress(OSError):
            self._orders.sendall(json.dumps(setup).encode() + b"\n")
        self._is_ready = False

    def sandbox(self) -> Sandbox:
        """Fork a process for one submission.

        Raises:
            SandboxError: no process could be forked.
        """
        self._wait()
        ours, theirs = socket.socketpair()
        output, out = os.pipe()
        try:
            if sys.platform == "linux":
                # a larger pipe takes fewer turns if much is printed
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
        """Return whether the process can still be forked."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, and with it everything that was forked from it."""
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
            said = last_line(os.read(self._output, 4000)) or "it said nothing"
            raise SandboxError(f"the sandbox did not start: {said}")

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
            # Passed by a file descriptor, because the command line can be read from
            # inside.
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
