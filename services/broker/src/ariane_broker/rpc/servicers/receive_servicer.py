"""``ReceiveService``: hands out messages to consumers that own no queues."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, cast

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceServicer
from ariane_broker.errors.receiving import receipt_expired
from ariane_broker.receive.handing_out.receive_order import (
    COUNT_MAX,
    PLAIN_COUNT_MAX,
    HandedOut,
    checked_order,
)
from ariane_broker.receive.room import ReceiveRoom
from ariane_broker.receive.settling import DONE, Hidden, Outcome, Settled, Settlement
from ariane_broker.rpc.answer_leases import hold_seconds_max, lease_of
from ariane_broker.rpc.translation.receive_wire import (
    kept_messages,
    kept_settlements,
    nack_of,
    packed_answer,
    plain_answers,
    receive_order,
    receiving_queue,
    settled_message,
    settled_records,
    settlements_of,
    settlements_of_handles,
    span_ms_of,
)
from ariane_broker.rpc.translation.wire_time import seconds_of, set_time
from ariane_servicekit import AnswerBudget, in_turns
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.security.gate.asking import require_subscribe
from ariane_servicekit.security.gate.charging import charge_handed_out


class ReceiveServicer(ReceiveServiceServicer):
    """Translates receiving."""

    asked_methods: Final = frozenset(
        {"AckMessages", "ChangeInvisibleDuration", "KeepInvisible", "NackMessages", "SettleRecords"}
    )
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, room: ReceiveRoom, *, answers: AnswerBudget, broker_name: str) -> None:
        """``answers`` is the memory budget of answers."""
        self._room = room
        self._answers = answers
        self._broker_name = broker_name

    async def ReceiveMessages(
        self, request: receive_pb.ReceiveMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[receive_pb.ReceiveMessagesResponse]:
        """Receive plain messages."""
        order = receive_order(request.order, hold_seconds_max=hold_seconds_max(context))
        order = checked_order(order, PLAIN_COUNT_MAX)
        handed = await self._room.receiving.receive(order, lease_of(self._answers, context))
        _charge(handed)
        answers = plain_answers(handed, order.group, self._room.table.secret, self._broker_name)
        for answer in await in_turns(answers):
            yield answer

    async def ReceiveRecords(
        self, request: receive_pb.ReceiveRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.ReceiveRecordsResponse:
        """Receive packed records."""
        order = receive_order(request.order, hold_seconds_max=hold_seconds_max(context))
        order = checked_order(order, COUNT_MAX)
        handed = await self._room.receiving.receive(order, lease_of(self._answers, context))
        _charge(handed)
        # Bytes, as with pulls.
        answer = packed_answer(handed, order.group, self._room.table.secret)
        return cast("receive_pb.ReceiveRecordsResponse", answer)

    async def AckMessages(
        self, request: receive_pb.AckMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.AckMessagesResponse:
        """Acknowledge messages."""
        results = await self._settle_handles(request.consumer_group, request.receipt_handles, DONE)
        return receive_pb.AckMessagesResponse(results=results)

    async def NackMessages(
        self, request: receive_pb.NackMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.NackMessagesResponse:
        """Give back messages that failed."""
        outcome = nack_of(request.nack, "nack")
        results = await self._settle_handles(
            request.consumer_group, request.receipt_handles, outcome
        )
        return receive_pb.NackMessagesResponse(results=results)

    async def ChangeInvisibleDuration(
        self,
        request: receive_pb.ChangeInvisibleDurationRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> receive_pb.ChangeInvisibleDurationResponse:
        """Change how long a message stays invisible."""
        seconds = seconds_of(request.invisible_duration, "invisible_duration")
        outcome = Hidden(span_ms_of(seconds, "invisible_duration"))
        handle = request.receipt_handle
        wanted = settlements_of_handles(
            [handle], request.consumer_group, self._room.table.secret, outcome
        )
        (settled,) = await self._settle(request.consumer_group, wanted)
        if isinstance(settled, ServiceError):
            raise settled
        if settled.expired:
            raise receipt_expired(handle)
        until = Timestamp()
        set_time(until, settled.until_ms)
        return receive_pb.ChangeInvisibleDurationResponse(
            receipt_handle=handle, invisible_until=until
        )

    async def KeepInvisible(
        self, request: receive_pb.KeepInvisibleRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.KeepInvisibleResponse:
        """Keep messages invisible."""
        wanted = kept_settlements(request, self._room.table.secret)
        outcomes = await self._settle(request.consumer_group, wanted)
        named = [*request.receipt_handles, *(receipt.hex() for receipt in request.receipts)]
        results = await in_turns(map(kept_messages, outcomes, named))
        return receive_pb.KeepInvisibleResponse(results=results)

    async def SettleRecords(
        self, request: receive_pb.SettleRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.SettleRecordsResponse:
        """Settle records by ranges."""
        wanted = settlements_of(
            request.settlements, request.consumer_group, self._room.table.secret
        )
        outcomes = await self._settle(request.consumer_group, wanted)
        receipts = (settlement.receipt for settlement in request.settlements)
        results = await in_turns(map(settled_records, outcomes, receipts))
        return receive_pb.SettleRecordsResponse(results=results)

    async def ListReceiving(
        self, request: receive_pb.ListReceivingRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.ListReceivingResponse:
        """Return the counts of a group."""
        found = await in_turns(self._room.standings.walk(request.consumer_group, request.topic))
        queues = await in_turns(map(receiving_queue, found))
        return receive_pb.ListReceivingResponse(queues=queues)

    async def _settle_handles(
        self, group: str, handles: Sequence[str], outcome: Outcome
    ) -> list[receive_pb.SettledMessage]:
        wanted = settlements_of_handles(handles, group, self._room.table.secret, outcome)
        return await in_turns(map(settled_message, await self._settle(group, wanted), handles))

    async def _settle(
        self, group: str, entries: Iterable[Settlement | ServiceError]
    ) -> list[Settled | ServiceError]:
        """Settle all valid entries; refused ones stay errors."""
        wanted = await in_turns(entries)
        good = [each for each in wanted if isinstance(each, Settlement)]
        require_subscribe({each.queue.topic for each in good})
        settled = iter(await self._room.settling.settle(group, good))
        return [each if isinstance(each, ServiceError) else next(settled) for each in wanted]


def _charge(handed: Sequence[HandedOut]) -> None:
    charge_handed_out((out.queue.topic, out.size_bytes) for out in handed)
