"""How a worker locks itself in; none of this can be undone.

Called by a process with one thread, before it has seen anything of the filter.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from collections.abc import Callable
from typing import Final

from ariane_filter.jail.seccomp import ARCHITECTURES, INSTRUCTION, program

CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_SET_NO_NEW_PRIVS: Final = 38
SECCOMP_MODE_FILTER: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)


class CannotLock(Exception):
    """The kernel lacks, or does not grant, a part of the jail."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def leave_namespaces() -> None:
    """Enter empty namespaces: no user, no network, nothing to share.

    The process keeps its access to the files that it owns, so that it can still import.

    Raises:
        CannotLock: The kernel does not allow it.
    """
    flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    _ask("namespaces of its own (unshare)", _libc.unshare, flags)
    _ask("an end with its parent (prctl)", _libc.prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def limit_memory(memory_bytes: int) -> None:
    """Limit the growth of the process, and forbid core dumps, files and further processes."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        pages = int(file.read().split()[0])
    total = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (total, total))
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(what, (0, 0))


def forbid_calls(channel: int, *, executable_memory: bool) -> None:
    """Give up all system calls but a few, and check that they are forbidden.

    Args:
        channel: The file descriptor that leads to the parent.
        executable_memory: Whether memory may be executed.

    Raises:
        CannotLock: The kernel does not allow it, or lets a forbidden call pass nevertheless.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise CannotLock(f"system calls of {machine} are not known")
    lines = program(machine, channel, executable_memory=executable_memory)
    filter_ = _Program(len(lines) // INSTRUCTION.size, lines)
    _ask("an end of privileges (prctl)", _libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _ask("memory that others cannot read (prctl)", _libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    reference = ctypes.byref(filter_)
    _ask("a filter of calls (seccomp)", _libc.prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reference)
    for name, attempt in _FORBIDDEN.items():
        try:
            attempt()
        except PermissionError:
            continue
        except OSError as error:
            raise CannotLock(f"{name} was not forbidden: {error}") from error
        raise CannotLock(f"{name} was not forbidden")


_FORBIDDEN: Final[dict[str, Callable[[], object]]] = {
    "opening a file": lambda: os.open("/dev/null", os.O_RDONLY),
    "looking at a file": lambda: os.stat("/"),  # noqa: PTH116 - must fail
    "starting a process": os.fork,
    "sending a signal": lambda: os.kill(os.getpid(), 0),
    "making a pipe": os.pipe,
}


def _ask(what: str, function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise CannotLock(f"the kernel does not give {what}: {reason}")
