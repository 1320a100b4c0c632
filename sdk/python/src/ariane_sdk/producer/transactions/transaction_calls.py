"""Sending half messages and ending them.

A half message is sent as every other message; its row says of which producer group it is. An end is
a call that is repeated until its outcome is known: repeating it is harmless. The ends of one turn
of the loop share a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias, cast

from ariane.broker.v1.client_service_pb2 import (
    TRANSACTION_OUTCOME_COMMIT,
    TRANSACTION_OUTCOME_ROLLBACK,
    TRANSACTION_OUTCOME_UNKNOWN,
)
from ariane.broker.v1.transaction_service_pb2 import (
    TransactionEndResult,
    TransactionToEnd,
    UpdateTransactionsRequest,
    UpdateTransactionsResponse,
)
from ariane.common.v1 import message_pb2
from ariane_sdk.checks.delay import is_delayed
from ariane_sdk.checks.demand import demand_of
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.errors import (
    ArianeError,
    CallError,
    ClientNotRunning,
    IllegalArgument,
    MessageIllegal,
)
from ariane_sdk.message import AcknowledgedLevel, Message, RelayedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.answers import Call, failure_of
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.net.status import error_from_status
from ariane_sdk.net.timestamps import timestamp_ms
from ariane_sdk.producer.accumulator.topic_info import SendOptions
from ariane_sdk.producer.intake.intake import Intake
from ariane_sdk.producer.sending.unsettled import ProducerParts
from ariane_sdk.producer.transactions.transaction import HalfMessage, TransactionOutcome
from ariane_sdk.routing.broker_addresses import address_for_send

TOGETHER_MAX: Final = 64
"""Ends in one call. With more, the broker would wait while the client makes the next one."""

WIRE_OUTCOMES: Final = {
    TransactionOutcome.COMMIT: TRANSACTION_OUTCOME_COMMIT,
    TransactionOutcome.ROLLBACK: TRANSACTION_OUTCOME_ROLLBACK,
    TransactionOutcome.UNKNOWN: TRANSACTION_OUTCOME_UNKNOWN,
}
"""Outcomes as the contract has them."""

_Waiting: TypeAlias = tuple[TransactionToEnd, "asyncio.Future[TransactionEndResult]"]
"""An end, and the future of its caller."""


class EndCalls:
    """The ends of one producer; lives on one event loop."""

    def __init__(self, connections: Connections, *, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s
        self._waiting: dict[str, list[_Waiting]] = {}
        self._calls: dict[Call[UpdateTransactionsResponse], None] = {}
        self._closed = False

    async def end(self, address: str, peer: str, end: TransactionToEnd) -> TransactionEndResult:
        """Have a broker end a transaction.

        Args:
            address: The broker, "host:port".
            peer: Its name and address, for the text of errors.
            end: The transaction and its outcome.

        Raises:
            CallError: The broker's error; ``outcome_unknown`` says whether the transaction may have
                ended.
        """
        self._connections.check()
        if self._closed:
            raise ClientNotRunning("the client is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[TransactionEndResult] = loop.create_future()
        if address not in self._waiting:
            self._waiting[address] = []
            loop.call_soon(self._send_waiting, address, peer)
        self._waiting[address].append((end, future))
        result = await future
        if result.HasField("error"):
            raise error_from_status(result.error, peer=peer)
        return result

    def close(self) -> None:
        """Give all calls up; the outcome of those in flight stays unknown."""
        self._closed = True
        for call in list(self._calls):
            call.cancel()

    def _send_waiting(self, address: str, peer: str) -> None:
        """Send the ends whose callers still wait."""
        waiting = [each for each in self._waiting.pop(address) if not each[1].done()]
        for begin in range(0, len(waiting), TOGETHER_MAX):
            self._send(address, peer, waiting[begin : begin + TOGETHER_MAX])

    def _send(self, address: str, peer: str, together: Sequence[_Waiting]) -> None:
        futures = [future for _, future in together]
        request = UpdateTransactionsRequest(ends=[end for end, _ in together])
        try:
            if self._closed:
                raise ClientNotRunning("the client is closed")
            call = self._connections.update_transactions(
                address, request.SerializeToString(), self._timeout_s
            )
        except ArianeError as error:
            _fail(futures, error)
            return
        self._calls[call] = None
        call.add_done_callback(partial(self._answered, peer, futures))

    def _answered(
        self,
        peer: str,
        futures: Sequence[asyncio.Future[TransactionEndResult]],
        call: Call[UpdateTransactionsResponse],
    ) -> None:
        """Give each caller its result."""
        self._calls.pop(call, None)
        try:
            results = call.result().ends
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - callers need every error.
            _fail(futures, failure_of(error, peer))
            return
        if len(results) != len(futures):
            text = f"{peer}: {len(results)} results for {len(futures)} ends"
            _fail(futures, CallError(text, outcome_unknown=True))
            return
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(futures: Sequence[asyncio.Future[TransactionEndResult]], error: ArianeError) -> None:
    """Give each caller an error of its own, since a caller may change it."""
    for future in futures:
        if not future.done():
            future.set_exception(error_copy(error, type(error)))


SETTLED_REASONS: Final = frozenset({"TRANSACTION_DECIDED", "TRANSACTION_NOT_FOUND"})
"""They settle what happened to the transaction, whichever call did it."""

IMMUNITY_PROPERTY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"


class TransactionCalls:
    """Sends and ends half messages of one producer group."""

    def __init__(self, parts: ProducerParts, intake: Intake, *, group: str) -> None:
        self._end_calls = EndCalls(
            parts.session.connections, timeout_s=parts.settings.call_timeout_s
        )
        self._parts = parts
        self._intake = intake
        self._group = group
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
        began_ms = self._parts.clock.now_ms()
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

        session = self._parts.session

        async def call() -> SendResult | None:
            address = await address_for_send(session.routes, half.topic, half.broker_name)
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
                timestamp_ms(position.store_time),
                address,
                response.duplicate,
            )

        result = await session.failover.ask(
            call,
            [half.topic],
            patience_s=self._parts.settings.send_timeout_s,
            is_final=lambda error: error.reason in SETTLED_REASONS,
        )
        if self.trace is not None:
            self.trace.ended(half.topic, half.transaction_id, outcome.value)
        return result

    def close(self) -> None:
        """Disconnect; the outcome of calls in flight stays unknown."""
        self._end_calls.close()
