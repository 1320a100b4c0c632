"""Reads queues by position, without a group: for Spark, for tools, for replays."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from ariane.broker.v1.offset_service_pb2 import STORE_RULE_MOVE
from ariane.broker.v1.pull_service_pb2 import (
    RANGE_PROJECTION_RECORDS,
    TIME_BOUNDARY_LOWER,
    TIME_BOUNDARY_UPPER,
)
from ariane.broker.v1.query_service_pb2 import QueryMessagesRequest
from ariane_record.decoding.columns import RecordColumns
from ariane_sdk.checks.limits import checked_group
from ariane_sdk.checks.queue_arguments import (
    checked_offset,
    checked_offsets,
    checked_queue,
)
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S, StatelessClient
from ariane_sdk.errors import (
    CallError,
    ConsumerOffsetRefused,
    IllegalArgument,
    MessageNotFound,
)
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import timestamp_from
from ariane_sdk.reading.columns_out import RangeColumns
from ariane_sdk.reading.message_query import MessageQueries
from ariane_sdk.reading.pulled_messages import PulledMessages, pull_messages
from ariane_sdk.reading.range_chunks import RangeChunks, chunk_columns
from ariane_sdk.routing.broker_addresses import find_broker
from ariane_sdk.routing.failover import PATIENCE_S
from ariane_sdk.routing.live_broker import live_broker_of, route_to
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.security import CredentialsGiven, TlsGiven

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES_DEFAULT: Final = 2 << 20

Answer = TypeVar("Answer")


class TimeBoundary(Enum):
    """Which queue offset corresponds to a time."""

    LOWER = TIME_BOUNDARY_LOWER
    """The first message stored at or after it; the readable end when there is none."""

    UPPER = TIME_BOUNDARY_UPPER
    """After the last message stored at or before it; the min offset when there is none."""


class QueueReader(StatelessClient):
    """Reads ranges of queues, their bounds, and the offsets of groups.

    Example::

        async with QueueReader("127.0.0.1:9876") as reader:
            for queue, (begin, end) in (await reader.bounds("orders")).items():
                async for columns in reader.read_range(queue, begin, end):
                    print(queue, len(columns))
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        replicas: bool = False,
        fail_on_lost_messages: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set the reader up; ``start`` connects it.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            replicas: Whether ``bounds`` and ``read_range`` ask the replicas of a broker whose
                primary does not answer. A replica returns what its primary had last reported as
                confirmed, so a queue may seem to end a little earlier than before. The primary is
                asked first each time.
            fail_on_lost_messages: Whether reading a range ends with ``MessagesLost`` at messages
                that the broker has lost; otherwise, it logs an error and goes on behind them.
            call_timeout_s: As for other stateless clients.
            patience_s: For how long a call is made again while its broker has no primary or does
                not answer, and a range is read on without progress; 0: one try.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address is invalid.
        """
        super().__init__(
            name_servers,
            call_timeout_s=call_timeout_s,
            patience_s=patience_s,
            tls=tls,
            credentials=credentials,
            clock=clock,
            random=random,
        )
        self._replicas = replicas
        self._lost = LostMessages(fails=fail_on_lost_messages)

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._lost.count

    async def bounds(
        self, topic: str, *, broker_names: Collection[str] = ()
    ) -> dict[MessageQueue, tuple[int, int]]:
        """The oldest kept queue offset and the readable end (exclusive) of every queue.

        Args:
            topic: The topic.
            broker_names: Only the queues of these brokers; all if empty.

        Raises:
            RouteNotFound: No live broker has the topic.
            CallError: A broker did not answer.
        """
        calls = self._session.calls
        answers = await self._of_brokers(
            topic,
            lambda broker: calls.queue_bounds(broker, topic, replicas=self._replicas),
            _readable(await self._route(topic), broker_names),
        )
        return {
            queue: (bounds.min_queue_offset, bounds.max_queue_offset)
            for answer in answers
            for queue, bounds in answer
        }

    async def offsets_at(
        self,
        topic: str,
        when: datetime,
        boundary: TimeBoundary = TimeBoundary.LOWER,
        *,
        broker_names: Collection[str] = (),
    ) -> dict[MessageQueue, int]:
        """The queue offset that corresponds to a time, for every queue.

        Args:
            topic: The topic.
            when: Compared with store times; must have a time zone.
            boundary: Which of several offsets is meant.
            broker_names: Only the queues of these brokers; all if empty.

        Raises:
            RouteNotFound: No live broker has the topic.
            CallError: A broker did not answer.
        """
        calls = self._session.calls
        answers = await self._of_brokers(
            topic,
            lambda broker: calls.queue_offsets_at(broker, topic, when, boundary.value),
            _readable(await self._route(topic), broker_names),
        )
        found = chain.from_iterable(answer.items() for answer in answers)
        return {queue: position.queue_offset for queue, position in found}

    async def stored_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The stored offsets of a group; queues without one are left out.

        Raises:
            RouteNotFound: No live broker has the topic.
            CallError: A broker did not answer.
        """
        checked_group(group, system=True)
        route = await self._route(topic)
        calls = self._session.calls
        queues = _by_broker(route.read_queues)
        answers = await self._of_brokers(
            topic,
            lambda broker: calls.stored_offsets(broker, group, queues[broker.broker_name]),
            _readable(route),
        )
        return dict(chain.from_iterable(answer.items() for answer in answers))

    async def store_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the offsets of a group, and wait until they are on the brokers' disks.

        Running members do not notice, and raise them again as they go on.

        Raises:
            ConsumerOffsetRefused: Some are out of range, or their queues do not exist.
            CallError: A broker did not store them; others may have.
        """
        checked_group(group)
        checked_offsets(offsets)
        session = self._session

        async def store(queues: Sequence[MessageQueue]) -> dict[MessageQueue, CallError]:
            broker = await find_broker(session.routes, queues[0])
            wanted = {queue: offsets[queue] for queue in queues}
            return await session.calls.store_offsets(
                broker, group, wanted, durable=True, rules=dict.fromkeys(queues, STORE_RULE_MOVE)
            )

        refused: dict[MessageQueue, CallError] = {}
        for answer in await asyncio.gather(
            *(
                session.failover.ask(
                    partial(store, queues),
                    {queue.topic for queue in queues},
                    patience_s=self._patience_s,
                )
                for queues in _by_broker(offsets).values()
            )
        ):
            refused |= answer
        if refused:
            raise ConsumerOffsetRefused(refused)

    async def read_range(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        *,
        chunk_bytes: int = CHUNK_BYTES_DEFAULT,
    ) -> AsyncIterator[RecordColumns]:
        """The messages of a range in order, as columns, in chunks.

        Ends at ``end`` or at the readable end. After a broken connection, reading continues where
        it was.

        Args:
            queue: The queue.
            begin: The first queue offset.
            end: Behind the last, exclusive.
            chunk_bytes: About how many bytes one chunk has, 64 KiB to 4 MiB.

        Raises:
            QueueOffsetOutOfRange: The begin is no longer kept.
            RecordDamaged: The records cannot be decoded.
            DeadlinePassed: The broker sent nothing and answered no probe for ``patience_s``. A slow
                broker is waited for, and the time spent on chunks does not count.
            CallError: The broker did not answer, despite retries.
        """
        chunks = self._chunks.of(queue, begin, end, chunk_bytes, RANGE_PROJECTION_RECORDS)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk_columns(queue, chunk)

    async def pull(
        self, queue: MessageQueue, queue_offset: int, *, count_max: int = 32
    ) -> PulledMessages:
        """Read messages of a queue from an offset on, and say where the queue begins and ends.

        Raises:
            IllegalArgument: An argument is not legal.
            QueueNotFound: No live broker has the queue.
            CallError: The broker did not answer, despite retries.
        """
        return await pull_messages(self, queue, queue_offset, count_max)

    async def pull_columns(
        self,
        queue: MessageQueue,
        begin: int,
        end: int,
        *,
        column_names: Sequence[str] | None = None,
        chunk_bytes: int = CHUNK_BYTES_DEFAULT,
    ) -> AsyncIterator[pa.RecordBatch]:
        """The messages of a range in order, as Arrow record batches, without objects per message.

        As ``read_range``. Only the data of the columns is fetched: bodies stay in the broker unless
        ``body`` is requested.

        Args:
            queue: The queue.
            begin: The first queue offset.
            end: Behind the last, exclusive.
            column_names: The columns, in this order: ``topic``, ``queueId``, ``queueOffset``,
                ``messageId``, ``keys``, ``tag``, ``messageGroup``, ``properties``,
                ``bornTimestamp``, ``storeTimestamp``, ``deliveryTimestamp``, ``reconsumeTimes``,
                ``body``; and ``brokerName``, which ``None`` (all) leaves out.
            chunk_bytes: About how many bytes of records make one batch, 64 KiB to 4 MiB.

        Raises:
            IllegalArgument: There is no such column.
            BodyDamaged: A compressed body cannot be read. All rows before it were returned;
                continue behind it, from ``int(error.metadata["queue_offset"]) + 1``.
            QueueOffsetOutOfRange: The begin is no longer kept.
            RecordDamaged: The records cannot be decoded.
            DeadlinePassed: The broker sent nothing and answered no probe for ``patience_s``. A slow
                broker is waited for, and the time spent on chunks does not count.
            CallError: The broker did not answer, despite retries.
        """
        wanted = RangeColumns(checked_queue(queue), column_names)
        next_offset, end = checked_offset(begin), checked_offset(end)
        while next_offset < end:
            chunks = self._chunks.of(queue, next_offset, end, chunk_bytes, wanted.projection)
            async with aclosing(chunks):
                async for chunk in chunks:
                    batches = wanted.batches(chunk)
                    if batches is None:
                        # These records have to be read as a whole; so are those that follow.
                        break
                    for batch in batches:
                        yield batch
                    next_offset = chunk.next_queue_offset
                else:
                    return

    async def find_message(self, message_id: str, *, topic: str = "") -> ReceivedMessage:
        """The message with an id.

        Args:
            message_id: An offset message id (``SendResult.message_id``), which contains the
                message's position; or a unique id, if the topic is given.
            topic: Its topic; without it, the right to read all topics is needed.

        Raises:
            MessageNotFound: No broker has it.
            CallError: A broker did not answer.
        """
        session = self._session

        async def once() -> ReceivedMessage | None:
            live = await session.name_servers.list_brokers()
            brokers = [route_to(live_broker_of(each)) for each in live]
            return await self._queries.by_id(brokers, message_id, topic)

        message = await session.failover.ask(once, patience_s=self._patience_s, reads=True)
        if message is not None:
            return message
        if topic:
            async for message in self.query_messages(topic, unique_id=message_id):
                return message
        raise MessageNotFound(
            f"no broker has a message {message_id!r}" + ("" if topic else "; name its topic"),
            metadata={"message_id": message_id, "topic": topic},
        )

    async def query_messages(
        self,
        topic: str,
        *,
        key: str = "",
        unique_id: str = "",
        begin: datetime | None = None,
        end: datetime | None = None,
    ) -> AsyncIterator[ReceivedMessage]:
        """The messages of a topic with a key or unique id, newest first, fetched page by page.

        Args:
            topic: The topic.
            key: One of their keys.
            unique_id: The id that the producer gave.
            begin: Stored at or after this time.
            end: Stored before this time.

        Raises:
            IllegalArgument: Both or neither of key and unique id, or a time without a time zone.
            RouteNotFound: No live broker has the topic.
            CallError: A broker did not answer.
        """
        if bool(key) == bool(unique_id):
            raise IllegalArgument("either a key or a unique id is needed")
        request = QueryMessagesRequest(
            topic=topic,
            begin_time=None if begin is None else timestamp_from(begin),
            end_time=None if end is None else timestamp_from(end),
        )
        if key:
            request.key = key
        else:
            request.unique_id = unique_id
        route = await self._route(topic)
        async for message in self._queries.by_term(_readable(route), request):
            yield message

    async def messages_between(
        self, topic: str, begin: datetime, end: datetime | None = None
    ) -> AsyncIterator[ReceivedMessage]:
        """All messages of a topic stored in a period, queue by queue, each in its order.

        Args:
            topic: The topic.
            begin: Stored at or after this time.
            end: Stored before this time; default: now.

        Raises:
            IllegalArgument: A time without a time zone.
            RouteNotFound: No live broker has the topic.
            CallError: A broker did not answer.
        """
        first = await self.offsets_at(topic, begin)
        last = (
            {queue: bounds[1] for queue, bounds in (await self.bounds(topic)).items()}
            if end is None
            else await self.offsets_at(topic, end)
        )
        for queue in sorted(first):
            async for columns in self.read_range(queue, first[queue], last.get(queue, 0)):
                for view in columns.iter_messages():
                    yield ReceivedMessage(view, queue)

    @property
    def _chunks(self) -> RangeChunks:
        return RangeChunks(
            lambda: self._session,
            self._clock,
            silence_s=self._call_timeout_s,
            patience_s=self._patience_s,
            lost=self._lost,
            replicas=self._replicas,
        )

    @property
    def _queries(self) -> MessageQueries:
        return MessageQueries(
            self._session.connections, self._of_broker, timeout_s=self._call_timeout_s
        )

    async def _of_brokers(
        self,
        topic: str,
        ask: Callable[[BrokerRoute], Awaitable[Answer]],
        brokers: Iterable[BrokerRoute],
    ) -> list[Answer]:
        """The answers of all brokers, which are asked at the same time."""
        return await asyncio.gather(*(self._of_broker(topic, each, ask) for each in brokers))

    async def _of_broker(
        self, topic: str, broker: BrokerRoute, ask: Callable[[BrokerRoute], Awaitable[Answer]]
    ) -> Answer:
        """The answer of a broker: of its present primary, where another one has taken over."""
        session, any_queue = self._session, MessageQueue(topic, broker.broker_name, 0)

        async def once() -> Answer:
            return await ask(await find_broker(session.routes, any_queue))

        return await session.failover.ask(once, [topic], patience_s=self._patience_s, reads=True)

    async def _route(self, topic: str) -> Route:
        """The route as it is now: a reader that plans must see queues that were added."""
        return await self._session.routes.refresh(topic)


def _readable(route: Route, names: Collection[str] = ()) -> list[BrokerRoute]:
    return [
        broker
        for broker in route.brokers
        if broker.readable and (not names or broker.broker_name in names)
    ]


def _by_broker(queues: Iterable[MessageQueue]) -> Mapping[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker_name].append(queue)
    return by_broker
