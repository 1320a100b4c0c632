"""Starting and stopping what needs a loop, from a program that has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from ariane_servicekit.running.loop_thread import LoopThread

_ResultT = TypeVar("_ResultT")


class BlockingLife(ABC):
    """What is started and stopped, with a thread of its own where no loop runs."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = None

    @abstractmethod
    async def start(self) -> None:
        """Start all."""

    @abstractmethod
    async def stop(self) -> dict[str, int]:
        """Stop all; return the exit statuses by name."""

    def start_blocking(self) -> None:
        """Start all from a program without a loop; a thread of the cluster's own runs one."""
        self._thread = LoopThread()
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
