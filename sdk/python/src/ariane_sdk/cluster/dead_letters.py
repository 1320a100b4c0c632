"""Reads the dead letters of consumer groups, and sends them back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from ariane.broker.v1.retry_service_pb2 import (
    REDRIVE_TARGET_GROUP,
    REDRIVE_TARGET_ORIGIN,
    FindRedrivenDeadLettersRequest,
    RedriveDeadLettersRequest,
    RedriveDeadLettersResponse,
)
from ariane_record.decoding.columns import RecordColumns
from ariane_record.layout import PropertyName
from ariane_record.names import dead_letter_topic
from ariane_sdk.checks.limits import checked_group
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.errors import CallError, RouteNotFound
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.reading.queue_reader import QueueReader
from ariane_sdk.routing.broker_addresses import find_broker

REDRIVE_COUNT: Final = 1000
"""The number of dead letters that one call sends back."""

REDRIVEN_RANGE_MAX: Final = 10_000
"""The number of queue offsets in one request for the redriven ones."""

REDRIVE_TIMEOUT_S: Final = 30.0
TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a group has given up."""

    message: ReceivedMessage
    """The message in the dead-letter queue."""
    topic: str
    """The topic from which it was first consumed."""
    queue_id: int
    """The queue of that topic, on the same broker."""
    queue_offset: int
    """Its queue offset in that queue."""
    origin_message_id: str
    """Its offset message id in that queue."""
    reason: str
    """``ATTEMPTS_EXHAUSTED``, ``REJECTED`` or ``CONSUMER_DIED``."""
    last_error: str
    """The error of the last attempt."""
    redriven: bool = False
    """Whether it was sent back."""

    @property
    def message_queue(self) -> MessageQueue:
        """The queue in which it is a dead letter."""
        return self.message.message_queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A selection of dead letters; a field with its default matches all."""

    topic: str = ""
    """First consumed from this topic."""
    key: str = ""
    """With this key or unique id."""
    reason: str = ""
    """Dead for this reason."""
    begin: datetime | None = None
    """Dead at or after this time."""
    end: datetime | None = None
    """Dead before this time."""
    broker_name: str = ""
    """On this broker."""
    dead_queue_id: int | None = None
    """In this dead-letter queue."""
    dead_queue_offset: int | None = None
    """At this queue offset of the dead-letter queue."""
    redriven: bool | None = None
    """Sent back or not; None for both."""
    behind: tuple[MessageQueue, int] | None = None
    """After this queue offset of this dead-letter queue, in reading order."""

    def looks_into(self, queue: MessageQueue) -> bool:
        """Whether a dead-letter queue can have selected dead letters."""
        return (
            self.broker_name in ("", queue.broker_name)
            and self.dead_queue_id in (None, queue.queue_id)
            and (self.behind is None or self.behind[0] <= queue)
        )

    def first_in(self, queue: MessageQueue, first: int) -> int:
        """The queue offset to read from in a queue whose dead letters start at ``first``."""
        if self.behind is not None and self.behind[0] == queue:
            return max(first, self.behind[1] + 1)
        return first

    def may_be_among(self, records: bytes) -> bool:
        """Whether records may contain a selected dead letter: their bytes contain the wanted words.

        This finds a rare one without making an object for each of the others.
        """
        return all(word.encode() in records for word in (self.topic, self.reason, self.key))

    def matches(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is selected, apart from its time."""
        message = letter.message
        return (
            self.topic in ("", letter.topic)
            and self.reason in ("", letter.reason)
            and (not self.key or self.key in (message.unique_id, *message.keys))
        )


ALL_DEAD_LETTERS: Final = DeadLetterFilter()


class DeadLetterChunk(NamedTuple):
    """Dead letters that were read together; the selection may leave none of them."""

    queue: MessageQueue
    """Their dead-letter queue."""
    last: int
    """The queue offset of the last one read."""
    letters: Sequence[DeadLetter]
    """The selected ones."""


@dataclass(slots=True)
class Redrive:
    """The progress of sending back."""

    redriven_count: int = 0
    """The number of dead letters that this call sent back."""
    duplicate_count: int = 0
    """The number that were sent back before."""
    failures: dict[tuple[MessageQueue, int], str] | None = None
    """The errors of the others, by queue and queue offset."""
    reached: tuple[MessageQueue, int] | None = None
    """The last place up to which all results are known; pass it as ``DeadLetterFilter.behind`` to
    continue."""


class DeadLetters(QueueReader):
    """Reads the dead letters of groups, and sends them back.

    Each dead letter is sent back only once: the broker records it, so that no crash repeats it. A
    message that fails again becomes a new dead letter.

    Example::

        async with DeadLetters("127.0.0.1:9876") as letters:
            async for letter in letters.read("billing"):
                print(letter.topic, letter.message.body, letter.last_error)
            print((await letters.redrive("billing")).redriven_count)
    """

    async def read(
        self, group: str, wanted: DeadLetterFilter = ALL_DEAD_LETTERS
    ) -> AsyncGenerator[DeadLetter]:
        """The dead letters of a group, queue by queue, oldest first.

        Args:
            group: The consumer group.
            wanted: The selection; with a broker name, only that broker is asked.

        Raises:
            NameIllegal: The name of the group is not legal.
            IllegalArgument: A time without a time zone.
            CallError: A call to a broker failed.
        """
        async with aclosing(self.chunks(group, wanted)) as chunks:
            async for chunk in chunks:
                for letter in chunk.letters:
                    yield letter

    async def chunks(
        self, group: str, wanted: DeadLetterFilter = ALL_DEAD_LETTERS
    ) -> AsyncGenerator[DeadLetterChunk]:
        """As ``read``, in chunks, which show the progress even without selected dead letters.

        Args:
            group: The consumer group.
            wanted: The selection; with the end of a chunk as ``behind``, reading continues there.

        Raises:
            NameIllegal: The name of the group is not legal.
            IllegalArgument: A time without a time zone.
            CallError: A call to a broker failed.
        """
        topic = dead_letter_topic(checked_group(group, system=True))
        names = (wanted.broker_name,) if wanted.broker_name else ()
        try:
            ranges = await self.bounds(topic, broker_names=names)
        except RouteNotFound as error:
            if error.away_brokers:
                raise
            return  # The group never had a dead letter.
        begins, ends = [
            await self.offsets_at(topic, when, broker_names=names) if when else {}
            for when in (wanted.begin, wanted.end)
        ]
        for queue, (low, high) in sorted(ranges.items()):
            first = wanted.first_in(queue, max(low, begins.get(queue, low)))
            last = min(high, ends.get(queue, high))
            if not wanted.looks_into(queue):
                continue
            if wanted.dead_queue_offset is not None:
                first = max(first, wanted.dead_queue_offset)
                last = min(last, wanted.dead_queue_offset + 1)
            read = self.read_range(queue, first, last)
            async with aclosing(read) as blocks:  # type: ignore[type-var]
                async for columns in blocks:
                    letters = await self._meant(group, queue, wanted, columns)
                    yield DeadLetterChunk(queue, int(columns.queue_offset[-1]), letters)

    async def redrive(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_DEAD_LETTERS,
        *,
        to_topic: bool = False,
        on_progress: Callable[[Redrive], None] | None = None,
    ) -> Redrive:
        """Send dead letters back to their group, or to the topics and queues they came from.

        After an interruption, call it again: no dead letter is sent back twice.

        Args:
            group: The consumer group.
            wanted: The selection of its dead letters.
            to_topic: Whether every group of their topic gets them again, and not only this group.
            on_progress: Called after each call to a broker, even if it sent nothing; an exception
                of it ends the work there.

        Raises:
            NameIllegal: The name of the group is not legal.
            CallError: A call to a broker failed, even when repeated.
        """
        progress = Redrive()
        queue: MessageQueue | None = None
        waiting: list[int] = []

        async def send(count_min: int) -> None:
            while queue is not None and waiting and len(waiting) >= count_min:
                batch = waiting[:REDRIVE_COUNT]
                _count(progress, queue, await self._send(group, queue, batch, to_topic))
                del waiting[: len(batch)]
                progress.reached = queue, batch[-1]
                if on_progress is not None:
                    on_progress(progress)

        async with aclosing(self.chunks(group, wanted)) as chunks:
            async for chunk in chunks:
                if chunk.queue != queue:
                    await send(1)
                    queue = chunk.queue
                waiting += [letter.message.queue_offset for letter in chunk.letters]
                await send(REDRIVE_COUNT)
                if not waiting:
                    progress.reached = chunk.queue, chunk.last
                    if on_progress is not None:
                        on_progress(progress)
        await send(1)
        return progress

    async def _meant(
        self, group: str, queue: MessageQueue, wanted: DeadLetterFilter, columns: RecordColumns
    ) -> Sequence[DeadLetter]:
        """The selected dead letters of a chunk, with ``redriven`` set."""
        if not wanted.may_be_among(bytes(columns.records)):
            return ()
        found = [_dead_letter(ReceivedMessage(view, queue)) for view in columns.iter_messages()]
        matching = [letter for letter in found if wanted.matches(letter)]
        redriven = await self._redriven(group, queue, matching)
        marked = [
            replace(letter, redriven=letter.message.queue_offset in redriven) for letter in matching
        ]
        return [each for each in marked if wanted.redriven in (None, each.redriven)]

    async def _redriven(
        self, group: str, queue: MessageQueue, letters: Sequence[DeadLetter]
    ) -> set[int]:
        """Queue offsets of the dead letters of a queue that were sent back, in order."""
        redriven: set[int] = set()
        places = [letter.message.queue_offset for letter in letters]
        begin = places[0] if places else 0
        while places and begin <= places[-1]:
            end = min(begin + REDRIVEN_RANGE_MAX, places[-1] + 1)
            broker = await find_broker(self._session.routes, queue)
            request = FindRedrivenDeadLettersRequest(
                consumer_group=group,
                queue_id=queue.queue_id,
                begin_queue_offset=begin,
                end_queue_offset=end,
            )
            call = self._session.connections.retries(read_address(broker)).FindRedrivenDeadLetters(
                request, timeout=self._call_timeout_s
            )
            redriven.update((await answer_of(call, peer_name(broker))).queue_offsets)
            begin = end
        return redriven

    async def _send(
        self, group: str, queue: MessageQueue, queue_offsets: Sequence[int], to_topic: bool
    ) -> RedriveDeadLettersResponse:
        request = RedriveDeadLettersRequest(
            consumer_group=group,
            queue_id=queue.queue_id,
            queue_offsets=queue_offsets,
            target=REDRIVE_TARGET_ORIGIN if to_topic else REDRIVE_TARGET_GROUP,
        )
        for tries in range(1, TRIES + 1):
            broker = await find_broker(self._session.routes, queue)
            stub = self._session.connections.retries(read_address(broker))
            call = stub.RedriveDeadLetters(request, timeout=REDRIVE_TIMEOUT_S)
            try:
                return await answer_of(call, peer_name(broker))
            except CallError as error:
                # If only the answer was lost, the repeat counts its dead letters as duplicates.
                if not error.retriable or tries == TRIES:
                    raise
            await self._clock.sleep(0.5 * tries)
        raise AssertionError


def _count(progress: Redrive, queue: MessageQueue, answer: RedriveDeadLettersResponse) -> None:
    progress.redriven_count += answer.redriven_count
    progress.duplicate_count += answer.duplicate_count
    if answer.failures:
        progress.failures = (progress.failures or {}) | {
            (queue, failure.queue_offset): failure.cause for failure in answer.failures
        }


def _dead_letter(message: ReceivedMessage) -> DeadLetter:
    properties = message.properties
    return DeadLetter(
        message=message,
        topic=properties.get(PropertyName.DEAD_LETTER_TOPIC, ""),
        queue_id=_number(properties.get(PropertyName.ORIGIN_QUEUE_ID, "")),
        queue_offset=_number(properties.get(PropertyName.ORIGIN_QUEUE_OFFSET, "")),
        origin_message_id=properties.get(PropertyName.DEAD_LETTER_MESSAGE_ID, ""),
        reason=properties.get(PropertyName.DEAD_LETTER_REASON, ""),
        last_error=properties.get(PropertyName.LAST_ERROR, ""),
    )


def _number(text: str) -> int:
    """The number in a property; -1 without one, as in records of other brokers."""
    return int(text) if text.isascii() and text.isdecimal() else -1
