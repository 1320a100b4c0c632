"""Waiting until all replicas in sync have the log up to some end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ariane_broker.errors.replication import replication_unconfirmed
from ariane_servicekit.errors import ServiceError


class _Waiting(NamedTuple):
    """Somebody who waits until all before a commit-log offset is confirmed, but not for ever."""

    commit_log_offset: int
    deadline_s: float
    on_done: Callable[[ServiceError | None], None]


class Confirmation:
    """Calls back those who wait for it. Lives on one loop.

    A primary whose lease is over tells nobody that something is confirmed: its successor
    decides what becomes of it.
    """

    def __init__(self, holds: Callable[[], bool], *, wait_s_max: float) -> None:
        """Start with nobody waiting.

        Args:
            holds: Whether this broker is primary at this moment.
            wait_s_max: The longest wait.
        """
        self._holds = holds
        self._wait_s_max = wait_s_max
        self._waiting: list[_Waiting] = []
        self._alarm: asyncio.TimerHandle | None = None
        self.confirmed = 0

    def when_confirmed(
        self, commit_log_offset: int, on_done: Callable[[ServiceError | None], None]
    ) -> None:
        """Call back once everything before a commit-log offset is confirmed.

        Args:
            commit_log_offset: The offset.
            on_done: Called once, on the loop and not from in here, with nothing, or with
                REPLICATION_UNCONFIRMED when it took too long or this broker is primary no more.
        """
        loop = asyncio.get_running_loop()
        if commit_log_offset <= self.confirmed:
            loop.call_soon(self._finish, on_done)
            return
        deadline_s = loop.time() + self._wait_s_max
        self._waiting.append(_Waiting(commit_log_offset, deadline_s, on_done))
        if self._alarm is None:
            self._alarm = loop.call_at(deadline_s, self._expire)

    def advance(self, confirmed: int) -> None:
        """Everything before an offset is confirmed."""
        if confirmed <= self.confirmed:
            return
        self.confirmed = confirmed
        if not self._waiting:
            return
        served = [each for each in self._waiting if each.commit_log_offset <= confirmed]
        if served:
            self._waiting = [each for each in self._waiting if each.commit_log_offset > confirmed]
            for each in served:
                self._finish(each.on_done)

    def give_up(self) -> None:
        """Tell all who wait that nobody knows."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.on_done(replication_unconfirmed())

    def _finish(self, on_done: Callable[[ServiceError | None], None]) -> None:
        on_done(None if self._holds() else replication_unconfirmed())

    def _expire(self) -> None:
        self._alarm = None
        loop = asyncio.get_running_loop()
        now_s = loop.time() + 0.001
        late = [each for each in self._waiting if each.deadline_s <= now_s]
        self._waiting = self._waiting[len(late) :]
        if self._waiting:
            self._alarm = loop.call_at(self._waiting[0].deadline_s, self._expire)
        for each in late:
            each.on_done(replication_unconfirmed())
