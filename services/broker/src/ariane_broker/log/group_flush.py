r"""Forcing the commit log to the disk: one flush serves all that wait.

A flush waits on the disk, so it runs in the one flusher thread. Those who ask while a flush is
under way wait for the next one, together; under synchronous flush this is what makes a thousand
senders cost hardly more than one.

::

    loop       append, ask ----> append, ask --------> begin the next, tell ------> tell
                    \               (under way)        /            \             /
    flusher          fdatasync ----------------------->              fdatasync -->

Nobody waits in a task of his own, and the loop hears of a flush in one turn: half of what a flush
of few messages costs would be that.

A flush that fails is never repeated. Who waits learns that nobody knows; the store refuses
everything from then on, and the broker ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

from ariane_broker.errors import flush_unconfirmed
from ariane_servicekit.errors import ServiceError
from ariane_storage.store import Store


class _Waiting(NamedTuple):
    """Somebody who waits.

    Attributes:
        commit_log_offset: Until all that is before it is on the disk.
        deadline_s: How long, by the clock of the loop.
        told: Is told.
    """

    commit_log_offset: int
    deadline_s: float
    told: Callable[[ServiceError | None], None]


class GroupFlush:
    """Who waits for which end of the log to be on the disk. Lives on one loop."""

    def __init__(
        self,
        log: Store,
        flusher: Executor,
        *,
        timeout_seconds: float,
        on_flushed: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Start with nobody waiting.

        Args:
            log: What to flush.
            flusher: Runs one flush at a time.
            timeout_seconds: The longest wait for a flush.
            on_flushed: Called on the loop after each flush.
            on_failed: Called on the loop when a flush failed: the broker has to end.
        """
        self._log = log
        self._flusher = flusher
        self._timeout_seconds = timeout_seconds
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        # In the order in which their time is up.
        self._waiting: list[_Waiting] = []
        self._under_way: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def when_flushed(
        self, commit_log_offset: int, told: Callable[[ServiceError | None], None]
    ) -> None:
        """Have somebody told once everything before a commit-log offset is on the disk.

        Args:
            commit_log_offset: The offset.
            told: Called once, on the loop and not from in here, with nothing, or with
                FLUSH_UNCONFIRMED when the flush failed or took too long.
        """
        loop = asyncio.get_running_loop()
        if commit_log_offset <= self._log.flushed_offset:
            loop.call_soon(told, None)
            return
        deadline_s = loop.time() + self._timeout_seconds
        self._waiting.append(_Waiting(commit_log_offset, deadline_s, told))
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
            flushed_offset = self._log.flush()
        except Exception as error:  # noqa: BLE001 - whatever it is: nobody knows what is on the disk.
            loop.call_soon_threadsafe(self._failed, error)
        else:
            loop.call_soon_threadsafe(self._flushed, flushed_offset)

    def _flushed(self, flushed_offset: int) -> None:
        """A flush is over: the disk goes on with the next one while those are told who waited."""
        served: list[_Waiting] = []
        later: list[_Waiting] = []
        for each in self._waiting:
            (served if each.commit_log_offset <= flushed_offset else later).append(each)
        self._waiting = later
        self._over()
        if later:
            self._begin(asyncio.get_running_loop())
        for each in served:
            each.told(None)
        self._on_flushed()

    def _failed(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        self._over()
        for each in waiting:
            each.told(flush_unconfirmed())
        self._on_failed(error)

    def _over(self) -> None:
        """Nothing is under way."""
        over, self._under_way = self._under_way, None
        if over is not None:
            over.set_result(None)

    def _expire(self) -> None:
        """Tell those who have waited too long; their flush goes on."""
        self._alarm = None
        loop = asyncio.get_running_loop()
        # The clock of the loop is coarser than a timer: what rang is due.
        now_s = loop.time() + 0.001
        late = [each for each in self._waiting if each.deadline_s <= now_s]
        self._waiting = self._waiting[len(late) :]
        if self._waiting:
            self._alarm = loop.call_at(self._waiting[0].deadline_s, self._expire)
        for each in late:
            each.told(flush_unconfirmed())
