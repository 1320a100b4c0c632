"""The disk of a server that keeps a backlog: slowed, dropped from memory, and how much was read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

CGROUPS: Final = Path("/sys/fs/cgroup")
LIMITED: Final = "ariane-backlog"


class Limits(NamedTuple):
    """What a server may read."""

    device: str
    """The numbers of the disk."""
    read_mb: float
    """Megabytes a second; 0: any."""
    reads: int
    """Reads a second."""


def device_of(folder: Path) -> str:
    """The numbers of the whole disk that a folder is on."""
    number = folder.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (block / "partition").exists():
        block = block.parent
    return (block / "dev").read_text().strip()


@contextmanager
def slowed(pids: Sequence[int], limits: Limits) -> Iterator[None]:
    """Hold the reads of processes to limits."""
    device, read_mb, reads = limits
    if not read_mb:
        yield
        return
    old = CGROUPS / "blkio"
    folder = (old if old.exists() else CGROUPS) / LIMITED
    folder.mkdir(exist_ok=True)
    bytes_max = round(read_mb * 1e6)
    if old.exists():
        (folder / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_max}")
        (folder / "blkio.throttle.read_iops_device").write_text(f"{device} {reads}")
    else:
        (CGROUPS / "cgroup.subtree_control").write_text("+io")
        (folder / "io.max").write_text(f"{device} rbps={bytes_max} riops={reads}")
    for each in pids:
        (folder / "cgroup.procs").write_text(str(each))
    try:
        yield
    finally:
        for each in pids:
            (folder.parent / "cgroup.procs").write_text(str(each))
        folder.rmdir()


def family(pid: int) -> list[int]:
    """A process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def read_bytes(pid: int) -> int:
    """What a process has read from disks since its start."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def drop(folder: Path) -> None:
    """Have the system forget the files of a store."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def keep(folder: Path) -> None:
    """Have the system have the files of a store in memory, and nothing left to write."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass
