"""One call for all who ask the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
AnswerT = TypeVar("AnswerT")


class SingleFlight(Generic[KeyT, AnswerT]):
    """Calls by what is asked; each goes on although who asked leaves, for the others."""

    def __init__(self) -> None:
        self._calls: dict[KeyT, asyncio.Task[AnswerT]] = {}

    async def ask(self, key: KeyT, make: Callable[[], Coroutine[Any, Any, AnswerT]]) -> AnswerT:
        """The answer of the call that is under way, or else of a new one.

        Raises:
            Exception: That of the call.
        """
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = asyncio.create_task(make())
            call.add_done_callback(partial(self._ended, key))
        return await asyncio.shield(call)

    def close(self) -> None:
        """Give up all calls."""
        for call in self._calls.values():
            call.cancel()

    def _ended(self, key: KeyT, call: asyncio.Task[AnswerT]) -> None:
        del self._calls[key]
        if not call.cancelled():
            call.exception()  # Retrieved, also when nobody waits any longer.
