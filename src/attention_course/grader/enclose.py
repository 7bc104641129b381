"""Namespaces for one submission, made by a process that is warm already and is itself behind bubblewrap's walls.

Bubblewrap keeps submissions from the machine; this keeps one submission from the next. Linux only.
"""

import ctypes
import os
import resource

_MOUNT, _USER, _PID, _NET, _IPC, _UTS = 0x20000, 0x10000000, 0x20000000, 0x40000000, 0x08000000, 0x04000000
_NO_SUID, _NO_DEVICES, _NO_EXEC = 2, 4, 8
_DIE_WITH_PARENT, _DUMPABLE, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES = 1, 4, 24, 38


def become(user: int) -> None:
    """Give up being root, for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # A process that has changed its user may not open its own /proc/self until it says so.
    _call(ctypes.CDLL(None, use_errno=True).prctl, _DUMPABLE, 1, 0, 0, 0)


def enclose(temporary_bytes: int) -> None:
    """Move this process into namespaces of its own and return in a child that has no privileges.

    Between the two stands the namespace's first process: it waits for the child, and its end is the end of all.

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
    options = f"size={temporary_bytes},mode=1777".encode()
    _call(library.mount, b"tmpfs", b"/tmp", b"tmpfs", _NO_SUID | _NO_DEVICES, options)
    # Where the kernel forbids either, the outer walls stand alone.
    library.mount(b"proc", b"/proc", b"proc", _NO_SUID | _NO_DEVICES | _NO_EXEC, None)
    try:
        _write("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass
    os.chdir("/tmp")
    _drop_privileges(library)


def wait_for(child: int) -> None:
    """Wait for a child and for every orphan until it has ended, then end."""
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


def set_limits(limits: dict[str, int]) -> None:
    """Set resource limits, by the names that `resource` has for them."""
    for name, value in limits.items():
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
