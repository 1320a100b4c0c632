"""Batches that were fetched and not taken, and calls still in flight when asking ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from ariane_sdk.consumer.receiving.asked import Asked, all_over
from ariane_sdk.consumer.receiving.receive_calls import Answer, messages_of
from ariane_sdk.errors import ArianeError, RecordDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.runtime.log import logger

Batch: TypeAlias = list[ReceivedMessage]


class Fetched:
    """Messages that the next request returns first: giving them back would count as an attempt."""

    def __init__(self) -> None:
        self.kept: list[Batch] = []
        """Batches."""
        self.late: dict[str, dict[Asked, None]] = {}
        """Calls that are in flight, or have ended since, by the address of their broker."""

    def __bool__(self) -> bool:
        return bool(self.kept or self.late)

    def keep(self, answer: Answer) -> None:
        """Keep the messages of an answer."""
        if not answer.message_count:
            return
        try:
            self.kept.append(messages_of(answer))
        except RecordDamaged as error:
            logger.error("messages come again when their time is over: %s", error)

    def keep_of(self, asked: Asked) -> None:
        """Keep the messages of a call, if it is over and succeeded."""
        if asked.done():
            try:
                self.keep(asked.result())
            except (ArianeError, asyncio.CancelledError):
                return
            except Exception:  # noqa: BLE001 - logged: messages of other calls are kept.
                logger.exception("messages of a call come again when their time is over")

    def add_late(self, address: str, calls: Iterable[Asked]) -> None:
        """Leave calls in flight: cancelling would leave messages on their way invisible to all."""
        if added := dict.fromkeys(calls):
            self.late.setdefault(address, {}).update(added)

    def take_late(self, address: str) -> list[Asked]:
        """Take the calls to a broker that are in flight."""
        return list(self.late.pop(address, ()))

    def keep_late_but(self, addresses: AbstractSet[str]) -> None:
        """Keep the messages of calls to all brokers except ``addresses``.

        A call that is still held is looked at again the next time: it may return messages yet.
        """
        for address in [each for each in self.late if each not in addresses]:
            calls = self.take_late(address)
            for call in calls:
                self.keep_of(call)
            self.add_late(address, [call for call in calls if not call.done()])

    async def take_all(self) -> list[Batch]:
        """Take all messages, also those on their way."""
        calls = [call for some in self.late.values() for call in some]
        # Before other tasks run: calls that they add meanwhile are not taken.
        self.late.clear()
        for call in calls:
            call.cancel()
        await all_over(calls)
        for call in calls:
            self.keep_of(call)
        batches, self.kept[:] = list(self.kept), []
        return batches
