"""What an acknowledgement of this broker promises: decided here, and nowhere else.

Whoever has appended waits for the promise of all that lies before the end of it. A promise is a set
of conditions; that it is written holds as soon as the append returns, and needs none::

    conditions          level that is reached
    (none)              memory: a power loss may take it
    flushed             flushed: it is on the disk of this broker
    replicated          replicated: all in sync have it; memory or flushed while nobody else is
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from ariane_broker.log.group_flush import GroupFlush
from ariane_servicekit.errors import ServiceError

_T = TypeVar("_T")

Told: TypeAlias = Callable[[ServiceError | None], None]
"""Is called once, with why nobody knows whether a condition holds, or with nothing when it does."""


class AcknowledgedLevel(StrEnum):
    """How safe a message is when its send is acknowledged."""

    MEMORY = "memory"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


class Condition(NamedTuple):
    """What has to be true of all that lies before a commit-log offset.

    Attributes:
        level: What is reached once it is.
        when: Has somebody told, on the loop and not from in here, that it is.
    """

    level: AcknowledgedLevel
    when: Callable[[int, Told], None]


class Promise:
    """All conditions of an acknowledgement, the one of the highest level last.

    Attributes:
        waits: Whether there is anything to wait for.
    """

    def __init__(self, conditions: Sequence[Condition] = ()) -> None:
        self._conditions = conditions
        self._level: Final = conditions[-1].level if conditions else AcknowledgedLevel.MEMORY
        self.waits: Final = bool(conditions)

    @property
    def level(self) -> AcknowledgedLevel:
        """What is reached once all hold."""
        return self._level

    def when_kept(self, end: int, told: Told) -> None:
        """Have somebody told once all conditions hold of what lies before a commit-log offset.

        Args:
            end: The offset.
            told: Called once, on the loop and not from in here: with nothing, or with the first
                error of a condition.
        """
        left = len(self._conditions)
        if left == 1:
            self._conditions[0].when(end, told)
            return
        if not left:
            asyncio.get_running_loop().call_soon(told, None)
            return

        def holds(error: ServiceError | None) -> None:
            nonlocal left
            if left < 1:  # Another one has failed before.
                return
            left = left - 1 if error is None else 0
            if not left:
                told(error)

        for condition in self._conditions:
            condition.when(end, holds)

    def then(
        self, end: int, say: Callable[[AcknowledgedLevel, ServiceError | None], _T]
    ) -> asyncio.Future[_T]:
        """What is to be said once it is known how safe all before a commit-log offset is.

        Args:
            end: The offset.
            say: Is given the level that is reached, and why nobody knows whether it is more.
        """
        said: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def told(error: ServiceError | None) -> None:
            if said.done():  # Who waited has gone.
                return
            level = self.level if error is None else AcknowledgedLevel.MEMORY
            try:
                said.set_result(say(level, error))
            except Exception as failure:  # noqa: BLE001 - told to who waits, and to no other.
                said.set_exception(failure)

        self.when_kept(end, told)
        return said

    async def kept(self, end: int) -> AcknowledgedLevel:
        """Wait until all conditions hold of what lies before a commit-log offset.

        Raises:
            ServiceError: What nobody knows: FLUSH_UNCONFIRMED.
        """
        return await self.then(end, _level_or_error) if self.waits else self.level


def promise_of(flush_mode: str, flush: GroupFlush) -> Promise:
    """The promise of a broker with such settings."""
    return Promise(flush_conditions(flush_mode, flush))


def flush_conditions(flush_mode: str, flush: GroupFlush) -> tuple[Condition, ...]:
    """What a broker with such settings promises of its own disk."""
    if flush_mode == "sync":
        return (Condition(AcknowledgedLevel.FLUSHED, flush.when_flushed),)
    return ()


def _level_or_error(level: AcknowledgedLevel, error: ServiceError | None) -> AcknowledgedLevel:
    if error is not None:
        raise error
    return level
