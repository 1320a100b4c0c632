"""Settling messages by the handles of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ariane_gateway.brokers.receive_calls import ReceiveCalls, Settlement
from ariane_gateway.receiving.handles import Handle, decode_handle
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_servicekit import get_logger

_LASTING: Final = frozenset({Refusal.FORBIDDEN, Refusal.GROUP_UNKNOWN, Refusal.TOPIC_UNKNOWN})

_log = get_logger(__name__)


class Settling:
    """Acknowledges messages, changes how long they stay invisible, gives them up."""

    def __init__(self, calls: ReceiveCalls) -> None:
        self._calls = calls

    async def acknowledge(
        self, group: str, topic: str, handles: Sequence[str]
    ) -> list[Refused | None]:
        """Acknowledge messages.

        Returns:
            Why it was not done, for each handle; None where it was.
        """
        results: list[Refused | None] = [None] * len(handles)
        by_broker: dict[str, list[tuple[int, Handle]]] = {}
        for place, text in enumerate(handles):
            try:
                handle = decode_handle(text)
            except Refused as refused:
                results[place] = refused
            else:
                by_broker.setdefault(handle.broker_name, []).append((place, handle))
        settling = [
            self._at_broker(name, topic, group, entries, results)
            for name, entries in by_broker.items()
        ]
        if len(settling) == 1:  # Nearly always: without a task of its own.
            await settling[0]
        else:
            await asyncio.gather(*settling)
        return results

    async def hide(self, group: str, topic: str, text: str, invisible_s: float) -> str:
        """Keep a message invisible for so long from now on.

        Returns:
            The handle to use from now on.

        Raises:
            Refused: It was not done.
        """
        handle = decode_handle(text)
        await self._settle_one(group, topic, handle, invisible_s=invisible_s)
        return text

    async def give_up(self, group: str, topic: str, text: str) -> None:
        """Make a message a dead letter.

        Of a handle that is no longer good, or not its user's, nothing is done, and that is no
        error: clients repeat this call until it succeeds, and block their queue meanwhile.

        Raises:
            Refused: It was not done, and may be done later.
        """
        try:
            await self._settle_one(group, topic, decode_handle(text), dead_letter=True)
        except Refused as refused:
            if refused.kind is not Refusal.RECEIPT_INVALID:
                raise
            _log.info("handle_not_given_up", group=group, topic=topic, cause=refused.text)

    async def _at_broker(
        self,
        broker_name: str,
        topic: str,
        group: str,
        entries: Sequence[tuple[int, Handle]],
        results: list[Refused | None],
    ) -> None:
        """Acknowledge the messages of one broker, and write down what became of each."""
        settlements = [Settlement(each.receipt, each.queue_offset) for _, each in entries]
        outcomes: Sequence[Refused | None]
        try:
            outcomes = await self._calls.settle(broker_name, topic, group, settlements)
        except Refused as refused:
            outcomes = [refused] * len(entries)
        for (place, _), outcome in zip(entries, outcomes, strict=True):
            results[place] = None if outcome is None else _for_good(outcome)

    async def _settle_one(
        self,
        group: str,
        topic: str,
        handle: Handle,
        *,
        invisible_s: float | None = None,
        dead_letter: bool = False,
    ) -> None:
        settlement = Settlement(handle.receipt, handle.queue_offset, invisible_s, dead_letter)
        try:
            (refused,) = await self._calls.settle(handle.broker_name, topic, group, [settlement])
        except Refused as error:
            raise _for_good(error) from error
        if refused is not None:
            raise _for_good(refused)


def _for_good(refused: Refused) -> Refused:
    """The refusal of a handle that no repeat will help, as one that clients do not repeat.

    Its topic, broker or group is gone, or its user may not receive any longer.
    """
    return Refused(Refusal.RECEIPT_INVALID, refused.text) if refused.kind in _LASTING else refused
