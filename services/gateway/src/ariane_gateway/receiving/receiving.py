"""Receiving for clients."""

from __future__ import annotations

from typing import Final

from ariane_gateway.brokers.receive_calls import Delivery, ReceiveCalls, Wish
from ariane_gateway.receiving.open_holds import OpenHolds

HOLD_S_MAX: Final = 30.0
"""Brokers hold no longer."""


class Receiving:
    """Receives messages of one broker for one client."""

    def __init__(self, calls: ReceiveCalls, holds: OpenHolds) -> None:
        self._calls = calls
        self._holds = holds

    async def receive(self, broker_name: str, wish: Wish, hold_s: float) -> list[Delivery]:
        """Receive messages; none when the hold time ended, or the gateway stops.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        receiving = self._calls.receive(broker_name, wish, min(hold_s, HOLD_S_MAX))
        return await self._holds.hold(receiving) or []
