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

from ariane_broker.errors.public_errors import flush_unconfirmed
from ariane_broker.log.offset_waits import OffsetWaits, OnDone
from ariane_storage.store import Store


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
        """The callbacks are called on the loop; ``on_failed`` has to end the broker."""
        self._store = store
        self._flusher = flusher
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._waits = OffsetWaits(timeout_seconds, flush_unconfirmed)
        self._under_way: asyncio.Future[None] | None = None

    def when_flushed(self, commit_log_offset: int, on_done: OnDone) -> None:
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
        self._waits.add(commit_log_offset, on_done)
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
        served = self._waits.take_up_to(flushed_offset)
        self._over()
        if self._waits:
            self._begin(asyncio.get_running_loop())
        for on_done in served:
            on_done(None)
        self._on_flushed()

    def _failed(self, error: BaseException) -> None:
        failed = self._waits.take_all()
        self._over()
        for on_done in failed:
            on_done(flush_unconfirmed())
        self._on_failed(error)

    def _over(self) -> None:
        """Note that no flush is under way."""
        over, self._under_way = self._under_way, None
        if over is not None:
            over.set_result(None)
