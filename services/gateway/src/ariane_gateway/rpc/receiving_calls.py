"""Calls of consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.definition_pb2 import Code, Status
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_gateway.brokers.receive_calls import Delivery, ReceiveOrder
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.receiving.receiving import Receiving
from ariane_gateway.receiving.settling import Settling
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.caller import Caller, group_of, topic_of
from ariane_gateway.rpc.filter_wire import wanted_of
from ariane_gateway.rpc.handed_message import hand
from ariane_gateway.rpc.statuses import OK, Illegal, status_of, status_of_all
from ariane_sdk.consumer.receiving.invisible_span import INVISIBLE_S_MAX
from ariane_sdk.errors import BodyDamaged
from ariane_servicekit import ServiceError

COUNT_DEFAULT: Final = 32
COUNT_MAX: Final = 1024
HANDLES_MAX: Final = 4096
ATTEMPT_ID_LENGTH_MAX: Final = 255
"""As brokers have it."""
KEPT_S: Final = 60.0
"""How long messages of consumers that have them renewed are invisible, in seconds."""
INVISIBLE_S_MIN: Final = 1.0
HOLD_S_DEFAULT: Final = 20.0
MARGIN_S: Final = 0.5
"""A receive ends so much before its caller stops waiting, or a tenth of its time if that is more.
Clients in Rust stop waiting when the time of holding ends."""

LATE_S: Final = 5.0
"""How much longer than it waits a client may take to read an answer, in seconds."""

REFUSED_S: Final = 1.0
"""A receive that is refused is held so long, or as long as it would be if that is less. The client
in Go asks again 20 ms after any other refusal, that in Java as soon after TOO_MANY_REQUESTS."""

Write: TypeAlias = Callable[[Iterable[pb.ReceiveMessageResponse]], Awaitable[None]]
"""Sends answers; returns when they have left."""


class ReceivingCalls:
    """Answers consumers."""

    def __init__(
        self,
        receiving: Receiving,
        settling: Settling,
        clients: ClientTable,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._receiving = receiving
        self._clients = clients
        self._settling = settling
        self._now_ms = now_ms

    async def receive(
        self, request: pb.ReceiveMessageRequest, caller: Caller, write: Write
    ) -> None:
        """Receive messages: a status, the messages, and when they were handed out."""
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        broker_name = request.message_queue.broker.name
        if request.auto_renew:
            # Its messages are kept while it lives: this is a sign of life, too.
            self._clients.heard(*caller.identity)
        try:
            order = _order_of(request, caller)
            deliveries = await self._receiving.receive(
                broker_name, order, _hold_s(request, caller.time_s)
            )
        except (Refused, Illegal) as error:
            waited_s = now_s() - began_s
            await self.refuse(error, request, caller.time_s, write, waited_s=waited_s)
            return
        if not deliveries:
            status = Status(code=Code.MESSAGE_NOT_FOUND, message="no message came in time")
            await write([pb.ReceiveMessageResponse(status=status)])
            return
        damaged: list[Delivery] = []
        try:
            # One without a deadline that reads nothing would have its messages held here for ever.
            async with asyncio.timeout_at(began_s + caller.time_s + LATE_S):
                await write(self._answers(deliveries, request, damaged))
        except BaseException as error:
            # The client is gone, or waits no longer.
            self._receiving.give_back(broker_name, order, deliveries)
            if isinstance(error, TimeoutError):
                raise ServiceError(
                    ErrorReason.ERROR_REASON_DEADLINE_PASSED, "the client takes no messages"
                ) from None
            raise
        # Not before the client took the answer, as far as this end can know.
        if request.auto_renew:
            self._receiving.keep(broker_name, order, deliveries)
        if damaged:
            self._receiving.give_up(broker_name, order, damaged)

    async def refuse(
        self,
        error: Refused | Illegal,
        request: pb.ReceiveMessageRequest,
        time_s: float,
        write: Write,
        *,
        waited_s: float = 0.0,
    ) -> None:
        """Answer that a receive is refused, so late that nobody asks more often than each second.

        Args:
            error: Why.
            request: What was asked.
            time_s: How long the client waits, in seconds.
            write: Sends the answer.
            waited_s: How long it has waited before it was refused, in seconds.
        """
        await self._receiving.pause(min(REFUSED_S, _hold_s(request, time_s)) - waited_s)
        await write([pb.ReceiveMessageResponse(status=status_of(error))])

    async def acknowledge(
        self, request: pb.AckMessageRequest, _caller: Caller
    ) -> pb.AckMessageResponse:
        """Acknowledge messages.

        Raises:
            Illegal: There are none, or too many.
        """
        entries = request.entries
        if not 1 <= len(entries) <= HANDLES_MAX:
            raise Illegal(
                Code.BAD_REQUEST,
                f"{len(entries)} entries; 1 to {HANDLES_MAX} are acknowledged at a time",
            )
        outcomes = await self._settling.acknowledge(
            group_of(request.group),
            topic_of(request.topic),
            [each.receipt_handle for each in entries],
        )
        statuses = [OK if refused is None else status_of(refused) for refused in outcomes]
        answer = pb.AckMessageResponse(status=status_of_all(statuses))
        for entry, status in zip(entries, statuses, strict=True):
            answer.entries.add(
                message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
            )
        return answer

    async def change_invisible(
        self, request: pb.ChangeInvisibleDurationRequest, _caller: Caller
    ) -> pb.ChangeInvisibleDurationResponse:
        """Change how long a message stays invisible.

        Raises:
            Illegal: The time is out of range.
            Refused: It was not done.
        """
        invisible_s = _seconds(request.invisible_duration)
        if not 0 <= invisible_s <= INVISIBLE_S_MAX:
            raise Illegal(Code.ILLEGAL_INVISIBLE_TIME, "an invisible time is at most 12 h")
        handle = await self._settling.hide(
            group_of(request.group), topic_of(request.topic), request.receipt_handle, invisible_s
        )
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=handle)

    async def forward_to_dead_letters(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, _caller: Caller
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Make a message a dead letter.

        Raises:
            Refused: It was not done, and may be later.
        """
        await self._settling.give_up(
            group_of(request.group), topic_of(request.topic), request.receipt_handle
        )
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)

    def _answers(
        self,
        deliveries: Sequence[Delivery],
        request: pb.ReceiveMessageRequest,
        damaged: list[Delivery],
    ) -> Iterator[pb.ReceiveMessageResponse]:
        """All is well, the messages, and when they were handed out.

        Notes those that nobody can read in ``damaged``.
        """
        yield pb.ReceiveMessageResponse(status=OK)
        now_ms = self._now_ms()
        for each in deliveries:
            answer = pb.ReceiveMessageResponse()
            try:
                hand(each, request.message_queue.topic, now_ms, answer.message)
            except BodyDamaged:
                damaged.append(each)
                continue
            yield answer
        last = pb.ReceiveMessageResponse()
        last.delivery_timestamp.FromMilliseconds(now_ms)
        yield last


def _order_of(request: pb.ReceiveMessageRequest, caller: Caller) -> ReceiveOrder:
    if not 0 <= request.batch_size <= COUNT_MAX:
        raise Illegal(Code.BAD_REQUEST, f"batch size {request.batch_size}; at most {COUNT_MAX}")
    if len(request.attempt_id) > ATTEMPT_ID_LENGTH_MAX:
        raise Illegal(
            Code.BAD_REQUEST, f"an attempt id has at most {ATTEMPT_ID_LENGTH_MAX} characters"
        )
    invisible_s = KEPT_S
    if not request.auto_renew and request.HasField("invisible_duration"):
        invisible_s = _seconds(request.invisible_duration)
        if not INVISIBLE_S_MIN <= invisible_s <= INVISIBLE_S_MAX:
            raise Illegal(Code.ILLEGAL_INVISIBLE_TIME, "an invisible time is 1 s to 12 h")
    return ReceiveOrder(
        group_of(request.group),
        wanted_of(request.message_queue.topic, request.filter_expression),
        caller.client_id,
        request.batch_size or COUNT_DEFAULT,
        invisible_s,
        by_priority=True,
        # Listeners of some languages go on behind one that failed: they get one at a time.
        several_of_a_group=not request.auto_renew,
        attempt_id=request.attempt_id,
    )


def _hold_s(request: pb.ReceiveMessageRequest, time_s: float) -> float:
    wanted_s = HOLD_S_DEFAULT
    if request.HasField("long_polling_timeout"):
        wanted_s = _seconds(request.long_polling_timeout)
    margin_s = max(MARGIN_S, time_s / 10)
    return max(0.0, min(wanted_s, time_s - margin_s))


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
