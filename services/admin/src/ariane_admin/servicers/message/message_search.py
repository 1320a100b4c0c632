"""Messages found anywhere in the cluster: by id, by a term of the index, the newest of a topic."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.message_pb2 import Message
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import answer_from
from ariane_admin.messages.message_body import body_of
from ariane_admin.messages.message_traces import LifeStep, life_of, steps_about
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.message.message_wire import message_of, shortened
from ariane_admin.servicers.times import moment_in
from ariane_record.names import TRACE_TOPIC
from ariane_sdk import LiveBroker, MessageQueue, QueueReader, ReceivedMessage
from ariane_sdk.errors import CallError, TopicNotFound
from ariane_servicekit import PageKey, PageRequest, ServiceError, field_invalid
from ariane_servicekit.rpc.calls import in_own_name

if TYPE_CHECKING:
    from ariane_record.decoding.columns import RecordColumns

TERM_PAGE: Final = 64
"""The most messages in one answer of a broker."""

READ_AT_ONCE_MIN: Final = 4
"""The fewest messages to read from one queue: a call costs as much as some messages."""

READ_SIDE_BY_SIDE: Final = 32
"""The most queues of a broker that are read at the same time."""

TRACES_MAX: Final = 1000
"""The most messages of the trace topic that are read from each broker for one message."""

_ABSENT: Final = frozenset({"MESSAGE_NOT_FOUND", "FIELD_INVALID"})

TERM_KINDS: Final = (int, str, int)
"""Types of the key of a message that the index found: instant, broker, commit-log offset."""

PLACE_KINDS: Final = (int, str, int, int)
"""Types of the key of a message found by time: instant, broker, queue, queue offset."""


_Kept = TypeVar("_Kept")


class Shown(NamedTuple):
    """A message for display."""

    key: PageKey
    """Its sort key: messages that were stored last are first."""
    message: Message
    """The message, with the beginning of its body."""
    cut: bool
    """Whether there is more of the body."""


class MessageSearch:
    """Asks the brokers that may have messages."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def one(self, answers: Answers, message_id: str, topic: str) -> Message:
        """The message of one id, the broker's or, with its topic, the producer's.

        Raises:
            ServiceError: FIELD_INVALID or MESSAGE_NOT_FOUND.
        """
        if not message_id:
            raise field_invalid("message_id", "is required")
        found = await self._by_id(answers, message_id, topic)
        if found is None and topic:
            asked = query_pb.QueryMessagesRequest(topic=topic, unique_id=message_id)
            matching = await self.by_term(answers, lambda _: asked, plain, count_max=1)
            found = matching[0] if matching else None
        if found is None:
            hint = "" if topic else "; a unique id is looked for with its topic"
            raise ServiceError(
                ErrorReason.ERROR_REASON_MESSAGE_NOT_FOUND,
                f"no broker that answers has message {message_id!r}{hint}",
                {"message_id": message_id, "topic": topic},
            )
        return found

    async def by_term(
        self,
        answers: Answers,
        asked: Callable[[LiveBroker], query_pb.QueryMessagesRequest],
        kept: Callable[[Message], _Kept],
        *,
        count_max: int,
    ) -> list[_Kept]:
        """Messages that the index finds, newest first.

        Args:
            answers: The brokers to ask.
            asked: The request to each broker.
            kept: What is kept of a message: all that come have large bodies, perhaps.
            count_max: The most messages of each broker.
        """

        async def at(broker: LiveBroker) -> list[tuple[PageKey, _Kept]]:
            stub = self._doors.queries(broker.address)
            request = query_pb.QueryMessagesRequest()
            request.CopyFrom(asked(broker))
            found: list[tuple[PageKey, _Kept]] = []
            while len(found) < count_max:
                request.message_count_max = min(TERM_PAGE, count_max - len(found))
                try:
                    page = await answer_from(broker, stub.QueryMessages, request)
                except TopicNotFound:
                    break
                # Beside the loop: a small body becomes a large one where its producer likes.
                found += await asyncio.to_thread(_each_kept, kept, page.messages)
                if not page.truncated or not page.messages:
                    break
                request.before_commit_log_offset = page.messages[-1].position.commit_log_offset
            return found

        found = [each for several in await answers.ask(at) for each in several]
        return [message for _, message in sorted(found, key=lambda each: each[0])]

    async def life(self, answers: Answers, unique_id: str) -> list[LifeStep]:
        """The steps of one message's life, oldest first, as clients have recorded them.

        Admin reads traces in its own name, also for who may not: it shows each step to those who
        may see its topic.
        """
        asked = query_pb.QueryMessagesRequest(topic=TRACE_TOPIC, key=unique_id)
        kept = partial(steps_about, unique_id=unique_id)
        with in_own_name():
            steps = await self.by_term(answers, lambda _: asked, kept, count_max=TRACES_MAX)
        return life_of(each for several in steps for each in several)

    async def found_by_term(
        self,
        answers: Answers,
        request: message_pb.QueryMessagesRequest,
        page: PageRequest,
        bytes_max: int,
    ) -> list[Shown]:
        """Messages with a term, newest first: one more than a page."""
        asked = query_pb.QueryMessagesRequest(topic=request.topic)
        for field in ("key", "unique_id"):
            if request.HasField(field):
                setattr(asked, field, getattr(request, field))
        for field in ("begin_time", "end_time"):
            if request.HasField(field):  # type: ignore[arg-type]
                getattr(asked, field).CopyFrom(getattr(request, field))

        def behind(broker: LiveBroker) -> query_pb.QueryMessagesRequest:
            return asked if page.last is None else _behind(asked, broker.broker_name, page.last)

        def kept(message: Message) -> Shown:
            short, cut = shortened(plain(message), bytes_max)
            # A message of a page holds the whole page, with all bodies in it.
            own = Message()
            own.CopyFrom(short)
            return Shown(_term_key(message), own, cut)

        return await self.by_term(answers, behind, kept, count_max=page.limit + 1)

    async def latest(
        self,
        answers: Answers,
        request: message_pb.QueryMessagesRequest,
        page: PageRequest,
        bytes_max: int,
    ) -> list[Shown]:
        """The newest messages of a time range, newest first: one more than a page."""
        wanted = page.limit + 1

        async def at(broker: LiveBroker) -> list[Shown]:
            tails = await self._tails(request, page, broker.broker_name, bytes_max)
            at_once = max(READ_AT_ONCE_MIN, -(-wanted // max(1, len(tails))))
            found: list[Shown] = []
            while len(found) < wanted:
                empty = [tail for tail in tails if not tail.read]
                for some in range(0, len(empty), READ_SIDE_BY_SIDE):
                    several = empty[some : some + READ_SIDE_BY_SIDE]
                    await asyncio.gather(*(tail.read_back(at_once) for tail in several))
                tails = [tail for tail in tails if tail.read]
                if not tails:
                    break
                newest = min(tails, key=lambda tail: tail.read[0].key)
                found.append(newest.read.popleft())
            return found

        bounds = [one for found in await answers.ask(at) for one in found]
        return sorted(bounds, key=lambda one: one.key)

    async def _tails(
        self,
        request: message_pb.QueryMessagesRequest,
        page: PageRequest,
        broker_name: str,
        bytes_max: int,
    ) -> list[_Tail]:
        """The queues of a broker, from the beginning of the time range to that of the page."""
        reader, topic, only = await self._cluster.reader(), request.topic, [broker_name]

        async def offsets_at(when: datetime | None) -> dict[MessageQueue, int]:
            return {} if when is None else await reader.offsets_at(topic, when, broker_names=only)

        ranges = await reader.bounds(topic, broker_names=only)
        begins = await offsets_at(moment_in(request, "begin_time"))
        ends = await offsets_at(moment_in(request, "end_time"))
        behind: dict[MessageQueue, int] = {}
        if page.last is not None:
            last_ms, name, queue_id, last = _place_in(page.last)
            # Of the last message's instant, queues before its own were listed completely.
            stored = datetime.fromtimestamp(last_ms / 1000, UTC)
            before = await offsets_at(stored)
            all_of_it = await offsets_at(stored + timedelta(milliseconds=1))
            for queue in ranges:
                place = queue.broker_name, queue.queue_id
                bounds = before if place < (name, queue_id) else all_of_it
                if queue in bounds:
                    behind[queue] = last if place == (name, queue_id) else bounds[queue]
        tails = []
        for queue, (low, high) in ranges.items():
            first = max(low, begins.get(queue, low))
            end = min(high, ends.get(queue, high), behind.get(queue, high))
            if first < end:
                tails.append(_Tail(reader, queue, first, end, bytes_max))
        return tails

    async def _by_id(self, answers: Answers, message_id: str, topic: str) -> Message | None:
        """The message with a broker's id. Only the broker that gave it knows it; all are asked."""

        async def at(broker: LiveBroker) -> Message | None:
            asked = query_pb.GetMessageRequest(message_id=message_id, topic=topic)
            try:
                return (
                    await answer_from(broker, self._doors.queries(broker.address).GetMessage, asked)
                ).message
            except CallError as error:
                if error.reason in _ABSENT:
                    return None
                raise

        found = [each for each in await answers.ask(at) if each is not None]
        return found[0] if found else None


class _Tail:
    """The messages of one queue, read backwards from the end."""

    def __init__(
        self, reader: QueueReader, queue: MessageQueue, first: int, end: int, bytes_max: int
    ) -> None:
        """Prepare to read the offsets from `first` to before `end`."""
        self.read: deque[Shown] = deque()
        """The messages that were read and are not taken yet, newest first."""
        self._reader = reader
        self._queue = queue
        self._first = first
        self._end = end
        self._bytes_max = bytes_max

    async def read_back(self, count: int) -> None:
        """Read up to ``count`` more messages."""
        begin = max(self._first, self._end - count)
        if begin == self._end:
            return
        blocks = self._reader.read_range(self._queue, begin, self._end)
        async with aclosing(blocks) as reading:  # type: ignore[type-var]
            async for columns in reading:
                self.read.extendleft(await asyncio.to_thread(self._shown, columns))
        self._end = begin

    def _shown(self, columns: RecordColumns) -> list[Shown]:
        """The messages of a block, decompressed and cut."""
        shown = []
        for view in columns.iter_messages():
            received = ReceivedMessage(view, self._queue)
            message, cut = message_of(received, body_bytes_max=self._bytes_max)
            shown.append(Shown(_place_key(message), message, cut))
        return shown


def _each_kept(
    kept: Callable[[Message], _Kept], messages: Iterable[Message]
) -> list[tuple[PageKey, _Kept]]:
    return [(_term_key(message), kept(message)) for message in messages]


def plain(message: Message) -> Message:
    """A message with its uncompressed body."""
    if not message.compression:
        return message
    uncompressed = Message()
    uncompressed.CopyFrom(message)
    uncompressed.body = body_of(message)
    uncompressed.ClearField("compression")
    return uncompressed


def _behind(asked: query_pb.QueryMessagesRequest, broker_name: str, last: PageKey) -> Any:
    """The same request to a broker, for messages behind the last listed one."""
    minus_ms, name, minus_offset = last
    request = query_pb.QueryMessagesRequest()
    request.CopyFrom(asked)
    if broker_name == name:
        request.before_commit_log_offset = -int(minus_offset)
        return request
    # Of that message's instant, brokers before its own were listed completely.
    before_ms = -int(minus_ms) + (broker_name > str(name))
    if not request.HasField("end_time") or before_ms < request.end_time.ToMilliseconds():
        request.end_time.FromMilliseconds(before_ms)
    return request


def _place_in(last: PageKey) -> tuple[int, str, int, int]:
    """Instant, broker, queue and queue offset of the last listed message."""
    minus_ms, name, queue_id, minus_offset = last
    return -int(minus_ms), str(name), int(queue_id), -int(minus_offset)


def _term_key(message: Message) -> tuple[int, str, int]:
    position = message.position
    return (
        -position.store_time.ToMilliseconds(),
        position.broker_name,
        -position.commit_log_offset,
    )


def _place_key(message: Message) -> tuple[int, str, int, int]:
    position = message.position
    return (
        -position.store_time.ToMilliseconds(),
        position.broker_name,
        position.queue_id,
        -position.queue_offset,
    )
