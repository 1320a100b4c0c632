"""Lines from a file, a pipe or a keyboard, as they arrive."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus

LINE_BYTES_MAX: Final = 64 << 20
"""More than any message that brokers take, in whichever form; nothing larger is kept in memory."""

_CHUNK_BYTES = 1 << 20
_CHUNKS_WAITING_MAX = 4


async def iter_lines(file_descriptor: int) -> AsyncGenerator[list[bytes], None]:
    """Yield the available lines, without their ends; wait while there are none.

    A last line without an end is a line.

    Args:
        file_descriptor: Open for reading. A daemon thread reads it, so that an idle keyboard does
            not keep the process from ending.

    Raises:
        OSError: It cannot be read any further.
        CommandFailed: A line has no end within ``LINE_BYTES_MAX``.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(_CHUNKS_WAITING_MAX)
    ended = threading.Event()

    def read() -> None:
        chunk: bytes | OSError = b"not yet the end"
        # The loop may be closed already.
        with suppress(RuntimeError):
            while not ended.is_set() and chunk and isinstance(chunk, bytes):
                try:
                    # Without Python's buffer, whose lock must be free when the interpreter ends.
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
            if len(rest) > LINE_BYTES_MAX:
                text = f"a line of more than {LINE_BYTES_MAX >> 20} MiB is no message"
                raise CommandFailed(text, ExitStatus.USAGE)
        if rest:
            yield [rest]
    finally:
        ended.set()
        room.release()
