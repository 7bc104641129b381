"""What the processes of a sandbox use: memory and CPU time, read from /proc.

A memory cgroup would count both, but only root, or who has been given one, can make it;
limits of the kernel's own (`setrlimit`) are of one process, not of their sum.
"""

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path


def uses_more(leader: int, limit: int) -> bool:
    """Whether the processes of a namespace use more memory than so many bytes.

    Pages that they share count once.

    Args:
        leader: its first process.
        limit: the bytes.
    """
    upper = sum(_kilobytes(text) for text in _of_processes(leader, "status"))
    # cheap, and above the truth, as forks share pages: look closer only where it
    # matters
    if upper << 10 <= limit:
        return False
    # A process may close its own smaps_rollup to us.
    used = sum(
        _kilobytes(text) for text in _of_processes(leader, "smaps_rollup", "status")
    )
    return used << 10 > limit


def cpu_used(leader: int) -> float:
    """Add up the seconds of CPU time of a namespace, with processes that have ended.

    Args:
        leader: its first process.
    """
    # utime, stime, cutime, cstime; the name before them may hold anything.
    ticks = (
        text.rpartition(")")[2].split()[11:15] for text in _of_processes(leader, "stat")
    )
    return sum(int(tick) for four in ticks for tick in four) / os.sysconf("SC_CLK_TCK")


def is_idle(leader: int) -> bool:
    """Whether every thread of a namespace waits for something.

    One that only waits for its turn on a busy machine does not.

    Args:
        leader: its first process.
    """
    # root/proc: the namespace's own /proc, as Linux shows it to those outside
    for place in glob.iglob(f"/proc/{leader}/root/proc/[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = Path(place).read_text(errors="replace")
            if text.rpartition(")")[2].split()[0] in "RD":
                return False
    return True


def _of_processes(leader: int, *files: str) -> Iterator[str]:
    """Read of each process the first of these files that can be read."""
    processes = Path(f"/proc/{leader}/root/proc")
    with contextlib.suppress(OSError):
        for name in os.listdir(processes):
            for file in files if name.isdigit() else ():
                with contextlib.suppress(OSError):  # it has just ended
                    yield (processes / name / file).read_text(errors="replace")
                    break


def _kilobytes(text: str) -> int:
    """Add up what is in memory or swapped out, of a status or a smaps_rollup."""
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
