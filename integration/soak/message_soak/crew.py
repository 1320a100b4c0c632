"""The producers and consumers of a soak, as processes that come and go."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PACKAGE_PATH: Final = Path(__file__).parents[1]
STOP_TIMEOUT_S: Final = 90.0
"""Seconds that a member may take to stop in order before it counts as hung."""


class MemberFailed(Exception):
    """A member ended although nobody asked it to, or did not end when asked."""


class Member:
    """One producer or consumer, over all its lives."""

    def __init__(self, name: str, command: Sequence[str], log_path: Path) -> None:
        """Nothing runs before ``start``.

        Args:
            name: What people read.
            command: Module and arguments for Python.
            log_path: Where everything that it says goes, of all lives.
        """
        self.name = name
        self._command = command
        self._log_path = log_path
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Begin a life."""
        with self._log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(PACKAGE_PATH)},
                start_new_session=True,
            )

    async def end(self, how: signal.Signals) -> None:
        """End its life.

        Raises:
            MemberFailed: It had ended by itself, or does not end.
        """
        process = self._process
        if process is None:
            return
        if process.returncode is not None:
            raise MemberFailed(
                f"{self.name} ended by itself ({process.returncode}); {self._said()}"
            )
        process.send_signal(how)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                status = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            message = f"{self.name} did not stop in {STOP_TIMEOUT_S:.0f} s; {self._said()}"
            raise MemberFailed(message) from None
        self._process = None
        # A member so young that it does not listen for signals yet ends by the signal itself.
        if how is signal.SIGTERM and status not in (0, -how):
            raise MemberFailed(f"{self.name} stopped with status {status}; {self._said()}")

    def _said(self) -> str:
        last = self._log_path.read_text(errors="replace").splitlines()[-3:]
        return f"its last words in {self._log_path}: " + (" | ".join(last) or "none")

    async def discard(self) -> None:
        """Kill it if it still runs; for the way out."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process = None
