"""``QueryService``: finds single messages."""
# ruff: noqa: N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceServicer
from ariane_broker.read.message_query import KeyedMessages, MessageQuery
from ariane_broker.rpc.answer_leases import lease_of
from ariane_broker.rpc.translation.stored_message import message_of
from ariane_broker.rpc.translation.wire_time import milliseconds_of
from ariane_servicekit import AnswerBudget
from ariane_servicekit.security.gate.asking import require_subscribe

MESSAGE_BYTES: Final = 4 << 20
"""Memory for the answer with one message."""

PAGE_BYTES: Final = 8 << 20
"""Memory for the messages of one page; the last message may exceed it."""


class QueryServicer(QueryServiceServicer):
    """Translates queries."""

    asked_methods: Final = frozenset({"GetMessage"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, query: MessageQuery, *, answers: AnswerBudget, broker_name: str) -> None:
        """``answers`` is the memory budget of answers."""
        self._query = query
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
