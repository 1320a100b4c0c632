"""A program that does nothing but write to mapped memory, sync, and say so: the yardstick.

What it loses the disk has lost, and no store could have kept.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

FILE_BYTES = 1 << 20
RECORD_BYTES = 500


def record(number: int) -> bytes:
    """Record ``number`` of the file."""
    return struct.pack("<I", number).ljust(RECORD_BYTES, b"x")


def start_bare_writer(path: Path, said: mmap.mmap) -> int:
    """Fork a writer; it counts in the first bytes of ``said`` how many records are synced."""
    pid = os.fork()
    if pid == 0:
        try:
            _write(path, said)
        finally:
            os._exit(0)
    return pid


def _write(path: Path, said: mmap.mmap) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.posix_fallocate(descriptor, 0, FILE_BYTES)
    os.fsync(descriptor)
    os.fsync(os.open(path.parent, os.O_RDONLY))
    memory = mmap.mmap(descriptor, FILE_BYTES)
    for number in range(FILE_BYTES // RECORD_BYTES):
        position = number * RECORD_BYTES
        memory[position : position + RECORD_BYTES] = record(number)
        os.fdatasync(descriptor)
        said[:4] = struct.pack("<I", number + 1)


def synced(said: mmap.mmap) -> int:
    """How many records it has said are synced."""
    count: int = struct.unpack("<I", said[:4])[0]
    return count


def kept(path: Path) -> int:
    """How many records are in the file, from the first on."""
    content = path.read_bytes()
    for number in range(FILE_BYTES // RECORD_BYTES):
        position = number * RECORD_BYTES
        if content[position : position + RECORD_BYTES] != record(number):
            return number
    return FILE_BYTES // RECORD_BYTES
