"""Gives fetched messages back after the application has not asked for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ariane_sdk.runtime.tasks import start_task


class IdleReturn:
    """A timer that gives messages back."""

    def __init__(self, give_back: Callable[[], Coroutine[Any, Any, None]], after_s: float) -> None:
        self._give_back = give_back
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._returning: dict[asyncio.Task[None], None] = {}

    def begin(self) -> None:
        """Start the timer."""
        self.end()
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._return)

    def end(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    async def close(self) -> None:
        """Stop the timer, and wait for returns that are in progress."""
        self.end()
        await asyncio.gather(*self._returning)

    def _return(self) -> None:
        returning = start_task(self._give_back(), "give-back-messages")
        self._returning[returning] = None
        returning.add_done_callback(self._returning.pop)
