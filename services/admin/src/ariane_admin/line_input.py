"""Lines from a file, a pipe or a keyboard, as they come."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import CancelledError
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
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_WAITING_MAX)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A loop that is closed, or closes while a chunk waits, wants nothing more.
        with suppress(RuntimeError, CancelledError):
            while True:
                # Past Python's own buffer: its lock must be free when the interpreter ends.
                chunk = os.read(file_descriptor, _CHUNK_BYTES)
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, name="line-input", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]
