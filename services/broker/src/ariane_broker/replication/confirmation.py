"""Waiting until all replicas in sync have the log up to an offset, and what a primary promises.

A primary whose lease is over keeps no promise: its successor decides which records stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ariane_broker.errors.replication import replication_unconfirmed
from ariane_broker.log.offset_waits import OffsetWaits, OnDone
from ariane_broker.log.promise import AcknowledgedLevel, Condition, Promise
from ariane_servicekit.errors import ServiceError


class Confirmation:
    """Calls back when the log is confirmed. Lives on one event loop."""

    def __init__(self, holds: Callable[[], bool], *, wait_s_max: float) -> None:
        """``holds`` tells whether this broker is primary at this moment."""
        self._holds = holds
        self.wait_s_max = wait_s_max
        self._waits = OffsetWaits(wait_s_max, replication_unconfirmed)
        self.confirmed = 0

    def when_confirmed(self, commit_log_offset: int, on_done: OnDone) -> None:
        """Call back once everything before a commit-log offset is confirmed.

        Args:
            commit_log_offset: The offset.
            on_done: Called once, from the loop and not from this call: with None, or with
                REPLICATION_UNCONFIRMED after ``wait_s_max`` or if the lease is over.
        """
        if commit_log_offset <= self.confirmed:
            asyncio.get_running_loop().call_soon(self._finish, on_done)
        else:
            self._waits.add(commit_log_offset, on_done)

    def advance(self, confirmed: int) -> float:
        """Note that the log before an offset is confirmed.

        Returns:
            Seconds that the oldest callback has waited, if it waited for no more than that; else 0.
        """
        if confirmed <= self.confirmed:
            return 0.0
        self.confirmed = confirmed
        waited_s = self._waits.oldest_s(confirmed)
        for on_done in self._waits.take_up_to(confirmed):
            self._finish(on_done)
        return waited_s

    def give_up(self) -> None:
        """Give every callback the error: whether its records are confirmed is unknown."""
        for on_done in self._waits.take_all():
            on_done(replication_unconfirmed())

    def _finish(self, on_done: OnDone) -> None:
        on_done(None if self._holds() else replication_unconfirmed())


class ReplicatedPromise(Promise):
    """Kept once all brokers in sync have the record; REPLICATED if one of them is a replica."""

    def __init__(
        self,
        own: Sequence[Condition],
        when_confirmed: Callable[[int, OnDone], None],
        has_copies: Callable[[], bool],
    ) -> None:
        """``own`` are the conditions of the primary's own disk."""
        super().__init__((*own, Condition(AcknowledgedLevel.REPLICATED, when_confirmed)))
        self._own_level = own[-1].level if own else AcknowledgedLevel.MEMORY
        self._has_copies = has_copies

    @property
    def level(self) -> AcknowledgedLevel:
        """The level reached once all conditions hold."""
        return AcknowledgedLevel.REPLICATED if self._has_copies() else self._own_level


def by_enough(
    when_confirmed: Callable[[int, OnDone], None], are_enough: Callable[[], bool]
) -> Callable[[int, OnDone], None]:
    """A confirmation that counts only if enough brokers are in sync when it arrives.

    Enough were in sync when the message was accepted; brokers that left since may not have it.
    """

    def when(end: int, on_done: OnDone) -> None:
        def checked(error: ServiceError | None) -> None:
            on_done(error if error is not None or are_enough() else replication_unconfirmed())

        when_confirmed(end, checked)

    return when


def fenced(conditions: Sequence[Condition], holds: Callable[[], bool]) -> tuple[Condition, ...]:
    """Conditions that fail on a primary whose lease is over."""

    def fence(condition: Condition) -> Condition:
        def when(end: int, on_done: OnDone) -> None:
            def checked(error: ServiceError | None) -> None:
                on_done(error if error is not None or holds() else replication_unconfirmed())

            condition.when(end, checked)

        return Condition(condition.level, when)

    return tuple(map(fence, conditions))
