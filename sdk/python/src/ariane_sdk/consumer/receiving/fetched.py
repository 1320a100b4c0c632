"""What was fetched and nobody took: batches, and calls that were in flight when the asker ended."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from ariane_sdk.consumer.receiving.receive_calls import Answer, messages_of
from ariane_sdk.errors import RecordDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.log import logger

Batch: TypeAlias = list[ReceivedMessage]


class Fetched:
    """What whoever asks next has first: to give it back would be an attempt of each message.

    Attributes:
        kept: Batches.
    """

    def __init__(self) -> None:
        self.kept: list[Batch] = []
        self._late: dict[str, set[asyncio.Task[Answer]]] = {}

    def __bool__(self) -> bool:
        return bool(self.kept or self._late)

    def keep(self, answer: Answer) -> None:
        """Keep what came."""
        if not answer.message_count:
            return
        try:
            self.kept.append(messages_of(answer))
        except RecordDamaged as error:
            logger.error("messages come again when their time is over: %s", error)

    def keep_of(self, call: asyncio.Task[Answer]) -> None:
        """Keep what a call brought, if it has ended well."""
        if call.done() and not call.cancelled() and call.exception() is None:
            self.keep(call.result())

    def is_late(self, address: str) -> bool:
        """Whether calls to a broker are in flight, or have ended since."""
        return address in self._late

    def add_late(self, address: str, calls: AbstractSet[asyncio.Task[Answer]]) -> None:
        """Leave calls in flight: messages on their way would be invisible to everybody."""
        if calls:
            self._late.setdefault(address, set()).update(calls)

    def take_late(self, address: str) -> set[asyncio.Task[Answer]]:
        """The calls to a broker that are in flight; they are the caller's now."""
        return self._late.pop(address, set())

    def keep_late_but(self, addresses: AbstractSet[str]) -> None:
        """Keep what calls brought to all brokers but some.

        One that is held is looked at again the next time: it may bring messages yet.
        """
        for address in self._late.keys() - addresses:
            calls = self.take_late(address)
            for call in calls:
                self.keep_of(call)
            self.add_late(address, {call for call in calls if not call.done()})

    async def take_all(self) -> list[Batch]:
        """All that is here and on its way; it is the caller's now."""
        calls = [call for some in self._late.values() for call in some]
        # Before others run: what they leave here meanwhile is not looked at.
        self._late.clear()
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)
        for call in calls:
            self.keep_of(call)
        batches, self.kept[:] = list(self.kept), []
        return batches
