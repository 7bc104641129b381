"""Inside: receive requests, answer them in forks, replace references with stubs.

It serves one judge. The student's code may patch everything here, but nothing here
decides anything: what it sends is compared outside, with numbers that are not available
here.
"""

import builtins
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from nbjudge.grading.sandbox import kernel

TEMPORARY_BYTES = 256 << 20


def main() -> None:
    """Import torch once, then fork a process for every submission.

    The arguments are a socket, a user to become or -1, and "walls" or "open". Every
    message on the socket brings a submission's socket and a descriptor for its output.
    """
    orders, user, walls = (
        socket.socket(fileno=int(sys.argv[1])),
        int(sys.argv[2]),
        sys.argv[3] == "walls",
    )
    if user >= 0:
        kernel.become(user)
    os.closerange(3, orders.fileno())
    os.closerange(orders.fileno() + 1, 4096)
    setup = json.loads(orders.makefile("rb", buffering=0).readline())
    server = Server(walls, setup)
    gc.freeze()
    gc.enable()
    if sys.platform == "linux":
        kernel.use_huge_pages()
    orders.sendall(b"!")
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, 1, 2)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            orders.close()
            _begin(server, setup, walls, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _begin(
    server: "Server",
    setup: dict[str, Any],
    walls: bool,
    judge_fd: int,
    output: int,
) -> None:
    """Become a submission's process."""
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        judge = socket.socket(fileno=judge_fd)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.notebook.open()
        if walls:
            kernel.enclose(TEMPORARY_BYTES)
        # The kernel tells the other end who sent this: the namespace's first process.
        # When it ends, all others end.
        judge.sendall(f"{os.getpid():8}".encode())
        if walls and (child := os.fork()):
            judge.close()
            kernel.wait_for(child)
        kernel.set_limits(setup["limits"])
        server.serve(judge)
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(1)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Server:
    """The program in a student's process, and in the process that it is forked from.

    Args:
        walls: whether it runs in its own process namespace, in which all others may be
            killed.
        setup: {"course": module, "questions": [names], "preload": [modules]}; a course
            whose walls alone are tested is empty.
    """

    def __init__(self, walls: bool, setup: dict[str, Any]):
        import torch

        from nbjudge import in_process
        from nbjudge.grading import wire
        from nbjudge.grading.course import load
        from nbjudge.grading.sandbox.notebook import Notebook
        from nbjudge.grading.sandbox.stubs import replace_answers

        torch.set_num_threads(1)
        # Compiled code computes the same, but compiling takes minutes.
        torch.compile = _uncompiled
        self.walls, self.wire, self.in_process = walls, wire, in_process
        for module in setup["preload"]:
            try:
                importlib.import_module(module)
            except Exception:
                pass  # the cell that imports it will show it
        self.questions = {}
        if setup["course"]:
            course = load(setup["course"])
            self.questions = {x: course.questions[x] for x in setup["questions"]}
            replace_answers(self.questions, course.module, course.packages)
        # Kept here, because a student's code may change it before we need it.
        self.reset = _resetter(torch)
        self.reset(0)  # once here, because torch imports much for it
        self.kill, self.fork, self.wait, self.exit = (
            os.kill,
            os.fork,
            os.waitpid,
            os._exit,
        )
        self.notebook = Notebook()

    def serve(self, judge: socket.socket) -> None:
        """Answer frames until the judge is gone."""
        self.judge = judge
        sys.modules["__main__"] = self.notebook.module
        while True:
            kind, data = self._receive()
            if kind == "cell":
                self.reset(data["seed"])
                error = self.run(data["source"], data["name"])
                self.reset(data["seed"])
                self._kill_others()
                self._send("ran", error)
            elif kind == "question":
                child = self.fork()
                if not child:
                    try:
                        self.answer(data)
                    finally:
                        self.exit(1)
                _, status = self.wait(child, 0)
                self._kill_others()
                self._send("ended", os.waitstatus_to_exitcode(status))

    def run(self, source: str, name: str) -> str:
        """Run a cell; return the error in one line, empty if there is none."""
        try:
            self.notebook.run(source, f"<cell {name}>")
            return ""
        except BaseException as error:
            # SystemExit, too, ends the cell and not the notebook
            return describe(error, f"<cell {name}>")
        finally:
            _flush()

    def answer(self, data: dict[str, Any]) -> None:
        """Answer the requests of one question, in a process of its own."""
        door: Callable[[Any], Any]
        try:
            thing = eval(data["thing"], self.notebook.names)
            door = self.in_process.in_process(self.questions[data["name"]], thing)
        except BaseException as error:
            reason = describe(error)
            door = lambda request: self.in_process.Reply(error=reason)  # noqa: E731
        while True:
            kind, request = self._receive()
            if kind != "ask":
                _flush()
                self.exit(0)
            self.reset(request["seed"])
            try:
                reply = door(self.in_process.Request.from_plain(request["request"]))
            except BaseException as error:
                reply = self.in_process.Reply(error=describe(error))
            _flush()
            try:
                self._send("reply", {"call": request["call"], "reply": reply._asdict()})
            except Exception as error:  # it is too large, or cannot be sent
                reply = self.in_process.Reply(error=describe(error))
                self._send("reply", {"call": request["call"], "reply": reply._asdict()})

    def _send(self, kind: str, data: Any) -> None:
        self.wire.send(self.judge, self.wire.Frame(kind, data), time.monotonic() + 3600)

    def _receive(self) -> Any:
        try:
            return self.wire.receive(self.judge, time.monotonic() + 3600)
        except self.wire.WireError:
            self.exit(0)

    def _kill_others(self) -> None:
        """Kill the processes that a cell or an answer has left behind."""
        if self.walls:
            try:
                self.kill(-1, signal.SIGKILL)
            except OSError:
                pass  # there were none
        _reap()


def _uncompiled(model: Any = None, **options: Any) -> Any:
    """Replace `torch.compile`, with parentheses or without."""
    return model if model is not None else lambda model: model


def _resetter(torch: Any) -> Callable[[int], None]:
    """Return a function that resets global state, with functions as they are now."""
    steps: list[tuple[Callable[..., Any], Any]] = [
        (torch.set_default_device, None),
        (torch.set_default_dtype, torch.float32),
        (torch.set_grad_enabled, True),
        (torch.use_deterministic_algorithms, False),
        (torch.autograd.set_detect_anomaly, False),
        (torch.set_num_threads, 1),
    ]
    # There is no other device here. Until there is one, torch.manual_seed records its
    # caller, which takes as long as the answer does.
    seeds = (torch.default_generator.manual_seed, random.seed)
    known = dict(vars(builtins))

    def reset(seed: int) -> None:
        builtins.__dict__.update(known)
        for function, value in steps:
            function(value)
        for function in seeds:
            function(seed)

    return reset


def describe(error: BaseException, filename: str | None = None) -> str:
    """Describe an error in one line, with the line of the cell in which it occurred."""
    try:
        message = " ".join(str(error).split())[:200]
    except Exception:  # its text may come from the student's code, too
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    lines = [
        entry.lineno
        for entry in traceback.extract_tb(error.__traceback__)
        if entry.filename == filename
    ]
    if isinstance(error, SyntaxError) and error.filename == filename:
        lines.append(error.lineno)
    return (
        f"{text} (line {lines[-1]} of the cell)"
        if lines and "(line" not in text
        else text
    )


def _flush() -> None:
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except Exception:
            pass
