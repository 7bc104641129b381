"""Handle Ctrl-C during training: finish and save the current step before stopping.

So does the end of the terminal or of a time limit (SIGHUP, SIGTERM). While modules are
imported, Ctrl-C ends the process.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
]
NOTICE = b"\nstopping after this step%s\n"
AGAIN = b"; Ctrl-C once more stops at once"


def is_first_process() -> bool:
    """Return whether this is the first of the processes that train together."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


class Stopped(KeyboardInterrupt):
    """Training was interrupted, and a checkpoint of its last step was saved.

    Args:
        history: one row per step.
    """

    def __init__(self, history: Sequence[Any]):
        super().__init__(f"training was stopped after step {len(history)}")
        self.history = history


@contextmanager
def at_once() -> Iterator[None]:
    """Let Ctrl-C end the process itself, while there is nothing to lose.

    As a KeyboardInterrupt, it may be swallowed where modules are imported, or become
    another error there.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not under nohup, nor in a test
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def held_back(wanted: bool = True, told: bool = True) -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request to stop, checked by the loop between steps.

    The second Ctrl-C interrupts at once, as usual. The other signals are requests, too,
    however often they come: whoever sends them may not know that one was enough.

    Args:
        wanted: whether to do so; if not, the first Ctrl-C interrupts at once, too.
            Outside the main thread, Ctrl-C cannot be held back.
        told: whether to say so; of several processes, one does.

    Yields:
        An event that is set when the user asks to stop.
    """
    asked = threading.Event()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        if asked.is_set():
            return
        asked.set()
        again = AGAIN if number == signal.SIGINT else b""
        with suppress(OSError):  # the terminal may be gone
            # `print` may be what was interrupted
            os.write(2, NOTICE % again if told else b"")

    before = {
        number: signal.signal(number, ask)
        for number in SIGNALS
        # nohup lets a run outlive its terminal
        if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
