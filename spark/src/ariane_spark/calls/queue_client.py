"""A client for processes of Spark: a few requests, and one stream of chunks after another.

The client of applications runs on an event loop. Spark's processes have none, so they use blocking
calls, whose connections live on a loop in a thread. The thread of this client, which watches
streams, ends when nothing is read.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.broker.v1 import pull_service_pb2 as pull
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.common.v1.subscription_pb2 import (
    FILTER_KIND_SQL92,
    FILTER_KIND_TAG,
    FilterExpression,
)
from ariane_record import QueueOffset, RecordCorrupted
from ariane_record.names import is_system_topic
from ariane_sdk import MessageQueue
from ariane_sdk.errors import (
    ArianeError,
    CallError,
    RecordDamaged,
    RouteNotFound,
    ServiceUnavailable,
    TopicNotFound,
)
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.cluster import Fetch, RangeChunk
from ariane_spark.calls.group_client import GroupClient
from ariane_spark.calls.life_watch import LifeWatch, WatchedStream
from ariane_spark.calls.range_chunks import HeadersTooShort, decode_chunk, wire_chunk
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.routes import Routes
from ariane_spark.options.options import RequestPolicy
from ariane_spark.positions.offsets import Bounds, Positions
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail
from ariane_wire import CallFailed

TOPICS_ASKED_MAX: Final = 64
"""About how many topics brokers are asked at the same time."""

_Answers: TypeAlias = dict[str, Any]
"""Answers by broker name."""

_PULL_RANGE: Final = "/ariane.broker.v1.PullService/PullRange"

_PROJECTIONS: Final = {
    Detail.POSITIONS: pull.RANGE_PROJECTION_POSITIONS,
    Detail.PROPERTIES: pull.RANGE_PROJECTION_HEADERS,
    Detail.RECORDS: pull.RANGE_PROJECTION_RECORDS,
}


class _AskedBroker(NamedTuple):
    """A request for a range at a broker, or its error."""

    stream: WatchedStream | None = None
    """The broker's answers."""
    failure: ArianeError | None = None
    """The error if no broker could be asked."""


class QueueClient:
    """Reads of one cluster; for one thread of one process."""

    def __init__(
        self,
        endpoints: str,
        policy: RequestPolicy,
        repetition: Repetition | None = None,
        channels: Channels | None = None,
    ) -> None:
        """Take the addresses; nothing is connected yet.

        Args:
            endpoints: Name servers, ``host:port``, separated by commas.
            policy: The timeout and the repeats of calls.
            repetition: Repeats calls; ``None``: by the policy.
            channels: Connections that others use as well; ``None``: its own.
        """
        self._timeout_s = policy.timeout_ms / 1000
        self._repetition = repetition or Repetition(policy)
        self._channels = channels or Channels()
        self._routes = Routes(endpoints, self._channels, timeout_s=self._timeout_s)
        self._groups = GroupClient(self._routes, self._channels, timeout_s=self._timeout_s)
        self._watch = LifeWatch(silence_s=self._timeout_s)

    def topics(self) -> list[str]:
        """The names of all topics, except topics of the system.

        Raises:
            ArianeError: No name server answers.
        """
        topics = self._repetition.ask(self._routes.topics)
        return [topic for topic in topics if not is_system_topic(topic)]

    def uncertain_topics(self) -> Container[str]:
        """Used topics that may have more brokers than the name servers know yet."""
        return self._routes.uncertain_topics()

    def away_brokers(self, topic: str) -> frozenset[str]:
        """Names of brokers with queues of a topic that left within a day, and may come back.

        Raises:
            ArianeError: No broker has the topic, or no name server answers.
        """
        return self._repetition.ask(lambda: self._routes.away_brokers(topic), awaits_topics=False)

    def bounds(
        self, topics: Iterable[str], *, lenient: bool = False, waits: bool = True
    ) -> dict[MessageQueue, Bounds]:
        """The bounds of all readable queues of some topics.

        Args:
            topics: The topics.
            lenient: Whether topics may be missing.
            waits: Whether a topic whose brokers are all away is waited for, unless it may be
                missing.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """
        answers: Iterator[tuple[str, str, pull.ListQueueBoundsResponse]] = self._ask_brokers(
            topics,
            lambda stub: stub.ListQueueBounds,
            lambda topic: pull.ListQueueBoundsRequest(topic=topic),
            lenient=lenient,
            waits=waits and not lenient,
        )
        return {
            (queue := MessageQueue(topic, broker_name, kept.queue_id)): Bounds(
                QueueOffset(kept.min_queue_offset),
                QueueOffset(kept.max_queue_offset),
                kept.size_bytes,
                kept.log_epoch,
                self._routes.is_closed(queue),
            )
            for topic, broker_name, answer in answers
            for kept in answer.queues
        }

    def offsets_at(self, topics: Iterable[str], timestamp_ms: int) -> Positions:
        """For each queue the first message stored at or after a time, or else its end.

        Raises:
            ArianeError: A topic does not exist, or a broker does not answer.
        """
        moment = Timestamp()
        moment.FromMilliseconds(timestamp_ms)
        answers: Iterator[tuple[str, str, pull.FindQueueOffsetsResponse]] = self._ask_brokers(
            topics,
            lambda stub: stub.FindQueueOffsets,
            lambda topic: pull.FindQueueOffsetsRequest(
                topic=topic, time=moment, boundary=pull.TIME_BOUNDARY_LOWER
            ),
        )
        return {
            MessageQueue(topic, broker_name, queue.queue_id): QueueOffset(queue.queue_offset)
            for topic, broker_name, answer in answers
            for queue in answer.queues
        }

    def group_offsets(self, group: str, queues: Collection[MessageQueue]) -> Positions:
        """The consumer offsets of a group; queues without an offset are missing.

        Raises:
            ArianeError: The group's name is illegal, or a broker does not answer.
        """
        return self._repetition.ask(lambda: self._groups.offsets(group, queues))

    def store_group_offsets(self, group: str, positions: Mapping[MessageQueue, int]) -> None:
        """Store consumer offsets of a group, without repeats.

        Raises:
            ArianeError: A broker refused some, or does not answer.
        """
        self._groups.store(group, positions)

    def read_range(self, part: QueueRange, fetch: Fetch) -> Generator[RangeChunk]:
        """The messages of a range in order, in chunks; ends early at the readable end.

        The request is sent at once, so that the broker works while another range is still read.

        Args:
            part: The range to read.
            fetch: The form to fetch.

        Raises:
            DeadlinePassed: The broker sends nothing for as long as one request may take, and does
                not answer a probe. A slow broker is waited for, and the time spent on chunks does
                not count.
            ArianeError: The read failed; chunks before it are valid.
        """
        # A stream that is dropped before its first chunk is cancelled by gRPC as it goes.
        return self._read(part, fetch, self._ask_range(part, fetch))

    def _read(self, part: QueueRange, fetch: Fetch, asked: _AskedBroker) -> Generator[RangeChunk]:
        try:
            with closing(self._chunks(part, fetch, asked)) as chunks:
                for chunk in chunks:
                    part = replace(part, begin=chunk.next_queue_offset)
                    yield chunk
        except HeadersTooShort:
            fetch = replace(fetch, detail=Detail.RECORDS)
            yield from self._chunks(part, fetch, self._ask_range(part, fetch))

    def _ask_range(self, part: QueueRange, fetch: Fetch) -> _AskedBroker:
        """Ask a broker for a range; errors are raised to the reader of the answer."""
        topic, broker_name, queue_id = part.queue
        try:
            address = self._routes.addresses(topic).get(broker_name)
            if address is None:
                self._routes.forget(topic)
                raise ServiceUnavailable(
                    f"no address of broker {broker_name} is known", retriable=True
                )
        except ArianeError as error:
            return _AskedBroker(failure=error)
        # Answers are received as bytes, so that decoding copies nothing.
        channel = self._channels.to(address)
        method: Any = channel.unary_stream(
            _PULL_RANGE, request_serializer=pull.PullRangeRequest.SerializeToString
        )
        call = method(
            pull.PullRangeRequest(
                topic=topic,
                queue_id=queue_id,
                begin_queue_offset=part.begin,
                end_queue_offset=part.end,
                projection=_PROJECTIONS[fetch.detail],
                chunk_bytes=fetch.chunk_bytes,
                filter=_filter_of(fetch),
                log_epoch=part.log_epoch,
            )
        )
        peer = _peer(broker_name, address)

        def ask_bounds() -> None:
            """Probe the broker by a small call over the same connection."""
            bounds = PullServiceStub(channel).ListQueueBounds.future(
                pull.ListQueueBoundsRequest(topic=topic), timeout=self._timeout_s
            )
            _result(bounds, broker_name, address)

        return _AskedBroker(stream=WatchedStream(call, peer, ask_bounds))

    def _chunks(self, part: QueueRange, fetch: Fetch, asked: _AskedBroker) -> Generator[RangeChunk]:
        stream = asked.stream
        if stream is None:
            raise asked.failure or AssertionError("neither asked nor failed")
        try:
            for answer in self._watch.answers(stream):
                yield _range_chunk(answer, fetch.detail, f"{stream.peer}, {part.queue}")
        except CallFailed as failure:
            self._routes.forget(part.queue.topic)
            raise error_from_rpc(failure, peer=stream.peer) from failure
        except CallError:
            self._routes.forget(part.queue.topic)
            raise
        finally:
            stream.call.cancel()  # Harmless at the end; earlier, it stops the broker.

    def _ask_brokers(
        self,
        topics: Iterable[str],
        method: Callable[[PullServiceStub], Any],
        request_of: Callable[[str], Any],
        *,
        lenient: bool = False,
        waits: bool = True,
    ) -> Iterator[tuple[str, str, Any]]:
        """Topic, broker name and answer of the brokers of some topics, asked at the same time.

        Args:
            topics: The topics.
            method: What to ask.
            request_of: The request for a topic.
            lenient: Whether topics may be missing.
            waits: Whether a topic whose brokers are all away is waited for.
        """
        left = list(topics)
        while left:
            some, left = left[:TOPICS_ASKED_MAX], left[TOPICS_ASKED_MAX:]
            asked = [
                (topic, self._asked(topic, partial(self._begin, topic, method, request_of(topic))))
                for topic in some
            ]
            for topic, answers in asked:
                try:
                    found = self._repetition.ask(answers, awaits_topics=waits)
                except (RouteNotFound, TopicNotFound):
                    if not lenient:
                        raise
                else:
                    yield from ((topic, broker_name, each) for broker_name, each in found.items())

    def _asked(
        self, topic: str, begin: Callable[[], Callable[[], _Answers]]
    ) -> Callable[[], _Answers]:
        """Ask now; return a function that waits for the answers, and asks anew if called again."""
        begun: list[Callable[[], _Answers]] = []
        try:
            begun.append(begin())
        except ArianeError as error:
            begun.append(partial(_fail, error))  # Raised where the answers are waited for.

        def answers() -> _Answers:
            try:
                return (begun.pop() if begun else begin())()
            except BaseException:
                self._routes.forget(topic)
                raise

        return answers

    def _begin(
        self, topic: str, method: Callable[[PullServiceStub], Any], request: Any
    ) -> Callable[[], _Answers]:
        """Ask all brokers of a topic; return a function that waits for their answers, by name."""
        addresses = self._routes.addresses(topic)
        calls = {
            name: method(PullServiceStub(self._channels.to(address))).future(
                request, timeout=self._timeout_s
            )
            for name, address in addresses.items()
        }
        return lambda: {name: _result(call, name, addresses[name]) for name, call in calls.items()}


def _range_chunk(answer: bytes, detail: Detail, place: str) -> RangeChunk:
    """The chunk in an answer from a place, which is named by errors."""
    try:
        chunk = wire_chunk(answer)
        records = decode_chunk(chunk, detail) if chunk.head.record_sizes else None
    except (DecodeError, RecordCorrupted) as error:
        raise RecordDamaged(f"{place}: an answer cannot be decoded: {error}") from error
    return RangeChunk(
        records,
        QueueOffset(chunk.head.next_queue_offset),
        [(run.first_queue_offset, run.message_count) for run in chunk.head.lost],
        len(answer),
    )


def _fail(error: ArianeError) -> NoReturn:
    raise error


def _filter_of(fetch: Fetch) -> FilterExpression | None:
    if fetch.condition:
        return FilterExpression(kind=FILTER_KIND_SQL92, text=fetch.condition)
    if not fetch.tags:
        return None
    return FilterExpression(kind=FILTER_KIND_TAG, text=" || ".join(sorted(fetch.tags)))


def _result(call: Any, broker_name: str, address: str) -> Any:
    try:
        return call.result()
    except CallFailed as failure:
        raise error_from_rpc(failure, peer=_peer(broker_name, address)) from failure


def _peer(broker_name: str, address: str) -> str:
    return f"broker {broker_name} at {address}"
