"""Reads ranges in a task; repeats failed reads, and reports every gap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ariane_record import QueueOffset
from ariane_record.names import TRACE_PARENT
from ariane_sdk.errors import (
    ArianeError,
    QueueOffsetOutOfRange,
    RecordDamaged,
    RouteNotFound,
    TopicNotFound,
)
from ariane_spark.calls.cluster import Fetch, RangeChunk, RangeSource
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.task_spans import SpansMet, export_spans, span_provider, task_attributes
from ariane_spark.options.options import ReadOptions
from ariane_spark.positions.offsets import Bounds
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail, Projection
from ariane_spark.records.joined_records import QueueRecords
from ariane_spark.records.readable_batches import batches_of
from ariane_spark.source.data_loss import DataLossPolicy
from ariane_spark.source.pace import Pace

if TYPE_CHECKING:
    import pyarrow as pa

    from ariane_record.decoding.columns import RecordColumns
    from ariane_sdk import MessageQueue

AHEAD_RECORDS_MAX: Final = 2000
"""The most messages of the present range and of ranges requested ahead; and of one batch for
several ranges."""

AHEAD_STREAMS_MAX: Final = 8
"""The most ranges requested ahead of the present one, and joined with it in one batch."""


class RangeReader:
    """Reads ranges of queues as batches for Spark."""

    def __init__(
        self,
        source: RangeSource,
        options: ReadOptions,
        *,
        pace: Pace | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take what a task has.

        Args:
            source: Where the messages are.
            options: Of the query.
            pace: How fast to read; ``None``: as fast as it goes.
            sleep: Waits for a number of seconds.
        """
        self._source = source
        self._pace = pace or Pace(None)
        self._options = options
        self._repetition = Repetition(options.requests, sleep=sleep)
        self._loss = DataLossPolicy(fails=options.fail_on_data_loss)

    def batches(
        self, ranges: Iterable[QueueRange], projection: Projection
    ) -> Generator[pa.RecordBatch]:
        """All messages of some ranges, range after range, in order.

        Raises:
            DataLost: Messages are not kept any more, and a loss ends the query.
            MessageDamaged: A body cannot be decompressed, and that ends the query.
            RecordDamaged: An answer leads back in its range.
            ArianeError: The broker refused, or did not answer despite all repeats.
        """
        if not self._options.otlp_endpoint:
            yield from self._batches(ranges, projection, Fetch.of(projection.detail, self._options))
            return
        # The context of a span is a property.
        fetch = Fetch.of(max(projection.detail, Detail.PROPERTIES), self._options)
        with ReadSpan(self._options.otlp_endpoint) as span:
            yield from self._batches(ranges, projection, fetch, span)

    def _batches(
        self,
        ranges: Iterable[QueueRange],
        projection: Projection,
        fetch: Fetch,
        span: ReadSpan | None = None,
    ) -> Generator[pa.RecordBatch]:
        null_if_damaged = self._options.null_if_damaged
        with closing(self._joined(ranges, fetch, span)) as joined:
            for parts in joined:
                yield from batches_of(projection, parts, null_if_damaged=null_if_damaged)

    def _joined(
        self, ranges: Iterable[QueueRange], fetch: Fetch, span: ReadSpan | None
    ) -> Generator[Sequence[QueueRecords]]:
        """The records of each batch: chunks of large ranges alone, those of small ones together."""
        held: list[QueueRecords] = []
        count = octets = 0
        # Generators are closed when Spark stops early (LIMIT): that ends their streams.
        with closing(self._opened(ranges, fetch)) as opened:
            for part, stream in opened:
                with closing(self._chunks(part, fetch, stream)) as chunks:
                    for records in chunks:
                        if span is not None:
                            span.saw(records, part.queue)
                        count += len(records)
                        octets += len(records.records)
                        if held and (
                            count > AHEAD_RECORDS_MAX
                            or octets > fetch.chunk_bytes
                            or len(held) > AHEAD_STREAMS_MAX
                        ):
                            yield held
                            held, count, octets = [], len(records), len(records.records)
                        held.append(QueueRecords(part.queue, records))
                        if part.count > AHEAD_RECORDS_MAX:
                            yield held
                            held, count, octets = [], 0, 0
        if held:
            yield held

    def _opened(
        self, ranges: Iterable[QueueRange], fetch: Fetch
    ) -> Generator[tuple[QueueRange, Generator[RangeChunk]]]:
        """Each range and its stream; small ranges are requested ahead.

        A micro-batch reads some messages of each of many queues: waiting for one answer after the
        other would take longer than all other work of its task.
        """
        ahead: deque[tuple[QueueRange, Generator[RangeChunk]]] = deque()
        count = 0
        try:
            for part in ranges:
                ahead.append((part, self._source.read_range(part, fetch)))
                count += part.count
                while count > AHEAD_RECORDS_MAX or len(ahead) > AHEAD_STREAMS_MAX:
                    count -= ahead[0][0].count
                    yield ahead.popleft()
            while ahead:
                yield ahead.popleft()
        finally:
            for _, stream in ahead:
                stream.close()

    def _chunks(
        self, part: QueueRange, fetch: Fetch, opened: Generator[RangeChunk]
    ) -> Generator[RecordColumns]:
        """The records of a range; after a failure, the rest is requested again."""
        failures = 0
        stream = opened
        while part.count > 0:
            error: ArianeError | None = None
            begun = part
            try:
                with closing(stream):
                    for chunk in stream:
                        for first, count in chunk.lost:
                            self._loss.damaged(part.queue, first, count)
                        part = _behind(part, chunk)
                        self._pace.keep(chunk.byte_count)
                        if chunk.records is not None:
                            yield chunk.records
            except ArianeError as refusal:
                error = refusal
            if part != begun:
                failures = 0
            rest = part if error is None else self._after(part, error)
            if rest == part and part.count > 0:
                failures += 1
                if not self._repetition.allows(failures):
                    self._give_up(part, error)
                    return
                self._repetition.wait(failures, error)
            part = rest  # A loss that is skipped is an answer, and no failure.
            if part.count > 0:
                stream = self._source.read_range(part, fetch)

    def _after(self, part: QueueRange, refusal: ArianeError) -> QueueRange:
        """The range to request after an error; raises an error that does not pass."""
        if isinstance(refusal, QueueOffsetOutOfRange):
            return self._kept_part(part, refusal)
        if refusal.reason == "QUEUE_CUT":
            self._loss.queue_cut(part.queue, part.end, int(refusal.metadata.get("end", 0)))
            return replace(part, log_epoch=0)
        if isinstance(refusal, TopicNotFound):
            self._loss.queue_gone(part.queue, part.begin)
            return replace(part, end=part.begin)
        if isinstance(refusal, RouteNotFound) and not refusal.may_come_back and self._loss.fails:
            self._loss.queue_gone(part.queue, part.begin)
        # A broker that is only away may have all messages: none are skipped.
        if not refusal.retriable:
            raise refusal
        return part

    def _kept_part(self, part: QueueRange, refusal: QueueOffsetOutOfRange) -> QueueRange:
        """The rest of a range that goes beyond the kept one."""
        earliest = QueueOffset(refusal.min_queue_offset)
        kept = Bounds(earliest, QueueOffset(refusal.max_queue_offset))
        self._loss.out_of_range(part.queue, part.begin, part.end, kept)
        return replace(part, begin=max(part.begin, kept.earliest), end=min(part.end, kept.latest))

    def _give_up(self, part: QueueRange, error: ArianeError | None) -> None:
        """Fail, or skip the rest of a range that the broker reports as missing."""
        if error is not None:
            raise error
        self._loss.ended_early(part.queue, part.begin, part.end)


def _behind(part: QueueRange, chunk: RangeChunk) -> QueueRange:
    """What is left of a range after a chunk.

    Raises:
        RecordDamaged: It leads back: its messages would be read again and again.
    """
    next_offset = chunk.next_queue_offset
    if next_offset < part.begin or (next_offset == part.begin and chunk.records is not None):
        raise RecordDamaged(f"{part}: the broker's answer leads back to {next_offset}")
    return replace(part, begin=next_offset)


class ReadSpan:
    """The span of one task's read; ends with its ``with`` block.

    There is one for each task that reads messages of sampled spans::

        producer        send orders ------------+ traceparent
        broker            append orders         |
        Spark's task      read orders (child of the first that was met) . . links to others

    Properties are read by column.
    """

    def __init__(self, endpoint: str) -> None:
        """Begin the span; ``endpoint`` is the collector."""
        self._endpoint = endpoint
        self._begun_ns = time.time_ns()
        self._met = SpansMet()
        self._topics: dict[str, None] = {}
        self._count = 0

    def saw(self, records: RecordColumns, queue: MessageQueue) -> None:
        """Note messages that the task has read."""
        self._count += len(records)
        self._topics[queue.topic] = None
        properties = records.properties
        self._met.add(properties.texts(properties.places_of(TRACE_PARENT)))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span, if there is one, and send it to the collector."""
        if self._met:
            self._end(None if kind in {None, GeneratorExit} else error)
            export_spans(self._endpoint)

    def _end(self, error: BaseException | None) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and only where it is asked for.

        first, *others = self._met.contexts()
        topics = list(self._topics)
        name = f"read {topics[0]}" if len(topics) == 1 else "read"
        span = (
            span_provider(self._endpoint)
            .get_tracer("ariane_spark")
            .start_span(
                name,
                trace.set_span_in_context(trace.NonRecordingSpan(first)),
                trace.SpanKind.CONSUMER,
                {
                    "messaging.system": "arianemq",
                    "messaging.operation.name": "read",
                    "messaging.operation.type": "receive",
                    "messaging.batch.message_count": self._count,
                    **({"messaging.destination.name": topics[0]} if len(topics) == 1 else {}),
                    **task_attributes(),
                },
                [trace.Link(context) for context in others],
                start_time=self._begun_ns,
            )
        )
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR, str(error))
        span.end()
