"""Sends the dead letters of a group back, in small calls; writes a line after each: how many.

Run as ``python redriver.py NAME_SERVERS GROUP CALL_COUNT``. It is made to be killed.
"""

from __future__ import annotations

import asyncio
import os
import sys

from ariane_sdk import DeadLetters, Redrive
from ariane_sdk.cluster import dead_letters as _dead_letters


async def _run(name_servers: str, group: str) -> None:
    def tell(progress: Redrive) -> None:
        os.write(1, f"{progress.redriven_count}\n".encode())

    async with DeadLetters(name_servers) as letters:
        await letters.redrive(group, to_topic=True, on_progress=tell)


if __name__ == "__main__":
    _dead_letters.REDRIVE_COUNT = int(sys.argv[3])  # type: ignore[misc] - smaller steps to kill at.
    asyncio.run(_run(*sys.argv[1:3]))
