"""``SendService``: accepts messages."""
# ruff: noqa: N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1.send_service_pb2_grpc import SendServiceServicer
from ariane.common.v1.message_pb2 import StoredPosition
from ariane_broker.append.append import AppendRecords
from ariane_broker.append.rows import Outcome, Rows
from ariane_broker.clients.producers import Producers
from ariane_broker.delay.recall import Recall
from ariane_broker.rpc.peer_address import peer_host, peer_text
from ariane_broker.rpc.plain_send import PlainSent, SendMessages
from ariane_broker.rpc.translation.append_wire import append_response
from ariane_broker.rpc.translation.delay_wire import delivery_time_ms
from ariane_broker.rpc.translation.level_wire import LEVELS, demand_of
from ariane_broker.rpc.translation.wire_time import time_of
from ariane_record import ProducerSequence
from ariane_record.layout import Host
from ariane_record.single.message_id import offset_message_ids
from ariane_record.single.recall_handle import RecallHandle
from ariane_servicekit.security.gate.asking import user_name

_AGENT_KEY: Final = "user-agent"


class SendServicer(SendServiceServicer):
    """Translates sends."""

    asked_methods: Final = frozenset({"AppendRecords", "SendMessages"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(
        self,
        append_records: AppendRecords,
        send_messages: SendMessages,
        recall: Recall,
        producers: Producers,
        *,
        broker_name: str,
        store_host: Callable[[], Host],
    ) -> None:
        self._append_records = append_records
        self._send_messages = send_messages
        self._recall = recall
        self._producers = producers
        self._broker_name = broker_name
        self._store_host = store_host

    def AppendRecords(  # type: ignore[override]  # what decodes and encodes it is ours.
        self, rows: Rows, context: aio.ServicerContext[Any, Any]
    ) -> bytes | Awaitable[bytes]:
        """Append a table; without a wait if the broker's promise needs none."""
        born_host = peer_host(context.peer())
        if rows.table is not None:
            self._note(context, born_host, zip(rows.topics, rows.counts, strict=True))
        outcomes = self._append_records.take(rows, born_host)
        if isinstance(outcomes, list):
            return append_response(outcomes, rows.counts)
        return _answer_later(outcomes, rows.counts)

    async def SendMessages(
        self, request: send_pb.SendMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> send_pb.SendMessagesResponse:
        """Send plain messages."""
        queue_id = request.queue_id if request.HasField("queue_id") else None
        demand = demand_of(request.required_level, request.in_sync_min)
        peer, said = context.peer(), request.sequence
        self._note(context, peer_host(peer), [(request.topic, len(request.messages))])
        sent = await self._send_messages.send(
            request.topic,
            queue_id,
            request.messages,
            peer_host(peer),
            ProducerSequence(said.producer_id, said.producer_epoch, said.first_sequence)
            if request.HasField("sequence")
            else None,
            demand=demand,
            half_group=request.half_group,
        )
        answer = send_pb.SendMessagesResponse(
            acknowledged_level=LEVELS[sent.level], duplicate=sent.duplicate
        )
        self._add_messages(answer, sent, request, peer_text(peer))
        return answer

    async def RecallMessage(
        self, request: send_pb.RecallMessageRequest, context: aio.ServicerContext[Any, Any]
    ) -> send_pb.RecallMessageResponse:
        """Take a delayed message back."""
        unique_id = await self._recall.recall(
            request.topic, request.recall_handle, peer_host(context.peer())
        )
        return send_pb.RecallMessageResponse(unique_id=unique_id)

    def _note(
        self,
        context: aio.ServicerContext[Any, Any],
        born_host: Host,
        sent: Iterable[tuple[str, int]],
    ) -> None:
        agent = ""
        for key, value in context.invocation_metadata() or ():
            if key == _AGENT_KEY:
                agent = str(value)
                break
        self._producers.note(born_host, agent, sent, user_name)

    def _add_messages(
        self,
        answer: send_pb.SendMessagesResponse,
        sent: PlainSent,
        request: send_pb.SendMessagesRequest,
        producer_address: str,
    ) -> None:
        appended = sent.appended
        stored_ms = appended.store_timestamp_ms
        store_host = self._store_host()
        # One message over and over: what all share is made once, and an append copies it.
        message = send_pb.SentMessage(
            position=StoredPosition(
                broker_name=self._broker_name,
                queue_id=sent.queue_id,
                store_time=time_of(stored_ms),
                producer_address=producer_address,
            )
        )
        position, add = message.position, answer.messages.append
        is_delayed = request.messages[0].HasField("delay") or request.messages[0].HasField(
            "delivery_time"
        )
        places = appended.commit_log_offsets.tolist()
        message_ids = offset_message_ids(store_host, places)
        found = zip(sent.unique_ids, places, message_ids, strict=True)
        for number, (unique_id, place, message_id) in enumerate(found):
            message.unique_id = unique_id
            position.queue_offset = appended.first_queue_offset + number
            position.commit_log_offset = place
            position.message_id = message_id
            if is_delayed:
                message.recall_handle = self._recall_handle(request, number, unique_id, stored_ms)
            add(message)

    def _recall_handle(
        self, request: send_pb.SendMessagesRequest, position: int, unique_id: str, stored_ms: int
    ) -> str:
        """The handle to recall a message; empty without a delivery time."""
        message = request.messages[position]
        if message.HasField("delay"):
            # The broker finds the message by its id; the time is for people.
            time_ms = stored_ms + message.delay.ToMilliseconds()
        elif message.HasField("delivery_time"):
            time_ms = delivery_time_ms(message, position)
        else:
            return ""
        return RecallHandle(request.topic, self._broker_name, time_ms, unique_id).encode()


async def _answer_later(outcomes: Awaitable[list[Outcome]], record_counts: Sequence[int]) -> bytes:
    return append_response(await outcomes, record_counts)
