"""What this machine is like for a store: its file system, disk, memory, limits and clock."""

from __future__ import annotations

import ctypes
import os
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FLUSHES: Final = 50
"""Small writes that are forced to the disk, to measure it."""

FLUSH_BYTES: Final = 4096

VM_SETTINGS: Final = (
    *("swappiness", "dirty_background_ratio", "dirty_background_bytes", "dirty_ratio"),
    "dirty_bytes",
)

_TIME_ERROR: Final = 5
"""What the kernel answers about a clock that nothing disciplines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One machine, for a store in one folder; what cannot be found out is None or missing."""

    path: Path
    """The folder."""
    mount_point: str = ""
    """Where its file system is mounted."""
    file_system: str = ""
    """Its type, such as "ext4"."""
    mount_options: frozenset[str] = frozenset()
    """The options of mount and file system."""
    scheduler: str = ""
    """The I/O scheduler of its disk."""
    memory_bytes: int = 0
    """The machine's memory."""
    vm: Mapping[str, int]
    """Values of ``/proc/sys/vm``."""
    open_files: int
    """How many files a process may have open that is started like this one."""
    clock_disciplined: bool | None = None
    """Whether something keeps the clock right."""
    flush_ms: Sequence[float] = ()
    """How long each of some small writes took until it was on the disk, ascending."""
    flush_error: str = ""
    """Why that was not measured; empty if it was."""


def gather_host_facts(path: Path) -> HostFacts:
    """Look at this machine, and measure the disk below a folder, in a file of its own.

    Raises:
        OSError: There is no such folder.
    """
    path = path.resolve(strict=True)
    mount_point, file_system, options = _mount_of(path)
    flush_ms, flush_error = _measured(path)
    return HostFacts(
        path=path,
        mount_point=mount_point,
        file_system=file_system,
        mount_options=options,
        scheduler=_scheduler_of(path),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        vm={name: int(text) for name in VM_SETTINGS if (text := _read(f"/proc/sys/vm/{name}"))},
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        clock_disciplined=_clock_disciplined(),
        flush_ms=flush_ms,
        flush_error=flush_error,
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError:
        return ""


def _mount_of(path: Path) -> tuple[str, str, frozenset[str]]:
    """Mount point, type and options of the file system of a folder; empty if unknown."""
    found = "", "", frozenset[str]()
    for line in _read("/proc/self/mountinfo").splitlines():
        before, _, behind = line.partition(" - ")
        fields, types = before.split(), behind.split()
        point = fields[4].replace("\\040", " ")
        if path.is_relative_to(point) and len(point) >= len(found[0]):
            options = {*fields[5].split(","), *types[-1].split(",")}
            found = point, types[0], frozenset(options)
    return found


def _scheduler_of(path: Path) -> str:
    device = path.stat().st_dev
    folder = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    for place in (folder, folder.resolve().parent):  # A partition has that of its disk.
        words = _read(f"{place}/queue/scheduler").split()
        chosen = [word.strip("[]") for word in words if word.startswith("[")]
        if chosen:
            return chosen[0]
    return ""


def _clock_disciplined() -> bool | None:
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024))
    except (AttributeError, OSError):
        return None
    return None if state < 0 else bool(state != _TIME_ERROR)


def _measured(path: Path) -> tuple[Sequence[float], str]:
    taken_ms = []
    try:
        with tempfile.TemporaryFile(dir=path, buffering=0) as file:
            for _ in range(FLUSHES):
                begin = time.perf_counter()
                file.write(bytes(FLUSH_BYTES))
                os.fdatasync(file.fileno())
                taken_ms.append((time.perf_counter() - begin) * 1000)
    except OSError as error:
        return (), str(error)
    return sorted(taken_ms), ""
