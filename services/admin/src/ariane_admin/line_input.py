"""Lines from a file, a pipe or a keyboard, as they come."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress

_CHUNK_BYTES = 1 << 20
_CHUNKS_WAITING_MAX = 4


async def iter_lines(file_descriptor: int) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines that are there, without their ends; waits when there are none.

    A last line without an end is a line.

    Args:
        file_descriptor: Open for reading. A daemon thread reads it, so that a keyboard that says
            nothing does not keep the process from ending.
    """
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(_CHUNKS_WAITING_MAX)
    ended = threading.Event()

    def read() -> None:
        # A loop that is closed and a file that is closed want nothing more.
        with suppress(RuntimeError, OSError):
            while not ended.is_set():
                # Past Python's own buffer: its lock must be free when the interpreter ends.
                chunk = os.read(file_descriptor, _CHUNK_BYTES)
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                if not chunk:
                    return
                room.acquire()

    threading.Thread(target=read, name="line-input", daemon=True).start()
    try:
        rest = b""
        while chunk := await chunks.get():
            room.release()
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest]
    finally:
        ended.set()
        room.release()
