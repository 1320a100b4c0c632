"""Held receives, which end empty when the gateway stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

AnswerT = TypeVar("AnswerT")


class OpenHolds:
    """All receives in work."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = asyncio.Event()

    def __len__(self) -> int:
        """How many are in work."""
        return len(self._tasks)

    async def hold(self, receiving: Coroutine[Any, Any, AnswerT]) -> AnswerT | None:
        """The result of a receive; None if the gateway stopped meanwhile."""
        if self._closing.is_set():
            receiving.close()
            return None
        task = asyncio.ensure_future(receiving)
        self._tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._closing.is_set():
                task.cancel()
                raise
            return None
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        """End all of them, and let no other begin."""
        self._closing.set()
        for task in tuple(self._tasks):
            task.cancel()
