"""Taking delayed messages back: calls to the broker that holds the message."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1.send_service_pb2 import RecallMessageRequest
from ariane_record.errors import RecallHandleIllegal
from ariane_record.single.recall_handle import RecallHandle, decode_recall_handle
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.errors import CallError, IllegalArgument
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.routing.broker_addresses import address_for_send
from ariane_sdk.routing.failover import Failover

DELIVERED_REASON: Final = "RECEIPT_HANDLE_EXPIRED"


class RecallCalls:
    """Takes delayed messages back."""

    def __init__(self, parts: ProducerParts) -> None:
        self._parts = parts
        self._failover = Failover(parts.routes, parts.clock)

    async def recall(self, handle: str) -> bool:
        """Take a message back, and repeat the call while that may help: repeating is harmless.

        Returns:
            True if the message will not be delivered; False if it was.

        Raises:
            IllegalArgument: The text is no recall handle.
            CallError: As ``Producer.recall``.
        """
        if not isinstance(handle, str):
            raise IllegalArgument(f"{handle!r:.100} is no recall handle: a text is expected")
        try:
            named = decode_recall_handle(handle)
        except RecallHandleIllegal as error:
            raise IllegalArgument(str(error)) from error
        try:
            await self._failover.ask(
                lambda: self._call(named, handle),
                [named.topic],
                patience_s=self._parts.settings.send_timeout_s,
            )
        except CallError as error:
            if error.reason == DELIVERED_REASON:
                return False
            raise
        return True

    async def _call(self, named: RecallHandle, handle: str) -> None:
        address = await address_for_send(self._parts.routes, named.topic, named.broker_name)
        request = RecallMessageRequest(topic=named.topic, recall_handle=handle)
        call = self._parts.connections.send(address).RecallMessage(
            request, timeout=self._parts.settings.call_timeout_s
        )
        await answer_of(call, f"broker {named.broker_name} at {address}")
