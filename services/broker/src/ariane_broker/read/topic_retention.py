"""Topics that keep messages for a shorter time than the broker, or were purged.

All topics share the commit log, and its segments go whole. So the old messages of such a topic are
hidden: its queues begin behind them, for every reader; their bytes go with their segments, when all
messages in these are older than ``retention_hours``::

    commit log   | orders | audit | orders | audit |        segment: kept for 72 h
    orders (1 h)     x        :       x--------:---- the queue begins here
    audit            |--------+----------------+---- the queue begins here

Until then, a message that is asked for by its id or key is still found.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_servicekit import in_turns
from ariane_storage.disk.cold import each_warm
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.store import Store

HIDING_S: Final = 10.0
"""Interval of checks: messages are hidden so much later at most."""


class _Retention(NamedTuple):
    """Which messages of a topic are shown."""

    retention_ms: int | None
    """How long they are shown after they were stored; None: for as long as they exist."""
    since_ms: int | None
    """Only what was stored since then is shown, milliseconds since the epoch; None: all is."""

    def oldest_ms(self, now_ms: int) -> int:
        """Messages that were stored before this time are hidden."""
        aged_ms = 0 if self.retention_ms is None else now_ms - self.retention_ms
        return max(aged_ms, self.since_ms or 0)


def _retention_of(config: TopicConfig) -> tuple[str, _Retention] | None:
    if config.retention_ms is None and config.shown_since_ms is None:
        return None
    return config.topic, _Retention(config.retention_ms, config.shown_since_ms)


class TopicRetention:
    """Lets queues of topics begin later that have a retention time of their own, or were purged."""

    def __init__(
        self, store: Store, topics: TopicTable, lookup: QueueLookup, cold_reads: ColdReads
    ) -> None:
        self._store = store
        self._topics = topics
        self._lookup = lookup
        self._cold_reads = cold_reads
        self._known: dict[str, _Retention] = {}
        self._unsettled: set[str] = set()
        """Topics that changed, and whose queues do not all show what they must: a turn failed."""

    async def apply(self) -> None:
        """Hide what is too old by now; show again what is not, after a change of a topic."""
        now_ms = self._store.believed_ms()
        wanted = dict(await in_turns(map(_retention_of, self._topics.walk())))
        self._unsettled |= {
            topic for topic, known in self._known.items() if wanted.get(topic) != known
        }
        changed = frozenset(self._unsettled)
        self._known = wanted
        steps = (
            partial(self._apply_to, topic, queue_id, now_ms, is_changed=topic in changed)
            for topic in sorted(wanted.keys() | changed)
            for queue_id in self._queue_ids(topic)
        )
        await self._cold_reads.in_turns(QUERIES, each_warm(steps))
        self._unsettled -= changed

    def _queue_ids(self, topic: str) -> range:
        config = self._topics.find(topic)
        if config is None:
            return range(0)
        return range(max(config.read_queue_count, config.write_queue_count))

    def _apply_to(self, topic: str, queue_id: int, now_ms: int, *, is_changed: bool) -> None:
        if is_changed:
            self._store.show_from(topic, queue_id, 0)
        retention = self._known.get(topic)
        if retention is None:
            return
        oldest_ms = retention.oldest_ms(now_ms)
        begin, end = self._store.queue_bounds(topic, queue_id)
        if begin == end:
            return
        stored_ms = self._lookup.store_timestamp_ms(topic, queue_id, begin)
        if stored_ms is None or stored_ms >= oldest_ms:
            return
        try:
            shown = self._lookup.offset_from(topic, queue_id, oldest_ms)
        except QueueUnderRepair:
            return  # The next turn finds it repaired.
        self._store.show_from(topic, queue_id, shown)
