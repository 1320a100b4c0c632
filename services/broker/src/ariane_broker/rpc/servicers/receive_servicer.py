"""``ReceiveService``: hands out messages to consumers that own no queues."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceServicer
from ariane_broker.errors.receiving import receipt_expired
from ariane_broker.receive.handing_out.receive_order import (
    COUNT_MAX,
    PLAIN_COUNT_MAX,
    HandedOut,
)
from ariane_broker.receive.in_hand.receipts import Receipt
from ariane_broker.receive.room import ReceiveRoom
from ariane_broker.receive.settled_messages import settle_messages
from ariane_broker.receive.settling import DONE, Hidden, Outcome, Settled, Settlement
from ariane_broker.rpc.answer_leases import hold_seconds_max, lease_of
from ariane_broker.rpc.translation.receive_wire import (
    kept_messages,
    kept_settlements,
    nack_of,
    packed_answer,
    plain_answers,
    receipts_of,
    receive_order,
    receiving_queue,
    settled_message,
    settled_records,
    settlement_of_handle,
    settlements_of,
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
        hold_seconds = hold_seconds_max(context)
        order = receive_order(request.order, PLAIN_COUNT_MAX, hold_seconds_max=hold_seconds)
        handed = self._room.receiving.receive(order, lease_of(self._answers, context))
        if not isinstance(handed, list):
            handed = await handed
        _charge(handed)
        answers = plain_answers(handed, order.group, self._room.table.secret, self._broker_name)
        for answer in await in_turns(answers):
            yield answer

    def ReceiveRecords(  # type: ignore[override]  # it encodes the answer, as with pulls.
        self, request: receive_pb.ReceiveRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> bytes | Awaitable[bytes]:
        """Receive packed records; without a wait if there are some."""
        hold_seconds = hold_seconds_max(context)
        order = receive_order(request.order, COUNT_MAX, hold_seconds_max=hold_seconds)
        handed = self._room.receiving.receive(order, lease_of(self._answers, context))
        if isinstance(handed, list):
            return self._packed(handed, order.group)
        return self._packed_later(handed, order.group)

    def AckMessages(
        self, request: receive_pb.AckMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> Any:
        """Acknowledge messages."""
        return self._settle_handles(request, DONE, receive_pb.AckMessagesResponse)

    def NackMessages(
        self, request: receive_pb.NackMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> Any:
        """Give back messages that failed."""
        outcome = nack_of(request.nack, "nack")
        return self._settle_handles(request, outcome, receive_pb.NackMessagesResponse)

    async def ChangeInvisibleDuration(
        self,
        request: receive_pb.ChangeInvisibleDurationRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> receive_pb.ChangeInvisibleDurationResponse:
        """Change how long a message stays invisible."""
        seconds = seconds_of(request.invisible_duration, "invisible_duration")
        outcome = Hidden(span_ms_of(seconds, "invisible_duration"))
        handle = request.receipt_handle
        wanted = settlement_of_handle(
            handle, request.consumer_group, self._room.table.secret, outcome
        )
        (settled,) = await self._settle_all(request.consumer_group, [wanted])
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
        outcomes = await self._settle_all(request.consumer_group, wanted)
        named = [*request.receipt_handles, *(receipt.hex() for receipt in request.receipts)]
        results = await in_turns(map(kept_messages, outcomes, named))
        return receive_pb.KeepInvisibleResponse(results=results)

    def SettleRecords(
        self, request: receive_pb.SettleRecordsRequest, context: aio.ServicerContext[Any, Any]
    ) -> Any:
        """Settle records by ranges."""
        group = request.consumer_group
        wanted = settlements_of(request.settlements, group, self._room.table.secret)
        return self._settle(
            group, wanted, request.settlements, settled_records, receive_pb.SettleRecordsResponse
        )

    async def ListReceiving(
        self, request: receive_pb.ListReceivingRequest, context: aio.ServicerContext[Any, Any]
    ) -> receive_pb.ListReceivingResponse:
        """Return the counts of a group."""
        found = await in_turns(self._room.standings.walk(request.consumer_group, request.topic))
        queues = await in_turns(map(receiving_queue, found))
        return receive_pb.ListReceivingResponse(queues=queues)

    def _packed(self, handed: Sequence[HandedOut], group: str) -> bytes:
        _charge(handed)
        return packed_answer(handed, group, self._room.table.secret)

    async def _packed_later(self, handed: Awaitable[Sequence[HandedOut]], group: str) -> bytes:
        return self._packed(await handed, group)

    def _settle_handles(
        self,
        request: receive_pb.AckMessagesRequest | receive_pb.NackMessagesRequest,
        outcome: Outcome,
        response_of: Callable[..., Any],
    ) -> Any:
        """Settle messages: one at once, several of an answer together."""
        group, handles = request.consumer_group, request.receipt_handles
        if len(handles) != 1:
            return self._settle_messages(group, handles, outcome, response_of)
        wanted = settlement_of_handle(handles[0], group, self._room.table.secret, outcome)
        return self._settle(group, iter((wanted,)), handles, settled_message, response_of)

    async def _settle_messages(
        self, group: str, handles: Sequence[str], outcome: Outcome, response_of: Callable[..., Any]
    ) -> Any:
        receipts = await in_turns(receipts_of(handles, group, self._room.table.secret))
        good = [each for each in receipts if isinstance(each, Receipt)]
        require_subscribe({each.queue.topic for each in good})
        settled = iter(await settle_messages(self._room.settling, group, good, outcome))
        outcomes = (each if isinstance(each, ServiceError) else next(settled) for each in receipts)
        return response_of(results=await in_turns(map(settled_message, outcomes, handles)))

    def _settle(
        self,
        group: str,
        wanted: Iterator[Settlement | ServiceError],
        named: Sequence[Any],
        result_of: Callable[[Settled | ServiceError, Any], Any],
        response_of: Callable[..., Any],
    ) -> Any:
        """Settle what is named: one thing at once, several in turns.

        Returns:
            The response, or what is to be awaited for it.
        """
        if len(named) != 1:
            return self._settle_in_turns(group, wanted, named, result_of, response_of)
        settling = self._room.settling
        outcome: Any = next(wanted)
        if isinstance(outcome, Settlement):
            require_subscribe((outcome.queue.topic,))
            outcome = settling.settle_one(group, outcome)
            if not isinstance(outcome, Settled):
                return _answer_later(outcome, named, result_of, response_of)
        else:
            settling.groups.get(group)  # That there is none is the error of the whole call.
        return response_of(results=[result_of(outcome, named[0])])

    async def _settle_in_turns(
        self,
        group: str,
        wanted: Iterable[Settlement | ServiceError],
        named: Sequence[Any],
        result_of: Callable[[Settled | ServiceError, Any], Any],
        response_of: Callable[..., Any],
    ) -> Any:
        outcomes = await self._settle_all(group, wanted)
        return response_of(results=await in_turns(map(result_of, outcomes, named)))

    async def _settle_all(
        self, group: str, entries: Iterable[Settlement | ServiceError]
    ) -> list[Settled | ServiceError]:
        """Settle all valid entries; refused ones stay errors."""
        wanted = await in_turns(entries)
        good = [each for each in wanted if isinstance(each, Settlement)]
        require_subscribe({each.queue.topic for each in good})
        settled = iter(await self._room.settling.settle(group, good))
        return [each if isinstance(each, ServiceError) else next(settled) for each in wanted]


async def _answer_later(
    outcomes: Awaitable[Sequence[Settled]],
    named: Sequence[Any],
    result_of: Callable[[Settled | ServiceError, Any], Any],
    response_of: Callable[..., Any],
) -> Any:
    return response_of(results=list(map(result_of, await outcomes, named)))


def _charge(handed: Sequence[HandedOut]) -> None:
    charge_handed_out((out.queue.topic, out.size_bytes) for out in handed)
