"""``QueryService``: finds single messages."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceServicer
from ariane_broker.read.message_query import TIME_MS_MAX, MessageQuery
from ariane_broker.rpc.wire.stored_message import message_of
from ariane_broker.rpc.wire.wire_time import milliseconds_of


class QueryServicer(QueryServiceServicer):
    """Translates queries."""

    def __init__(self, query: MessageQuery, *, broker_name: str) -> None:
        """Answer by this query."""
        self._query = query
        self._broker_name = broker_name

    async def GetMessage(
        self, request: query_pb.GetMessageRequest, context: aio.ServicerContext[Any, Any]
    ) -> query_pb.GetMessageResponse:
        """Read the message of one id."""
        found = self._query.by_id(request.message_id, request.topic)
        return query_pb.GetMessageResponse(message=message_of(found, self._broker_name))

    async def QueryMessages(
        self, request: query_pb.QueryMessagesRequest, context: aio.ServicerContext[Any, Any]
    ) -> query_pb.QueryMessagesResponse:
        """Find messages by key or unique id."""
        begin_ms, end_ms = 0, TIME_MS_MAX
        if request.HasField("begin_time"):
            begin_ms = _ceiling_ms(request.begin_time, "begin_time")
        if request.HasField("end_time"):
            # The contract's end is exclusive, the store's is inclusive.
            end_ms = _ceiling_ms(request.end_time, "end_time") - 1
        messages, truncated = self._query.by_key(
            request.topic,
            request.key or request.unique_id,
            begin_ms=begin_ms,
            end_ms=end_ms,
            count_max=request.message_count_max,
        )
        return query_pb.QueryMessagesResponse(
            messages=[message_of(message, self._broker_name) for message in messages],
            truncated=truncated,
        )


def _ceiling_ms(time: Timestamp, field: str) -> int:
    """The first whole millisecond at or after a time; store times are whole."""
    return milliseconds_of(time, field) + (1 if time.nanos % 1_000_000 else 0)
