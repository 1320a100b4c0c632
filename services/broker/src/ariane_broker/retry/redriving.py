"""Sends dead letters back to their origin, each once.

This holds if client or broker dies in between: a record that was sent back names its dead letter,
and the letter is marked in the turn of the loop that appends the record. A repeated call sends back
the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from ariane_broker.errors.public_errors import broker_draining
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.refused_records import append_in_parts
from ariane_broker.queue_key import QueueKey
from ariane_broker.retry.failed_records import redriven_record
from ariane_broker.retry.queue_log import SLICE_BYTES, SLICE_COUNT
from ariane_broker.retry.redriven_table import RedrivenTable, with_mark
from ariane_broker.topics.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record import PropertyName, RecordFields
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import Host
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_record.single.record_copy import encode_block
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.security.gate.asking import require_publish
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.log.records.fields import Int64s
from ariane_storage.reading.read import QueueRead

LETTERS_MAX: Final = 10_000
"""Dead letters of one call."""


@dataclass(slots=True)
class Redriven:
    """The outcome of redriving dead letters."""

    redriven_count: int = 0
    """Number of letters sent back by this call."""
    duplicate_count: int = 0
    """Number of letters sent back before."""
    failures: dict[int, str] = field(default_factory=dict)
    """Why others were not sent back, by queue offset."""


@dataclass(frozen=True, slots=True)
class _Addressed:
    """A dead letter and its destination."""

    letter: RecordFields
    topic: str
    queue_id: int

    @property
    def way(self) -> tuple[str, int, Host]:
        return self.topic, self.queue_id, self.letter.born_host


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetterRedrive:
    """Sends dead letters back."""

    log: BrokerLog
    table: RedrivenTable
    _: KW_ONLY
    topics: TopicTable
    groups: ConsumerGroups
    make_topic: Callable[[str], Awaitable[TopicConfig]]
    """Creates a topic of a group if it is missing."""
    is_draining: Callable[[], bool]

    async def redrive(
        self, consumer_group: str, queue_id: int, queue_offsets: Sequence[int], *, to_group: bool
    ) -> Redriven:
        """Send dead letters of one queue back.

        Args:
            consumer_group: The group.
            queue_id: The queue of the dead letters.
            queue_offsets: The letters.
            to_group: Whether they go only to the group, and not to the original topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, QUEUE_NOT_FOUND, GROUP_NOT_FOUND, FIELD_INVALID,
                SERVICE_DRAINING, FLUSH_UNCONFIRMED, REPLICATION_UNCONFIRMED.
            StorageError: The store accepts no more; letters sent back so far stay so.
        """
        if not 1 <= len(queue_offsets) <= LETTERS_MAX:
            raise field_invalid("queue_offsets", f"must be 1 to {LETTERS_MAX}", len(queue_offsets))
        queue = QueueKey(dead_letter_topic(consumer_group), queue_id)
        readable_queue(self.topics, *queue)
        if to_group:
            self.groups.get(consumer_group)
            await self.make_topic(retry_topic(consumer_group))
        wanted = np.unique(np.array(queue_offsets, np.int64))
        outcome = Redriven()
        store = self.log.store
        low, high = store.queue_bounds(*queue)
        if bool(((wanted >= high) & (wanted < store.queue_end(*queue))).any()):
            # A new primary hands them out once the others in sync have them.
            await self.log.promised()
            low, high = store.queue_bounds(*queue)
        for gone in wanted[(wanted < low) | (wanted >= high)].tolist():
            outcome.failures[gone] = "no such dead letter is kept"
        kept = wanted[(wanted >= low) & (wanted < high)]
        while len(kept):
            if self.is_draining():
                raise broker_draining()
            try:
                kept = self._redrive_slice(queue, kept, outcome, to_group=to_group)
            except BytesCold as cold:
                await self.log.cold_reads.fetch(consumer_group, cold)
            await asyncio.sleep(0)
        await self.log.promised()
        return outcome

    def redriven(self, consumer_group: str, queue_id: int, begin: int, end: int) -> list[int]:
        """Queue offsets of the dead letters of a range that were sent back.

        Args:
            consumer_group: The group.
            queue_id: The queue of the dead letters.
            begin: The first queue offset.
            end: The end of the range, exclusive.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, QUEUE_NOT_FOUND, FIELD_INVALID.
        """
        if not 0 <= begin < end <= begin + LETTERS_MAX:
            rule = f"must be 1 to {LETTERS_MAX} beyond begin_queue_offset"
            raise field_invalid("end_queue_offset", rule, end)
        queue = QueueKey(dead_letter_topic(consumer_group), queue_id)
        readable_queue(self.topics, *queue)
        asked = np.arange(begin, end)
        redriven: list[int] = asked[~self.table.pending(queue, asked)].tolist()
        return redriven

    def _redrive_slice(
        self, queue: QueueKey, wanted: Int64s, outcome: Redriven, *, to_group: bool
    ) -> Int64s:
        """Send the first letters back, in this turn of the loop; returns the rest.

        Raises:
            BytesCold: The letters are not in memory; none was sent back.
        """
        pending = self.table.pending(queue, wanted)
        duplicate_count = int((~pending).sum())
        wanted = wanted[pending]
        if not len(wanted):
            outcome.duplicate_count += duplicate_count
            return wanted
        first = int(wanted[0])
        count = min(SLICE_COUNT, int(wanted[-1]) - first + 1)
        with IN_MEMORY:
            read = self.log.store.read_queue(*queue, first, max_count=count, max_bytes=SLICE_BYTES)
        outcome.duplicate_count += duplicate_count
        behind = max(int(read.next_queue_offset), first + 1)
        now, left = wanted[wanted < behind], wanted[wanted >= behind]
        letters = _letters(read, now)
        for damaged in now[~np.isin(now, list(letters))].tolist():
            outcome.failures[damaged] = "it is damaged"
        addressed = self._addressed(letters, outcome, to_group=to_group)
        for (topic, queue_id, born_host), members in groupby(
            sorted(addressed, key=lambda each: each.way), key=lambda each: each.way
        ):
            send = partial(self._send, queue, QueueKey(topic, queue_id), born_host, outcome)
            for refused, error in append_in_parts(list(members), send):
                outcome.failures[refused.letter.queue_offset] = str(error)
        return left

    def _addressed(
        self, letters: dict[int, RecordFields], outcome: Redriven, *, to_group: bool
    ) -> list[_Addressed]:
        addressed = []
        for queue_offset, letter in letters.items():
            topic = letter.properties.get(PropertyName.DEAD_LETTER_TOPIC, "")
            origin = letter.properties.get(PropertyName.ORIGIN_QUEUE_ID, "")
            if to_group:
                topic = retry_topic(letter.topic.removeprefix(dead_letter_topic("")))
            config = self.topics.find(topic)
            if config is None or not config.writable or (config.system and not to_group):
                outcome.failures[queue_offset] = f"topic {topic!r} takes nothing"
                continue
            if not to_group:
                require_publish(topic)
            number = int(origin) if origin.isdecimal() else 0
            addressed.append(_Addressed(letter, topic, number % max(1, config.write_queue_count)))
        return addressed

    def _send(
        self,
        source: QueueKey,
        target: QueueKey,
        born_host: Host,
        outcome: Redriven,
        members: Sequence[_Addressed],
    ) -> None:
        to_group = target.topic == retry_topic(source.topic.removeprefix(dead_letter_topic("")))
        queue_offsets = np.array([each.letter.queue_offset for each in members], np.int64)
        records = [
            with_mark(redriven_record(each.letter, to_group=to_group), each.letter)
            for each in members
        ]
        self.log.append(encode_block(target.topic, records), target.queue_id, born_host)
        self.table.mark(source, queue_offsets)
        outcome.redriven_count += len(members)


def _letters(read: QueueRead, wanted: Int64s) -> dict[int, RecordFields]:
    """The dead letters of a read, by queue offset."""
    if not read.count:
        return {}
    columns = decode_columns(b"".join(read.chunks), read.sizes.astype(np.int32))
    rows = np.flatnonzero(np.isin(columns.queue_offset, wanted)).tolist()
    found = map(columns.message, rows)
    return {letter.queue_offset: letter for letter in found}
