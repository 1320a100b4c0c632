"""Lookups in queues: kept ranges, offsets by time, and store times by offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_broker.topics.readable_topics import readable_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record.names import RETRY_PREFIX
from ariane_storage.disk.cold import each_warm
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.queues.time_lookup import TimeBoundary
from ariane_storage.reading.record_finder import store_timestamp
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class KeptQueue:
    """The kept range of one queue."""

    queue_id: int
    """The queue."""
    min_queue_offset: int
    """The oldest kept queue offset."""
    max_queue_offset: int
    """Readable end, exclusive."""
    last_store_timestamp_ms: int | None
    """When the newest message was stored; None for an empty queue, and while the end of the queue
    is under repair."""
    size_bytes: int
    """Estimated bytes of the kept records, by the newest ones."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueLookup:
    """Answers questions about queues."""

    store: Store
    topics: TopicTable
    cold_reads: ColdReads
    _: KW_ONLY
    open_log: Callable[[], Callable[[], None]] = lambda: lambda: None
    """Called when bounds are asked for; returns a check that is called before each queue. Both
    raise if the log cannot be read."""

    async def kept_queues(self, topic: str) -> list[KeptQueue]:
        """The kept range of each readable queue, by queue id.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_RESERVED or TOPIC_NOT_READABLE.
        """
        check_readable = self.open_log()
        config = self._known_topic(topic)

        def kept(queue_id: int) -> KeptQueue:
            check_readable()
            return self._kept(topic, queue_id)

        return await self.cold_reads.in_turns(
            QUERIES,
            each_warm(partial(kept, queue_id) for queue_id in range(config.read_queue_count)),
        )

    async def offsets_from(self, topic: str, timestamp_ms: int) -> list[tuple[int, int]]:
        """By queue id, the first queue offset stored at or after a time, or else the readable end.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_RESERVED or TOPIC_NOT_READABLE.
        """
        config = self._known_topic(topic)

        def found(queue_id: int) -> tuple[int, int]:
            return queue_id, self.offset_from(topic, queue_id, timestamp_ms)

        return await self.cold_reads.in_turns(
            QUERIES,
            each_warm(partial(found, queue_id) for queue_id in range(config.read_queue_count)),
        )

    def offset_from(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first queue offset of a queue stored at or after a time, or else the readable end."""
        return self.store.queue_offset_at_time(
            topic, queue_id, timestamp_ms, boundary=TimeBoundary.LOWER
        )

    async def last_store_timestamps_ms(self, configs: Iterable[TopicConfig]) -> dict[str, int]:
        """When the newest message of each topic was stored; topics without messages are missing."""
        newest: dict[str, int] = {}

        def look(topic: str, queue_id: int) -> None:
            stored_ms = self._kept(topic, queue_id).last_store_timestamp_ms
            if stored_ms is not None:
                newest[topic] = max(stored_ms, newest.get(topic, stored_ms))

        looks = (
            partial(look, config.topic, queue_id)
            for config in configs
            for queue_id in range(config.read_queue_count)
        )
        await self.cold_reads.in_turns(QUERIES, each_warm(looks))
        return newest

    def store_timestamp_ms(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """When the message at a queue offset, or the next undamaged one, was stored.

        None at the end of the queue, and while that place is under repair.
        """
        return self._stored(topic, queue_id, queue_offset)[0]

    def _known_topic(self, topic: str) -> TopicConfig:
        """Return a readable topic, or any retry topic, of which every client may know the places.

        Raises:
            ServiceError: As ``readable_topic``.
        """
        consumer_group = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
        return readable_topic(self.topics, topic, consumer_group)

    def _kept(self, topic: str, queue_id: int) -> KeptQueue:
        begin, end = self.store.queue_bounds(topic, queue_id)
        if begin >= end:
            return KeptQueue(queue_id, begin, end, None, 0)
        timestamp_ms, size = self._stored(topic, queue_id, end - 1)
        return KeptQueue(queue_id, begin, end, timestamp_ms, size * (end - begin))

    def _stored(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int | None, int]:
        try:
            read = self.store.read_queue(topic, queue_id, queue_offset, max_count=1, max_bytes=1)
        except QueueUnderRepair:
            return None, 0
        if not read.count:
            return None, 0
        return store_timestamp(read.chunks[0]), int(read.sizes[0])
