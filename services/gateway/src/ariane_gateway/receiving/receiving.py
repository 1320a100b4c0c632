"""Receiving for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ariane_gateway.brokers.receive_calls import Delivery, ReceiveCalls, Wish
from ariane_gateway.receiving.open_holds import OpenHolds
from ariane_gateway.refusals import Refused
from ariane_servicekit import get_logger

HOLD_S_MAX: Final = 30.0
"""Brokers hold no longer."""

_log = get_logger(__name__)


class Receiving:
    """Receives messages of one broker for one client."""

    def __init__(self, calls: ReceiveCalls, holds: OpenHolds) -> None:
        self._calls = calls
        self._holds = holds
        self._keeping: set[asyncio.Task[None]] = set()

    async def receive(self, broker_name: str, wish: Wish, hold_s: float) -> list[Delivery]:
        """Receive messages; none when the hold time ended, or the gateway stops.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        receiving = self._calls.receive(broker_name, wish, min(hold_s, HOLD_S_MAX))
        return await self._holds.hold(receiving) or []

    def keep(self, broker_name: str, wish: Wish, deliveries: Sequence[Delivery]) -> None:
        """Have messages kept invisible while their client lives, from soon on.

        The client does not wait for it: without it, the messages only come again sooner.
        """
        task = asyncio.create_task(self._keep(broker_name, wish, deliveries))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def _keep(self, broker_name: str, wish: Wish, deliveries: Sequence[Delivery]) -> None:
        receipts = list(dict.fromkeys(each.receipt for each in deliveries))
        try:
            await self._calls.keep(
                broker_name, wish.wanted.topic, wish.group, wish.client_id, receipts
            )
        except Refused as refused:
            _log.info("messages_not_kept", client=wish.client_id, cause=refused.text)
