"""Finding messages by id, unique id or key; pages of many brokers become one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from ariane.broker.v1.query_service_pb2 import (
    GetMessageRequest,
    QueryMessagesRequest,
    QueryMessagesResponse,
)
from ariane.common.v1 import message_pb2
from ariane_record import PropertyName, RecordFields, SystemFlag, encode_record
from ariane_record.single.message_id import decode_offset_message_id
from ariane_record.single.view import iter_messages
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.errors import CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.timestamps import timestamp_ms
from ariane_sdk.routing.route import BrokerRoute

Answer = TypeVar("Answer")

PAGE_MESSAGES_MAX: Final = 64
"""The number of messages in one page of a broker."""

_ABSENT: Final = frozenset({"MESSAGE_NOT_FOUND", "TOPIC_NOT_FOUND", "FIELD_INVALID"})
"""Errors of a broker that does not have the message: the id may belong to another broker."""

_COMPRESSIONS: Final = {
    message_pb2.COMPRESSION_LZ4: SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_LZ4,
    message_pb2.COMPRESSION_ZSTD: SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZSTD,
    message_pb2.COMPRESSION_ZLIB: SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB,
}


class OfBroker(Protocol):
    """Asks a broker: its present primary, where another one has taken over."""

    async def __call__(
        self, topic: str, broker: BrokerRoute, ask: Callable[[BrokerRoute], Awaitable[Answer]], /
    ) -> Answer:
        """Return the answer to a question about a topic."""


class MessageQueries:
    """Asks brokers for single messages."""

    def __init__(self, connections: Connections, of_broker: OfBroker, *, timeout_s: float) -> None:
        self._connections = connections
        self._of_broker = of_broker
        self._timeout_s = timeout_s

    async def by_id(
        self, brokers: Iterable[BrokerRoute], message_id: str, topic: str
    ) -> ReceivedMessage | None:
        """The message with an offset message id; None if no broker has it.

        Args:
            brokers: The brokers that may have it.
            message_id: The id.
            topic: Its topic; empty if unknown.

        Raises:
            CallError: A call to a broker failed, and no other broker has it.
        """
        request = GetMessageRequest(message_id=message_id, topic=topic)

        async def ask(broker: BrokerRoute) -> ReceivedMessage:
            queries = self._connections.queries(read_address(broker))
            call = queries.GetMessage(request, timeout=self._timeout_s)
            return received_from_wire((await answer_of(call, peer_name(broker))).message)

        answers = await asyncio.gather(*map(ask, brokers), return_exceptions=True)
        failures = []
        for answer in answers:
            if isinstance(answer, ReceivedMessage):
                return answer
            if not isinstance(answer, CallError) or answer.reason not in _ABSENT:
                failures.append(answer)
        if failures:
            raise failures[0]
        return None

    async def by_term(
        self, brokers: Sequence[BrokerRoute], request: QueryMessagesRequest
    ) -> AsyncIterator[ReceivedMessage]:
        """The messages of many brokers, newest first.

        Raises:
            CallError: A call to a broker failed.
        """
        found = [_BrokerPages(self, broker, request) for broker in brokers]
        while True:
            await asyncio.gather(*(pages.fill() for pages in found))
            found = [pages for pages in found if pages.messages]
            if not found:
                return
            newest = max(found, key=lambda pages: pages.messages[0].store_timestamp_ms)
            yield newest.messages.popleft()

    async def page(
        self, broker: BrokerRoute, request: QueryMessagesRequest
    ) -> QueryMessagesResponse:
        """One page of one broker.

        Raises:
            CallError: The call failed.
        """

        async def ask(present: BrokerRoute) -> QueryMessagesResponse:
            queries = self._connections.queries(read_address(present))
            call = queries.QueryMessages(request, timeout=self._timeout_s)
            return await answer_of(call, peer_name(present))

        return await self._of_broker(request.topic, broker, ask)


class _BrokerPages:
    """The results of one broker, page by page, newest first."""

    def __init__(
        self, queries: MessageQueries, broker: BrokerRoute, request: QueryMessagesRequest
    ) -> None:
        self.messages: deque[ReceivedMessage] = deque()
        self._queries = queries
        self._broker = broker
        self._request = QueryMessagesRequest()
        self._request.CopyFrom(request)
        self._request.message_count_max = PAGE_MESSAGES_MAX
        self._complete = False

    async def fill(self) -> None:
        """Fetch the next page if no message is left; at the end there is none."""
        while not (self.messages or self._complete):
            page = await self._queries.page(self._broker, self._request)
            self.messages.extend(map(received_from_wire, page.messages))
            self._complete = not page.truncated or not page.messages
            if page.messages:
                oldest = page.messages[-1].position.commit_log_offset
                self._request.before_commit_log_offset = oldest


def received_from_wire(message: message_pb2.Message) -> ReceivedMessage:
    """The message of an answer as a received message."""
    position = message.position
    properties = dict(message.properties)
    system = (
        (PropertyName.KEYS, " ".join(message.keys)),
        (PropertyName.TAGS, message.tag),
        (PropertyName.UNIQUE_ID, message.unique_id),
        (PropertyName.MESSAGE_GROUP, message.message_group),
    )
    properties |= {name: value for name, value in system if value}
    born_host, _, born_port = position.producer_address.rpartition(":")
    fields = RecordFields(
        topic=message.topic,
        body=message.body,
        properties=properties,
        queue_id=position.queue_id,
        queue_offset=position.queue_offset,
        commit_log_offset=position.commit_log_offset,
        flag=message.flag,
        system_flag=int(_COMPRESSIONS.get(message.compression, 0)),
        born_timestamp_ms=timestamp_ms(message.create_time),
        born_host=(born_host.strip("[]"), int(born_port)),
        store_timestamp_ms=timestamp_ms(position.store_time),
        store_host=decode_offset_message_id(position.message_id).store_host,
        attempts=position.attempts,
    )
    record = encode_record(fields)
    [view] = iter_messages(record, np.array([len(record)]))
    queue = MessageQueue(message.topic, position.broker_name, position.queue_id)
    return ReceivedMessage(view, queue)
