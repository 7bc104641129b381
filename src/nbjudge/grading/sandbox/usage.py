"""Memory and CPU time that the processes of a sandbox use, read from /proc.

A cgroup would count both, but it can be created only by root, or by a user who has been
given one; the kernel's own limits (`setrlimit`) apply to one process, not to the sum of
all.
"""

import contextlib
import glob
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

READINGS, PAUSE_SECONDS = 3, 0.01


def uses_more(leader: int, limit: int) -> bool:
    """Return whether the processes of a namespace use more memory than the limit.

    Memory pages that they share count once.

    Args:
        leader: the first process of the namespace.
        limit: the limit in bytes.
    """
    upper = sum(_kilobytes(text) for text in _of_processes(leader, "status"))
    # cheap, but too high, because forks share pages: look closer only if it matters
    if upper << 10 <= limit:
        return False
    # what two processes share counts twice if one is forked while their files are read
    for _ in range(READINGS):
        if memory_used(leader) <= limit:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def memory_used(leader: int) -> int:
    """Add up the memory of a namespace in bytes; pages that are shared count once.

    Args:
        leader: the first process of the namespace.
    """
    # A process may make its own smaps_rollup unreadable for us.
    texts = _of_processes(leader, "smaps_rollup", "status")
    return sum(map(_kilobytes, texts)) << 10


def cpu_used(leader: int) -> float:
    """Add up the CPU time of a namespace in seconds, including ended processes.

    Args:
        leader: the first process of the namespace.
    """
    # utime, stime, cutime, cstime; the name before them may contain anything.
    ticks = (
        text.rpartition(")")[2].split()[11:15] for text in _of_processes(leader, "stat")
    )
    return sum(int(tick) for four in ticks for tick in four) / os.sysconf("SC_CLK_TCK")


def is_idle(leader: int) -> bool:
    """Return whether every thread of a namespace is waiting for something.

    A thread that only waits for its turn on a busy machine is not idle.

    Args:
        leader: the first process of the namespace.
    """
    for place in glob.iglob(f"{_proc_of(leader)}/[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = Path(place).read_text(errors="replace")
            if text.rpartition(")")[2].split()[0] in "RD":
                return False
    return True


def processes_of(leader: int) -> set[str]:
    """Return the ids of a namespace's processes, as they are inside.

    Args:
        leader: the first process of the namespace.
    """
    return {name for name in os.listdir(_proc_of(leader)) if name.isdigit()}


def _proc_of(leader: int) -> Path:
    """Return the namespace's own /proc, as Linux shows it from outside."""
    return Path("/proc", str(leader), "root", "proc")


def _of_processes(leader: int, *files: str) -> Iterator[str]:
    """Yield, for each process, the first of these files that can be read."""
    processes = _proc_of(leader)
    with contextlib.suppress(OSError):
        for name in os.listdir(processes):
            for file in files if name.isdigit() else ():
                with contextlib.suppress(OSError):  # it has just ended
                    yield (processes / name / file).read_text(errors="replace")
                    break


def _kilobytes(text: str) -> int:
    """Add up the memory in use or swapped out, from a status or smaps_rollup file."""
    names = (
        "RssAnon",
        "RssShmem",
        "VmSwap",
        "HugetlbPages",
        "Pss_Anon",
        "Pss_Shmem",
        "SwapPss",
        "Private_Hugetlb",
    )
    return sum(
        int(value)
        for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
        if name in names
    )
