"""Inside: set namespaces, user, limits and refused system calls before students' code.

Bubblewrap isolates submissions from the machine; this module isolates one submission
from the next, in a process that is already warm, whereas bubblewrap can only start a
cold one. We call the kernel with `ctypes`: before Python 3.12, `os` has no `unshare`,
and no distribution that pip installs everywhere contains the bindings of libseccomp.
Linux only.
"""

import ctypes
import errno
import os
import resource
import signal
import struct

_MOUNT, _USER, _PID, _NET, _IPC, _UTS = (
    0x20000,
    0x10000000,
    0x20000000,
    0x40000000,
    0x08000000,
    0x04000000,
)
_NO_SUID, _NO_DEVICES, _NO_EXEC = 2, 4, 8
_DIE_WITH_PARENT, _DUMPABLE, _SECCOMP, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES = (
    1,
    4,
    22,
    24,
    38,
)
# Machine -> its number in audit.h.
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# System calls with their numbers on these two machines: first two that are refused for
# some arguments alone, then those that no notebook needs.
MMAP, SIGACTION = (9, 222), (13, 134)
REFUSED = {
    # memory that no process owns, so that it is not counted, also what waits in these
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "vmsplice": (278, 75),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    # other processes' memory
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    # parts of the kernel that have been used to escape
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "unshare": (272, 97),
    "setns": (308, 268),
}
TEMPORARY_FILES = 10_000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_SHARED_AND_OF_NO_FILE = 0x01 | 0x20  # MAP_SHARED, MAP_ANONYMOUS
_ALLOW, _REFUSE, _IGNORE = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000
_COLLAPSE, _HUGE = 25, 2 << 20  # MADV_COLLAPSE


def become(user: int) -> None:
    """Stop being root, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # A process that has changed its user cannot open its own /proc/self until it is
    # made dumpable again.
    _call(ctypes.CDLL(None, use_errno=True).prctl, _DUMPABLE, 1, 0, 0, 0)


def use_huge_pages() -> None:
    """Move this process's own memory to huge pages; before Linux 6.1, do nothing.

    A fork copies an entry for each page, and there are fewer of these pages.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    with open("/proc/self/maps") as file:
        mappings = [line.split() for line in file]
    for span, access, _, _, _, *name in mappings:
        if access == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in span.split("-"))
            start, end = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
            if start < end:
                madvise(start, end - start, _COLLAPSE)


def enclose(temporary_bytes: int) -> None:
    """Move into new namespaces, and return in a child process without privileges.

    Between the two processes is the first process of the namespace: it waits for the
    child, and when it ends, all others end.

    Args:
        temporary_bytes: size of the new /tmp.

    Raises:
        OSError: the kernel does not permit it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _call(library.unshare, _USER | _MOUNT | _PID | _NET | _IPC | _UTS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _and_wait(library)
    options = f"size={temporary_bytes},nr_inodes={TEMPORARY_FILES},mode=1777".encode()
    _call(library.mount, b"tmpfs", b"/tmp", b"tmpfs", _NO_SUID | _NO_DEVICES, options)
    # If the kernel forbids either of these, only the outer walls protect.
    library.mount(b"proc", b"/proc", b"proc", _NO_SUID | _NO_DEVICES | _NO_EXEC, None)
    try:
        _write("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass
    os.chdir("/tmp")
    _drop_privileges(library)


def wait_for(child: int) -> None:
    """Wait for a child to end, and reap every orphan until then; then exit."""
    while True:
        try:
            if os.wait()[0] == child:
                break
        except ChildProcessError:
            break
    os._exit(0)


def _and_wait(library: ctypes.CDLL) -> None:
    child = os.fork()
    if child:
        os.closerange(0, 4096)
        wait_for(child)
    _call(library.prctl, _DIE_WITH_PARENT, 9, 0, 0, 0)


def _drop_privileges(library: ctypes.CDLL) -> None:
    for capability in range(64):
        library.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _call(library.capset, header, none)
    _call(library.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _refuse_calls(library)


def _refuse_calls(library: ctypes.CDLL) -> None:
    """Make the kernel refuse some system calls, for good.

    It does not do so on machines of another kind, which the self-test detects.
    """
    if (name := os.uname().machine) not in MACHINES:
        return
    machine, column = MACHINES[name], list(MACHINES).index(name)
    mmap, sigaction = MMAP[column], SIGACTION[column]
    refused = [call for it in REFUSED.values() if (call := it[column]) is not None]
    # The kernel runs this program for every system call. A step is (instruction,
    # operand, steps to skip if the comparison holds, steps to skip if not). It can load
    # the call's number, its machine, and its arguments. Shared memory without a file
    # stays in use, but is not counted, once a process says that it does not need it
    # (MADV_DONTNEED). If a process ignores the end of its children, their CPU time is
    # not counted: it cannot change how SIGCHLD is handled, but the call seems to
    # succeed.
    calls = [(_IF_EQUAL, call, len(refused) - i, 0) for i, call in enumerate(refused)]
    program = [
        *((_LOAD, 4, 0, 0), (_IF_EQUAL, machine, 1, 0), (_RETURN, _REFUSE, 0, 0)),
        # numbers from another table of calls
        *((_LOAD, 0, 0, 0), (_IF_AT_LEAST, 0x40000000, 0, 1), (_RETURN, _REFUSE, 0, 0)),
        *(
            (_IF_EQUAL, mmap, 0, 5),
            (_LOAD, 40, 0, 0),
            (_AND, _SHARED_AND_OF_NO_FILE, 0, 0),
        ),
        *(
            (_IF_EQUAL, _SHARED_AND_OF_NO_FILE, 0, 1),
            (_RETURN, _REFUSE, 0, 0),
            (_RETURN, _ALLOW, 0, 0),
        ),
        *((_IF_EQUAL, sigaction, 0, 8), (_LOAD, 16, 0, 0)),
        *((_IF_EQUAL, signal.SIGCHLD, 0, 4), (_LOAD, 24, 0, 0), (_IF_EQUAL, 0, 0, 3)),
        *((_LOAD, 28, 0, 0), (_IF_EQUAL, 0, 0, 1)),
        *((_RETURN, _ALLOW, 0, 0), (_RETURN, _IGNORE, 0, 0)),
        *(*calls, (_RETURN, _ALLOW, 0, 0), (_RETURN, _REFUSE, 0, 0)),
    ]
    steps = b"".join(
        struct.pack("HBBI", what, yes, no, value) for what, value, yes, no in program
    )
    listing = ctypes.create_string_buffer(steps, len(steps))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(listing))
    _call(library.prctl, _SECCOMP, 2, header, 0, 0)


def set_limits(limits: dict[str, int]) -> None:
    """Set resource limits, by their names in `resource`.

    AS, the address space, is added to what this process already has.
    """
    for name, value in limits.items():
        if name == "AS":
            with open("/proc/self/statm") as pages:
                value += int(pages.read().split()[0]) * resource.getpagesize()
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
