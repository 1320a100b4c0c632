"""``QueryService``: finds single messages."""
# ruff: noqa: N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceServicer
from ariane_broker.delay.waiting_messages import (
    FIRST,
    Place,
    WaitingMessage,
    WaitingMessages,
)
from ariane_broker.read.message_query import KeyedMessages, MessageQuery
from ariane_broker.rpc.answer_leases import lease_of
from ariane_broker.rpc.translation.stored_message import message_of
from ariane_broker.rpc.translation.wire_time import milliseconds_of, set_time
from ariane_broker.topics.readable_topics import readable_topic
from ariane_record.single.recall_handle import RecallHandle
from ariane_servicekit import AnswerBudget, PageRequest, in_turns
from ariane_servicekit.security.gate.asking import require_subscribe

MESSAGE_BYTES: Final = 4 << 20
"""Memory for the answer with one message."""

PAGE_BYTES: Final = 8 << 20
"""Memory for the messages of one page; the last message may exceed it."""


class QueryServicer(QueryServiceServicer):
    """Translates queries."""

    asked_methods: Final = frozenset({"GetMessage"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(
        self,
        query: MessageQuery,
        waiting: WaitingMessages,
        *,
        answers: AnswerBudget,
        broker_name: str,
    ) -> None:
        """``answers`` is the memory budget of answers."""
        self._query = query
        self._waiting = waiting
        self._answers = answers
        self._broker_name = broker_name

    async def GetMessage(
        self, request: query_pb.GetMessageRequest, context: aio.ServicerContext[Any, Any]
    ) -> query_pb.GetMessageResponse:
        """Read the message of one id."""
        lease = lease_of(self._answers, context)
        granted = await lease.take(MESSAGE_BYTES)
        used = 0
        try:
            found = await self._query.by_id(request.message_id, request.topic)
            require_subscribe((found.topic,))
            used = len(found.body)
        finally:
            lease.settle(granted, used)
        return query_pb.GetMessageResponse(message=message_of(found, self._broker_name))

    async def QueryMessages(
        self, request: query_pb.QueryMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> query_pb.QueryMessagesResponse:
        """Find messages by key or unique id."""
        wanted = _wanted(request)
        lease = lease_of(self._answers, context)
        granted = await lease.take(PAGE_BYTES)
        used = 0
        try:
            messages, truncated = await self._query.by_key(wanted, bytes_max=granted)
            used = sum(len(message.body) for message in messages)
        finally:
            lease.settle(granted, used)
        return query_pb.QueryMessagesResponse(
            messages=[message_of(message, self._broker_name) for message in messages],
            truncated=truncated,
        )

    async def ListDelayedMessages(
        self,
        request: query_pb.ListDelayedMessagesRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> query_pb.ListDelayedMessagesResponse:
        """List messages of a topic that wait for their time."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"delayed:{request.topic}",
            kinds=(int, int),
        )
        readable_topic(self._query.topics, request.topic)
        level, queue_offset = page.last or FIRST
        begin = Place(int(level), int(queue_offset))
        lease = lease_of(self._answers, context)
        granted = await lease.take(PAGE_BYTES)
        used = 0
        try:
            found, going_on = await self._waiting.page(request.topic, begin, page.limit)
            messages = (_delayed_message(each, request.topic, self._broker_name) for each in found)
            answer = query_pb.ListDelayedMessagesResponse(
                messages=await in_turns(messages),
                next_page_token="" if going_on is None else page.token_behind(going_on),
            )
            used = answer.ByteSize()
        finally:
            lease.settle(granted, used)
        return answer


def _delayed_message(
    waiting: WaitingMessage, topic: str, broker_name: str
) -> query_pb.DelayedMessage:
    level = waiting.place.level
    message = query_pb.DelayedMessage(
        unique_id=waiting.unique_id,
        tag=waiting.tag,
        keys=waiting.keys,
        delay_level=level,
        body_bytes=waiting.body_bytes,
    )
    set_time(message.delivery_time, waiting.due_ms)
    set_time(message.store_time, waiting.store_timestamp_ms)
    if not level:
        handle = RecallHandle(topic, broker_name, waiting.due_ms, waiting.unique_id)
        message.recall_handle = handle.encode()
    return message


def _wanted(request: query_pb.QueryMessagesRequest) -> KeyedMessages:
    """The query of a request.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    wanted = KeyedMessages(
        topic=request.topic,
        key=request.key or request.unique_id,
        before=request.before_commit_log_offset,
        count_max=request.message_count_max,
    )
    # Store times are cut to whole milliseconds, so the bounds are too: messages stored later in the
    # millisecond of a begin are found, and adjacent ranges neither overlap nor leave a gap.
    if request.HasField("begin_time"):
        wanted = replace(wanted, begin_ms=milliseconds_of(request.begin_time, "begin_time"))
    if request.HasField("end_time"):
        # The contract's end is exclusive, the store's is inclusive.
        wanted = replace(wanted, end_ms=milliseconds_of(request.end_time, "end_time") - 1)
    return wanted
