"""The filter of system calls, as the program that the kernel runs before each of them.

The kernel shows the program this, little-endian on the machines named below::

    0        4        8                16               24               32
    +--------+--------+----------------+----------------+----------------+------- - -
    | number |  arch  | instruction    | argument 0     | argument 1     | argument 2
    +--------+--------+----------------+----------------+----------------+------- - -

and each instruction of it is eight bytes::

    0        2    3    4        8
    +--------+----+----+--------+     jt, jf: how many instructions are passed over
    |  code  | jt | jf |   k    |     when a comparison with k holds, or fails
    +--------+----+----+--------+

The program, top to bottom: another architecture ends the process; a call on the list is allowed;
reading and writing are allowed on the channel alone; memory is given unless it is to be executed;
everything else fails with EPERM, so that a filter sees an exception and its author a reason.
"""

from __future__ import annotations

import errno
from struct import Struct
from typing import Final

INSTRUCTION: Final = Struct("<HBBI")

LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS: the word at offset k.
EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
HAS_BITS: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K

NUMBER_AT: Final = 0
ARCH_AT: Final = 4
ARGUMENT_0_AT: Final = 16
ARGUMENT_2_AT: Final = 32

ALLOW: Final = 0x7FFF0000
REFUSE: Final = 0x00050000 | errno.EPERM
KILL_PROCESS: Final = 0x80000000

PROT_EXEC: Final = 0x4

ARCHITECTURES: Final = {"x86_64": 0xC000003E}
"""Machines (``platform.machine()``) whose calls are known here."""

CALLS: Final = {
    "rt_sigaction": 13,
    "rt_sigprocmask": 14,
    "rt_sigreturn": 15,
    "munmap": 11,
    "brk": 12,
    "sched_yield": 24,
    "mremap": 25,
    "madvise": 28,
    "nanosleep": 35,
    "getpid": 39,
    "exit": 60,
    "gettimeofday": 96,
    "sigaltstack": 131,
    "gettid": 186,
    "time": 201,
    "futex": 202,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "clock_getres": 229,
    "clock_nanosleep": 230,
    "exit_group": 231,
    "getrandom": 318,
    "rseq": 334,
}
"""System calls that are always allowed, with the numbers of x86_64."""

CHANNEL_CALLS: Final = {"read": 0, "write": 1, "readv": 19}
MEMORY_CALLS: Final = {"mmap": 9, "mprotect": 10}
"""Both have the protection as argument 2."""


def program(machine: str, channel: int, *, executable_memory: bool) -> bytes:
    """The program for one worker.

    Args:
        machine: One of ``ARCHITECTURES``.
        channel: The file descriptor that leads to the parent.
        executable_memory: Whether memory may be executed, as the WebAssembly compiler needs.
    """
    lines = [
        INSTRUCTION.pack(LOAD, 0, 0, ARCH_AT),
        INSTRUCTION.pack(EQUAL, 1, 0, ARCHITECTURES[machine]),
        INSTRUCTION.pack(RETURN, 0, 0, KILL_PROCESS),
        INSTRUCTION.pack(LOAD, 0, 0, NUMBER_AT),
    ]
    allowed = list(CALLS.values())
    if executable_memory:
        allowed += MEMORY_CALLS.values()
    for number in allowed:
        lines += _guarded(number, [INSTRUCTION.pack(RETURN, 0, 0, ALLOW)])
    on_channel = [
        INSTRUCTION.pack(LOAD, 0, 0, ARGUMENT_0_AT),
        INSTRUCTION.pack(EQUAL, 0, 1, channel),
        INSTRUCTION.pack(RETURN, 0, 0, ALLOW),
        INSTRUCTION.pack(RETURN, 0, 0, REFUSE),
    ]
    for number in CHANNEL_CALLS.values():
        lines += _guarded(number, on_channel)
    not_executed = [
        INSTRUCTION.pack(LOAD, 0, 0, ARGUMENT_2_AT),
        INSTRUCTION.pack(HAS_BITS, 1, 0, PROT_EXEC),
        INSTRUCTION.pack(RETURN, 0, 0, ALLOW),
        INSTRUCTION.pack(RETURN, 0, 0, REFUSE),
    ]
    if not executable_memory:
        for number in MEMORY_CALLS.values():
            lines += _guarded(number, not_executed)
    lines.append(INSTRUCTION.pack(RETURN, 0, 0, REFUSE))
    return b"".join(lines)


def _guarded(number: int, lines: list[bytes]) -> list[bytes]:
    """Instructions for one call alone; for another, all of them are passed over."""
    return [INSTRUCTION.pack(EQUAL, 0, len(lines), number), *lines]
