"""A loop in a thread, for programs without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class LoopThread:
    """A loop in a thread that lives as long as the children it starts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="local-cluster", daemon=True
        )
        self._thread.start()

    def call(self, step: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run a step there, and wait for its end."""
        future = asyncio.run_coroutine_threadsafe(step(), self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the waiting thread: the step ends before its caller goes on.
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
