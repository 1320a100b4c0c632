"""What an acknowledgement of this broker promises: decided here, and nowhere else.

A caller appends records and then waits until the promise holds for the commit log up to the end of
those records. A promise is a set of conditions. Being written needs no condition: the records are
written when the append returns::

    conditions          level that is reached
    (none)              memory: a power loss may take it
    flushed             flushed: it is on the disk of this broker
    replicated          replicated: all replicas in sync have it; without such a replica the level
                        is memory or flushed

Producers may demand more for some of their messages, and never less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from ariane_broker.errors.replication import too_few_in_sync
from ariane_broker.log.group_flush import GroupFlush
from ariane_broker.log.offset_waits import OnDone
from ariane_servicekit.errors import ServiceError

_T = TypeVar("_T")


class AcknowledgedLevel(StrEnum):
    """How safe a message is when its send is acknowledged."""

    MEMORY = "memory"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


class Demand(NamedTuple):
    """A producer's demand, beyond the broker's own promise."""

    level: AcknowledgedLevel
    """The level that a message must reach."""
    in_sync_min: int = 1
    """How many brokers must be in sync and have it, the primary included."""


class Condition(NamedTuple):
    """Something that must become true for the commit log up to an offset."""

    level: AcknowledgedLevel
    """The level that a message reaches when the condition holds."""
    when: Callable[[int, OnDone], None]
    """Registers a callback for an offset. It is called later, on the event loop, never during the
    call that registers it."""


class Promise:
    """All conditions of an acknowledgement, the one of the highest level last."""

    def __init__(self, conditions: Sequence[Condition] = ()) -> None:
        self._conditions = conditions
        self._level: Final = conditions[-1].level if conditions else AcknowledgedLevel.MEMORY
        self.waits: Final = bool(conditions)
        """Whether there is anything to wait for."""

    @property
    def level(self) -> AcknowledgedLevel:
        """The level that a message reaches when all conditions hold."""
        return self._level

    def when_kept(self, end: int, on_done: OnDone) -> None:
        """Call back when all conditions hold for the commit log up to an offset.

        Args:
            end: The offset.
            on_done: Called once, later and on the event loop: with None, or with the first error of
                a condition.
        """
        left = len(self._conditions)
        if left == 1:
            self._conditions[0].when(end, on_done)
            return
        if not left:
            asyncio.get_running_loop().call_soon(on_done, None)
            return

        def holds(error: ServiceError | None) -> None:
            nonlocal left
            if left < 1:  # Another condition has failed before.
                return
            left = left - 1 if error is None else 0
            if not left:
                on_done(error)

        for condition in self._conditions:
            condition.when(end, holds)

    def then(
        self, end: int, answer_of: Callable[[AcknowledgedLevel, ServiceError | None], _T]
    ) -> asyncio.Future[_T]:
        """Return a future of an answer that depends on the level that is reached.

        Args:
            end: The commit-log offset up to which the conditions must hold.
            answer_of: Makes the answer from the level that is reached and, where the wait for a
                higher level failed, from its error.
        """
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def on_done(error: ServiceError | None) -> None:
            if answer.done():  # The caller was cancelled.
                return
            level = self.level if error is None else AcknowledgedLevel.MEMORY
            try:
                answer.set_result(answer_of(level, error))
            except Exception as failure:  # noqa: BLE001 - it is the caller's who waits for the future.
                answer.set_exception(failure)

        self.when_kept(end, on_done)
        return answer

    async def kept(self, end: int) -> AcknowledgedLevel:
        """Wait until all conditions hold for the commit log up to an offset.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED: whether the records are on the disk is unknown.
        """
        return await self.then(end, _level_or_error) if self.waits else self.level


class Promises(Protocol):
    """The promises that a broker can make."""

    own: Promise
    """The promise without a demand."""

    def demanded(self, demand: Demand) -> Promise:
        """The promise that meets a demand."""
        ...

    def check(self, demand: Demand) -> None:
        """Refuse a demand that cannot be met now.

        Raises:
            ServiceError: TOO_FEW_IN_SYNC.
        """
        ...


class LonePromises:
    """The promises of a broker without replicas."""

    def __init__(self, flush_mode: str, flush: GroupFlush) -> None:
        self.own = Promise(flush_conditions(flush_mode, flush))
        self._flushed = Promise(flush_conditions("sync", flush))

    def demanded(self, demand: Demand) -> Promise:
        """As ``Promises``."""
        return self.own if demand.level is AcknowledgedLevel.MEMORY else self._flushed

    def check(self, demand: Demand) -> None:
        """As ``Promises``."""
        if demand.in_sync_min > 1:
            raise too_few_in_sync(1, demand.in_sync_min)


def flush_conditions(flush_mode: str, flush: GroupFlush) -> tuple[Condition, ...]:
    """Return the conditions that concern the broker's own disk, for this flush mode."""
    if flush_mode == "sync":
        return (Condition(AcknowledgedLevel.FLUSHED, flush.when_flushed),)
    return ()


def _level_or_error(level: AcknowledgedLevel, error: ServiceError | None) -> AcknowledgedLevel:
    if error is not None:
        raise error
    return level
