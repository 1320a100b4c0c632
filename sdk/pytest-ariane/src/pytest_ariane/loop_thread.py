"""A loop in a thread of its own, on which the cluster runs beside the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


class LoopThread:
    """Runs coroutines for callers without a loop, or with another one."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, step: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine on the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self.call(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
