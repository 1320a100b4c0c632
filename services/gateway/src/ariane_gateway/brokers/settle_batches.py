"""Settlements on their way to brokers: what comes while a call is under way shares the next one.

Each client settles its messages one by one. A call costs a broker as much for one message as for
many: its record in the log, and the wait for the disk. A lone settlement waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

CALLS_MAX: Final = 2
"""Calls of one kind that are under way: with two, the broker need not wait for the next one."""

TOGETHER_MAX: Final = 1024
"""Settlements in one call, not counting the last caller's others; brokers take 8192."""

KeyT = TypeVar("KeyT")
EntryT = TypeVar("EntryT")
ResultT = TypeVar("ResultT")


class _Waiting(NamedTuple, Generic[EntryT, ResultT]):
    """What one caller settles."""

    entries: Sequence[EntryT]
    """At least one."""
    results: asyncio.Future[Sequence[ResultT]]
    """Holds a result for each."""


@dataclass(slots=True, eq=False)
class _Pending(Generic[EntryT, ResultT]):
    """What goes to one broker for one group."""

    waiting: deque[_Waiting[EntryT, ResultT]] = field(default_factory=deque)
    """What no call carries yet."""
    call_count: int = 0
    """Calls under way."""

    def take(self) -> list[_Waiting[EntryT, ResultT]]:
        """Take what the next call carries.

        Where one call is not enough for all, those whose callers have left are dropped: these ask
        again, each second, and at a broker that is silent there would be ever more.
        """
        taken: list[_Waiting[EntryT, ResultT]] = []
        count, is_crowded = 0, len(self.waiting) > TOGETHER_MAX
        while self.waiting and count < TOGETHER_MAX:
            next_one = self.waiting.popleft()
            if not (is_crowded and next_one.results.done()):
                taken.append(next_one)
                count += len(next_one.entries)
        return taken


class SettleBatches(Generic[KeyT, EntryT, ResultT]):
    """Gathers entries by key."""

    def __init__(
        self, send: Callable[[KeyT, Sequence[EntryT]], Awaitable[Sequence[ResultT]]]
    ) -> None:
        """``send`` makes one call; its results have the order of the entries."""
        self._send = send
        self._pending: dict[KeyT, _Pending[EntryT, ResultT]] = {}
        self._calls: set[asyncio.Task[None]] = set()

    async def settle(self, key: KeyT, entries: Sequence[EntryT]) -> Sequence[ResultT]:
        """Send entries, and wait for their results.

        Raises:
            Exception: That of the call.
        """
        pending = self._pending.setdefault(key, _Pending())
        results: asyncio.Future[Sequence[ResultT]] = asyncio.get_running_loop().create_future()
        pending.waiting.append(_Waiting(entries, results))
        if pending.call_count < CALLS_MAX:
            pending.call_count += 1
            call = asyncio.create_task(self._send_all(key, pending))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return await results

    async def _send_all(self, key: KeyT, pending: _Pending[EntryT, ResultT]) -> None:
        try:
            while taken := pending.take():
                await self._send_some(key, taken)
        finally:
            pending.call_count -= 1
            if not pending.call_count:
                self._pending.pop(key, None)

    async def _send_some(self, key: KeyT, taken: Sequence[_Waiting[EntryT, ResultT]]) -> None:
        entries = [entry for each in taken for entry in each.entries]
        try:
            results = await self._send(key, entries)
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait for the call.
            for each in taken:
                if not each.results.done():
                    each.results.set_exception(error)
            return
        begin = 0
        for each in taken:
            end = begin + len(each.entries)
            if not each.results.done():
                each.results.set_result(results[begin:end])
            begin = end
