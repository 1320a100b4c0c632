"""Sending half messages and ending them.

A half message is sent as every other message; its row says of which producer group it is. An end is
a call that is repeated until its outcome is known: repeating it is harmless.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from ariane.broker.v1.transaction_service_pb2 import TransactionToEnd
from ariane.common.v1 import message_pb2
from ariane_sdk.checks.delay import is_delayed
from ariane_sdk.checks.demand import demand_of
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.errors import CallError, IllegalArgument, MessageIllegal
from ariane_sdk.message import AcknowledgedLevel, Message, RelayedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.topic_info import SendOptions
from ariane_sdk.producer.intake.intake import Intake
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.producer.transactions.end_calls import WIRE_OUTCOMES, EndCalls
from ariane_sdk.producer.transactions.transaction import HalfMessage, TransactionOutcome
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.routes import address_for_send

IMMUNITY_PROPERTY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"


class TransactionCalls:
    """Sends and ends half messages of one producer group."""

    def __init__(self, parts: ProducerParts, intake: Intake, *, group: str) -> None:
        self._end_calls = EndCalls(parts.connections, timeout_s=parts.settings.call_timeout_s)
        self._routes = parts.routes
        self._failover = Failover(parts.routes, parts.clock)
        self._intake = intake
        self._group = group
        self._patience_s = parts.settings.send_timeout_s
        self._clock = parts.clock
        self.trace: MessageTrace | None = None
        """Records the steps; None without tracing."""

    async def send_half(
        self, message: Message, options: SendOptions, immunity_s: int | None
    ) -> HalfMessage:
        """Store a half message.

        Raises:
            IllegalArgument: The producer has no group, or the message breaks a rule.
            SendError: The half message was not acknowledged; ``outcome_unknown`` says whether it
                may be stored.
        """
        # Empty, as in `HalfMessage`: that of this producer.
        group = message.producer_group if isinstance(message, RelayedMessage) else ""
        if not group and not self._group:
            raise IllegalArgument("half messages need a producer with a group")
        if is_delayed(message):
            raise MessageIllegal("a half message cannot be delayed")
        half = message
        if immunity_s is not None:
            if immunity_s < 0:
                raise IllegalArgument(f"immunity_s must be 0 or more, not {immunity_s}")
            properties = {**message.properties, IMMUNITY_PROPERTY: str(immunity_s)}
            half = replace(message, properties=properties)
        began_ms = self._clock.now_ms()
        stored = await self._intake.send(half, options._replace(half_of=group or self._group))
        if self.trace is not None:
            self.trace.half_sent(message, stored.unique_id, began_ms)
        level = in_sync_min = None
        if options.demand is not None:
            level, in_sync_min = options.demand.level or None, options.demand.in_sync_min or None
        broker_name = stored.message_queue.broker_name
        return HalfMessage(stored.unique_id, message.topic, broker_name, level, in_sync_min, group)

    async def end(self, half: HalfMessage, outcome: TransactionOutcome) -> SendResult | None:
        """End a transaction.

        Returns:
            Where the message is stored after a commit.

        Raises:
            TransactionDecided: The transaction ended otherwise before.
            TransactionNotFound: The broker knows no such transaction.
            TransactionForeign: The transaction is another group's, and has no outcome yet.
            CallError: Any other failure; ``outcome_unknown`` says whether the transaction may have
                ended.
        """
        request = TransactionToEnd(
            topic=half.topic,
            transaction_id=half.transaction_id,
            unique_id=half.transaction_id,
            outcome=WIRE_OUTCOMES[outcome],
            producer_group=half.producer_group or self._group,
        )
        demand = demand_of(half.level, half.in_sync_min)
        if demand is not None:
            level = cast("message_pb2.AcknowledgedLevel.ValueType", int(demand.level))
            request.required_level, request.in_sync_min = level, demand.in_sync_min

        async def call() -> SendResult | None:
            address = await address_for_send(self._routes, half.topic, half.broker_name)
            peer = f"broker {half.broker_name} at {address}"
            response = await self._end_calls.end(address, peer, request)
            if not response.HasField("position"):
                return None
            position = response.position
            return SendResult(
                MessageQueue(half.topic, half.broker_name, position.queue_id),
                position.queue_offset,
                position.commit_log_offset,
                half.transaction_id,
                AcknowledgedLevel(response.acknowledged_level),
                position.store_time.ToMilliseconds(),
                address,
                response.duplicate,
            )

        result = await self._failover.ask(
            call, [half.topic], patience_s=self._patience_s, is_final=_is_final
        )
        if self.trace is not None:
            self.trace.ended(half.topic, half.transaction_id, outcome.value)
        return result

    def close(self) -> None:
        """Disconnect; the outcome of calls in flight stays unknown."""
        self._end_calls.close()


def _is_final(error: CallError) -> bool:
    """Whether the broker's answer settles what happened to the transaction."""
    return error.reason in {"TRANSACTION_DECIDED", "TRANSACTION_NOT_FOUND"}
