"""Metrics of topics and groups: one walk over the queues for all instruments.

The first instrument that is read walks, in short turns of the loop (``turns``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ariane_broker.consuming.offset_queries import OffsetQueries
from ariane_broker.groups.consumer_offsets import GroupOffset
from ariane_broker.receive.standing import Standings
from ariane_record.names import DEAD_LETTER_PREFIX
from ariane_servicekit.observability.measures import Measures, Value
from ariane_storage.queues.consume_queue_entry import HOLE_SIZE
from ariane_storage.store import Store

FRESH_SECONDS: Final = 1.0
"""Instruments that are read within this time use the same walk."""

_SIZES_LOOKED_AT: Final = 128
"""How many of the oldest and of the newest messages of a backlog tell the size of the others."""

GroupTopic = tuple[str, str]


@dataclass(slots=True)
class _Walk:
    """The result of one walk: messages by topic, or by group and topic."""

    stored: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    lag: Counter[GroupTopic] = field(default_factory=Counter)
    lag_bytes: Counter[GroupTopic] = field(default_factory=Counter)
    in_flight: Counter[GroupTopic] = field(default_factory=Counter)
    oldest_ms: dict[GroupTopic, int] = field(default_factory=dict)


class QueueMeasures:
    """Counts the messages in queues, and the backlogs of groups."""

    def __init__(
        self,
        store: Store,
        offsets: OffsetQueries,
        standings: Standings,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._standings = standings
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._walk = _Walk()
        self._walked_at = float("-inf")

    def make(self, measures: Measures) -> None:
        """Make the instruments."""
        measures.counter(
            "ariane.topic.messages.stored",
            "{message}",
            "Messages of a topic that were ever stored here.",
            self._each(lambda walk: _by_topic(walk.stored)),
        )
        measures.gauge(
            "ariane.topic.messages.kept",
            "{message}",
            "Messages of a topic that can still be read.",
            self._each(lambda walk: _by_topic(walk.kept)),
        )
        measures.gauge(
            "ariane.dead_letters",
            "{message}",
            "Messages that a group has given up and that are still kept.",
            self._each(
                lambda walk: (
                    (count, {"consumer_group": group}) for group, count in walk.dead.items()
                )
            ),
        )
        measures.gauge(
            "ariane.consumer.lag",
            "{message}",
            "Messages that a group has not consumed yet.",
            self._each(lambda walk: _by_group(walk.lag)),
        )
        measures.gauge(
            "ariane.consumer.lag.size",
            "By",
            "Bytes of these messages, by the sizes of the oldest and the newest ones.",
            self._each(lambda walk: _by_group(walk.lag_bytes)),
        )
        measures.gauge(
            "ariane.consumer.lag.age",
            "s",
            "How long the oldest message that a group has not consumed has been stored.",
            self._each(self._ages),
        )
        measures.gauge(
            "ariane.consumer.in_flight",
            "{message}",
            "Messages that receivers of a group have in hand.",
            self._each(lambda walk: _by_group(walk.in_flight)),
        )

    def _each(
        self, values: Callable[[_Walk], Iterable[Value]]
    ) -> Callable[[], Iterator[Value | None]]:
        """A reader of the values of a walk; it walks first if the last walk is too old."""

        def read() -> Iterator[Value | None]:
            now = self._monotonic()
            if now - self._walked_at > FRESH_SECONDS:
                walk = _Walk()
                yield from self._take(walk)
                self._walk, self._walked_at = walk, self._monotonic()
            yield from values(self._walk)

        return read

    def _ages(self, walk: _Walk) -> Iterable[Value]:
        now_ms = self._now_ms()
        for group_topic in walk.lag:
            oldest_ms = walk.oldest_ms.get(group_topic, now_ms)
            yield max(0, now_ms - oldest_ms) / 1000, _names(group_topic)

    def _take(self, walk: _Walk) -> Iterator[None]:
        """Count everything; yields once for each queue, and twice for each offset of a group."""
        for queue in self._store.walk_queues():
            if queue is not None:
                self._count_queue(walk, *queue)
            yield None
        for place in self._offsets.places("", ""):
            if place is not None:
                self._count_place(walk, place)
                # To look at sizes takes as long as all else.
                yield None
            yield None

    def _count_queue(self, walk: _Walk, topic: str, queue_id: int) -> None:
        begin, end = self._store.queue_bounds(topic, queue_id)
        if topic.startswith(DEAD_LETTER_PREFIX):
            walk.dead[topic.removeprefix(DEAD_LETTER_PREFIX)] += end - begin
        else:
            walk.stored[topic] += end
            walk.kept[topic] += end - begin

    def _size_bytes(self, place: GroupOffset, end: int, lag: int) -> int:
        """Bytes of the newest messages of a queue, by the sizes of some."""
        if lag <= 0:
            return 0
        store, queue = self._store, place.queue
        count = min(lag, _SIZES_LOOKED_AT)
        begins = {max(0, end - lag), max(0, end - count)}
        entries = [store.queue_entries(*queue, begin, max_count=count) for begin in begins]
        sizes = np.concatenate([some["size"] for some in entries])
        sizes = sizes[(sizes > 0) & (sizes != HOLE_SIZE)]
        return round(float(sizes.mean()) * lag) if len(sizes) else 0

    def _count_place(self, walk: _Walk, place: GroupOffset) -> None:
        group_topic = (place.consumer_group, place.queue.topic)
        standing = self._standings.of_queue(place.consumer_group, place.queue)
        backlog = self._offsets.backlog(place)
        lag = backlog.message_count if standing is None else standing.unsettled_count
        walk.lag[group_topic] += lag
        walk.lag_bytes[group_topic] += self._size_bytes(place, backlog.max_queue_offset, lag)
        if standing is not None:
            walk.in_flight[group_topic] += standing.in_flight_count
        if lag and backlog.oldest_store_timestamp_ms is not None:
            known = walk.oldest_ms.get(group_topic, backlog.oldest_store_timestamp_ms)
            walk.oldest_ms[group_topic] = min(known, backlog.oldest_store_timestamp_ms)


def _by_topic(counts: Mapping[str, int]) -> Iterable[Value]:
    return ((count, {"topic": topic}) for topic, count in counts.items())


def _by_group(counts: Mapping[GroupTopic, int]) -> Iterable[Value]:
    return ((count, _names(group_topic)) for group_topic, count in counts.items())


def _names(group_topic: GroupTopic) -> Mapping[str, str]:
    group, topic = group_topic
    return {"consumer_group": group, "topic": topic}
