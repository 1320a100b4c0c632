r"""Forcing the commit log to the disk: one flush serves all requests that wait.

A flush blocks on the disk, so it runs in the one flusher thread. Requests that come while a flush
is under way wait together for the next one. Under synchronous flush a thousand senders therefore
cost hardly more than one.

::

    loop       append, ask ----> append, ask --------> begin the next, tell ------> tell
                    \               (under way)        /            \             /
    flusher          fdatasync ----------------------->              fdatasync -->

A waiting request is a callback, not a task, and the event loop handles the end of a flush in one
turn: a task for each request would be half of the cost of a flush of few messages.

A flush that fails is never repeated. Waiting requests get FLUSH_UNCONFIRMED; the store refuses
everything from then on, and the broker ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_servicekit.errors import ServiceError
from ariane_storage.store import Store


class _Waiting(NamedTuple):
    """A request that waits for a flush.

    Attributes:
        commit_log_offset: The log up to here must be on the disk.
        deadline_s: When the wait ends at the latest, by the clock of the event loop.
        on_done: Called at the end of the wait.
    """

    commit_log_offset: int
    deadline_s: float
    on_done: Callable[[ServiceError | None], None]


class GroupFlush:
    """Keeps the requests that wait for flushes, and begins flushes. Lives on one event loop."""

    def __init__(
        self,
        store: Store,
        flusher: Executor,
        *,
        timeout_seconds: float,
        on_flushed: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Start without waiting requests.

        Args:
            store: The store whose commit log is flushed.
            flusher: Runs one flush at a time.
            timeout_seconds: The longest wait for a flush.
            on_flushed: Called on the loop after each flush.
            on_failed: Called on the loop when a flush failed: the broker has to end.
        """
        self._store = store
        self._flusher = flusher
        self._timeout_seconds = timeout_seconds
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        # By deadline, the earliest first.
        self._waiting: list[_Waiting] = []
        self._under_way: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def when_flushed(
        self, commit_log_offset: int, on_done: Callable[[ServiceError | None], None]
    ) -> None:
        """Call back when the commit log up to an offset is on the disk.

        Args:
            commit_log_offset: The offset.
            on_done: Called once, later and on the event loop: with None, or with FLUSH_UNCONFIRMED
                when the flush failed or took too long.
        """
        loop = asyncio.get_running_loop()
        if commit_log_offset <= self._store.flushed_offset:
            loop.call_soon(on_done, None)
            return
        deadline_s = loop.time() + self._timeout_seconds
        self._waiting.append(_Waiting(commit_log_offset, deadline_s, on_done))
        if self._alarm is None:
            self._alarm = loop.call_at(deadline_s, self._expire)
        if self._under_way is None:
            self._begin(loop)

    async def finish(self) -> None:
        """Wait for the flush that is under way, and for those that begin meanwhile."""
        while self._under_way is not None:
            await asyncio.wait((self._under_way,))

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = loop.create_future()
        try:
            self._flusher.submit(self._flush, loop)
        except RuntimeError as error:  # The flusher was shut down.
            loop.call_soon(self._failed, error)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Flush; in the flusher's thread."""
        try:
            flushed_offset = self._store.flush()
        except Exception as error:  # noqa: BLE001 - after any error the disk's state is unknown.
            loop.call_soon_threadsafe(self._failed, error)
        else:
            loop.call_soon_threadsafe(self._flushed, flushed_offset)

    def _flushed(self, flushed_offset: int) -> None:
        """Handle the end of a flush: begin the next one first, then call back what has waited."""
        served: list[_Waiting] = []
        later: list[_Waiting] = []
        for each in self._waiting:
            (served if each.commit_log_offset <= flushed_offset else later).append(each)
        self._waiting = later
        self._over()
        if later:
            self._begin(asyncio.get_running_loop())
        for each in served:
            each.on_done(None)
        self._on_flushed()

    def _failed(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        self._over()
        for each in waiting:
            each.on_done(flush_unconfirmed())
        self._on_failed(error)

    def _over(self) -> None:
        """Note that no flush is under way."""
        over, self._under_way = self._under_way, None
        if over is not None:
            over.set_result(None)

    def _expire(self) -> None:
        """Call back the requests whose deadline has passed; the flush itself goes on."""
        self._alarm = None
        loop = asyncio.get_running_loop()
        # A timer may fire a little before its time by the loop's clock.
        now_s = loop.time() + 0.001
        late = [each for each in self._waiting if each.deadline_s <= now_s]
        self._waiting = self._waiting[len(late) :]
        if self._waiting:
            self._alarm = loop.call_at(self._waiting[0].deadline_s, self._expire)
        for each in late:
            each.on_done(flush_unconfirmed())
