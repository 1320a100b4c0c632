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

    Raises:
        OSError: It cannot be read any further.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(_CHUNKS_WAITING_MAX)
    ended = threading.Event()

    def read() -> None:
        chunk: bytes | OSError = b"not yet the end"
        # A loop that is closed wants nothing more.
        with suppress(RuntimeError):
            while not ended.is_set() and chunk and isinstance(chunk, bytes):
                try:
                    # Past Python's own buffer: its lock must be free when the interpreter ends.
                    chunk = os.read(file_descriptor, _CHUNK_BYTES)
                except OSError as error:
                    chunk = error
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                room.acquire()

    threading.Thread(target=read, name="line-input", daemon=True).start()
    try:
        rest = b""
        while chunk := await chunks.get():
            room.release()
            if isinstance(chunk, OSError):
                raise chunk
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest]
    finally:
        ended.set()
        room.release()
