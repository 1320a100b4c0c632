"""Sending half messages and ending them: calls that are repeated until their outcome is known.

Repeating any of these calls is harmless, so a lost answer does not end the tries. A half message
that may be stored is repeated only at its broker: at another broker it would be a second message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from ariane.broker.v1.client_service_pb2 import (
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
)
from ariane.broker.v1.transaction_service_pb2 import HalfMessageToStore, TransactionToEnd
from ariane.common.v1 import message_pb2
from ariane_sdk.checks.delay import is_delayed
from ariane_sdk.checks.demand import Demand, demand_of
from ariane_sdk.checks.limits import check_body_size, checked_tag, checked_topic
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.errors import CallError, IllegalArgument, MessageIllegal, SendError
from ariane_sdk.message import AcknowledgedLevel, Message, RelayedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.producer.accumulator.topic_lane import SendOptions
from ariane_sdk.producer.intake.intake import Intake
from ariane_sdk.producer.transactions.transaction import HalfMessage, TransactionOutcome
from ariane_sdk.producer.transactions.transaction_requests import TransactionRequests
from ariane_sdk.routing.failover import Failover
from ariane_sdk.routing.routes import Routes, address_for_send
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

IMMUNITY_PROPERTY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"

_OUTCOMES: Final = {
    TransactionOutcome.COMMIT: TRANSACTION_OUTCOME_COMMIT,
    TransactionOutcome.ROLLBACK: TRANSACTION_OUTCOME_ROLLBACK,
}


class TransactionCalls:
    """Sends and ends half messages of one producer group.

    Attributes:
        trace: Records the steps; None without tracing.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        intake: Intake,
        *,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        new_unique_id: Callable[[], str],
    ) -> None:
        self._requests = TransactionRequests(connections, settings=settings)
        self._routes = routes
        self._failover = Failover(routes, clock)
        self._intake = intake
        self._group = group
        self._settings = settings
        self._clock = clock
        self._new_unique_id = new_unique_id
        self.trace: MessageTrace | None = None

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
        began_ms = self._clock.now_ms()
        half = HalfMessageToStore(producer_group=group or self._group)
        half.message.CopyFrom(self._to_wire(message, immunity_s))
        if options.demand is not None:
            _demand(half, options.demand)
        deadline_s = self._clock.monotonic_s() + self._settings.send_timeout_s
        backoff = Backoff(self._settings.repeat_delay_s_min, self._settings.repeat_delay_s_max)
        avoided: set[str] = set()
        while True:
            queue = await self._choose(message, options, avoided)
            try:
                await self._send_to(queue, half, deadline_s)
            except CallError as error:
                left_s = deadline_s - self._clock.monotonic_s()
                if error.outcome_unknown or not error.retriable or left_s <= 0:
                    raise error_copy(error, SendError) from error
                avoided.add(queue.broker_name)
                await self._failover.wait(error, [message.topic], backoff.next_s(), left_s)
            else:
                if self.trace is not None:
                    self.trace.half_sent(message, half.message.unique_id, began_ms)
                return _handle_of(half, queue.broker_name, options.demand, group)

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
            outcome=_OUTCOMES[outcome],
            producer_group=half.producer_group or self._group,
        )
        demand = demand_of(half.level, half.in_sync_min)
        if demand is not None:
            _demand(request, demand)
        address = ""

        async def call() -> SendResult | None:
            nonlocal address
            address = await address_for_send(self._routes, half.topic, half.broker_name)
            peer = f"broker {half.broker_name} at {address}"
            response = await self._requests.end(address, peer, request)
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
            call, [half.topic], patience_s=self._settings.send_timeout_s, is_final=_is_final
        )
        if self.trace is not None:
            self.trace.ended(half.topic, half.transaction_id, outcome.value)
        return result

    def close(self) -> None:
        """Disconnect; the outcome of calls in flight stays unknown."""
        self._requests.close()

    async def _send_to(
        self, queue: MessageQueue, half: HalfMessageToStore, deadline_s: float
    ) -> None:
        """Try one broker until it is known whether it has stored the half message.

        Raises:
            CallError: It is not stored, or with ``outcome_unknown`` it may be.
        """
        half.topic, half.queue_id = queue.topic, queue.queue_id
        maybe_stored = False

        async def call() -> None:
            nonlocal maybe_stored
            try:
                address = await address_for_send(self._routes, queue.topic, queue.broker_name)
                peer = f"broker {queue.broker_name} at {address}"
                await self._requests.store_half(address, peer, half)
            except CallError as error:
                maybe_stored = maybe_stored or error.outcome_unknown
                if not maybe_stored:
                    # Surely not stored: another broker may take it.
                    raise _NotHere(error) from error
                raise

        try:
            left_s = deadline_s - self._clock.monotonic_s()
            await self._failover.ask(call, [queue.topic], patience_s=left_s)
        except _NotHere as refusal:
            raise refusal.error from None
        except CallError as error:
            error.outcome_unknown = error.outcome_unknown or maybe_stored
            raise

    async def _choose(
        self, message: Message, options: SendOptions, avoided: set[str]
    ) -> MessageQueue:
        lane = await self._intake.lane_of(message.topic, grouped=bool(message.message_group))
        pinned = lane.pinned_queue(message, options)
        if pinned is not None:
            return pinned
        return lane.next_queue(lambda broker_name: broker_name not in avoided)

    def _to_wire(self, message: Message, immunity_s: int | None) -> message_pb2.Message:
        checked_topic(message.topic)
        check_property_names(message)
        if is_delayed(message):
            raise MessageIllegal("a half message cannot be delayed")
        if message.tag:
            checked_tag(message.tag)
        body = bytes(message.body)
        check_body_size(len(body), self._settings.body_bytes_max)
        properties = dict(message.stored_properties)
        if immunity_s is not None:
            if immunity_s < 0:
                raise IllegalArgument(f"immunity_s must be 0 or more, not {immunity_s}")
            properties[IMMUNITY_PROPERTY] = str(immunity_s)
        if isinstance(message, RelayedMessage):
            unique_id, born_timestamp_ms = message.unique_id, message.born_timestamp_ms
        else:
            unique_id, born_timestamp_ms = self._new_unique_id(), self._clock.now_ms()
        wire = message_pb2.Message(
            body=body,
            tag=message.tag,
            keys=message.keys,
            message_group=message.message_group,
            properties=properties,
            unique_id=unique_id,
            flag=message.flag,
            message_type=message_pb2.MESSAGE_TYPE_TRANSACTION,
        )
        wire.create_time.FromMilliseconds(born_timestamp_ms)
        return wire


def _demand(entry: HalfMessageToStore | TransactionToEnd, demand: Demand) -> None:
    entry.required_level = cast("message_pb2.AcknowledgedLevel.ValueType", int(demand.level))
    entry.in_sync_min = demand.in_sync_min


def _handle_of(
    half: HalfMessageToStore, broker_name: str, demand: Demand | None, group: str
) -> HalfMessage:
    unique_id = half.message.unique_id
    if demand is None:
        return HalfMessage(unique_id, half.topic, broker_name, producer_group=group)
    level, in_sync_min = demand.level or None, demand.in_sync_min or None
    return HalfMessage(unique_id, half.topic, broker_name, level, in_sync_min, group)


class _NotHere(Exception):
    """A broker has surely not stored a half message."""

    def __init__(self, error: CallError) -> None:
        super().__init__(str(error))
        self.error = error


def _is_final(error: CallError) -> bool:
    """Whether the broker's answer settles what happened to the transaction."""
    return error.reason in {"TRANSACTION_DECIDED", "TRANSACTION_NOT_FOUND"}
