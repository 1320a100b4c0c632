"""Starting and stopping what needs a loop, from a program that has none."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

_ResultT = TypeVar("_ResultT")


class BlockingLife(ABC):
    """What is started and stopped, with a thread of its own where no loop runs."""

    def __init__(self) -> None:
        self._thread: _LoopThread | None = None

    @abstractmethod
    async def start(self) -> None:
        """Start all."""

    @abstractmethod
    async def stop(self) -> dict[str, int]:
        """Stop all; return the exit statuses by name."""

    def start_blocking(self) -> None:
        """Start all from a program without a loop; a thread of the cluster's own runs one."""
        self._thread = _LoopThread()
        try:
            self._thread.call(self.start)
        except BaseException:
            self.stop_blocking()
            raise

    def stop_blocking(self) -> dict[str, int]:
        """``stop`` for a cluster of ``start_blocking``."""
        if self._thread is None:
            return {}
        try:
            return self._thread.call(self.stop)
        finally:
            self._close_thread()

    def call_blocking(self, step: Callable[[], Coroutine[Any, Any, _ResultT]]) -> _ResultT:
        """Run a step of a blocking cluster: ``call_blocking(cluster.brokers[0].restart)``.

        Raises:
            RuntimeError: The cluster was not started by ``start_blocking``.
        """
        if self._thread is None:
            msg = "the cluster was not started with start_blocking"
            raise RuntimeError(msg)
        return self._thread.call(step)

    def __enter__(self) -> Self:
        self.start_blocking()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_blocking()

    def _close_thread(self) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None


class _LoopThread:
    """A loop in a thread that lives as long as the children it starts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="local-cluster", daemon=True
        )
        self._thread.start()

    def call(self, step: Callable[[], Coroutine[Any, Any, _ResultT]]) -> _ResultT:
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
