"""Receiving for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from ariane_gateway.brokers.receive_calls import Delivery, ReceiveCalls, ReceiveOrder, Settlement
from ariane_gateway.patience import once_answered
from ariane_gateway.receiving.open_holds import OpenHolds
from ariane_gateway.receiving.shared_holds import SharedHolds
from ariane_gateway.refusals import Refused
from ariane_servicekit import get_logger

HOLD_S_MAX: Final = 30.0
"""Brokers hold no longer."""

_log = get_logger(__name__)


class Receiving:
    """Receives messages of one broker for one client."""

    def __init__(self, calls: ReceiveCalls, shared: SharedHolds, holds: OpenHolds) -> None:
        self._calls = calls
        self._shared = shared
        self._holds = holds
        self._in_work: set[asyncio.Task[None]] = set()

    async def receive(self, broker_name: str, order: ReceiveOrder, hold_s: float) -> list[Delivery]:
        """Receive messages; none when the hold time ended, or the gateway stops.

        Raises:
            Refused: The broker refused, or did not answer.
        """
        receiving = self._shared.receive(broker_name, order, min(hold_s, HOLD_S_MAX))
        return await self._holds.hold(receiving) or []

    async def pause(self, seconds: float) -> None:
        """Hold a receive that gets nothing, unless the gateway stops."""
        await self._holds.hold(asyncio.sleep(seconds))

    def keep(self, broker_name: str, order: ReceiveOrder, deliveries: Sequence[Delivery]) -> None:
        """Have messages kept invisible while their client lives, from soon on.

        The client does not wait for it: without it, the messages only come again sooner.
        """
        self._do_soon(self._keep(broker_name, order, deliveries))

    def give_back(
        self, broker_name: str, order: ReceiveOrder, deliveries: Sequence[Delivery]
    ) -> None:
        """Show messages to others at once whose client did not take them."""
        self._do_soon(self._settle(broker_name, order, deliveries, invisible_s=0.0))

    def give_up(
        self, broker_name: str, order: ReceiveOrder, deliveries: Sequence[Delivery]
    ) -> None:
        """Make dead letters of messages that nobody can read."""
        self._do_soon(self._settle(broker_name, order, deliveries, dead_letter=True))

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._in_work:
            task.cancel()
        await asyncio.gather(*self._in_work, return_exceptions=True)

    def _do_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._in_work.add(task)
        task.add_done_callback(self._in_work.discard)

    async def _keep(
        self, broker_name: str, order: ReceiveOrder, deliveries: Sequence[Delivery]
    ) -> None:
        receipts = list(dict.fromkeys(each.receipt for each in deliveries))
        topic, group = order.wanted.topic, order.group
        try:
            await once_answered(
                lambda: self._calls.keep(broker_name, topic, group, order.client_id, receipts),
                wait_s=order.invisible_s,
            )
        except Refused as refused:
            _log.info("messages_not_kept", client=order.client_id, cause=refused.text)

    async def _settle(
        self,
        broker_name: str,
        order: ReceiveOrder,
        deliveries: Sequence[Delivery],
        *,
        invisible_s: float | None = None,
        dead_letter: bool = False,
    ) -> None:
        settlements = [
            Settlement(each.receipt, each.message.queue_offset, invisible_s, dead_letter)
            for each in deliveries
        ]
        try:
            await self._calls.settle(broker_name, order.wanted.topic, order.group, settlements)
        except Refused as refused:
            _log.info("messages_not_settled", client=order.client_id, cause=refused.text)
