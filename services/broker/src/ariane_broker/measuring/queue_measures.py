"""Metrics of topics and groups: one walk over the queues for all instruments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ariane_broker.consuming.offset_changes import OffsetChanges
from ariane_broker.groups.consumer_offsets import GroupOffset
from ariane_broker.receive.standing import Standings
from ariane_record.names import DEAD_LETTER_PREFIX
from ariane_servicekit.observability.measures import Measures, Value
from ariane_storage.store import Store

FRESH_SECONDS: Final = 1.0
"""Instruments that are read within this time use the same walk."""

GroupTopic = tuple[str, str]


@dataclass(slots=True)
class _Walk:
    """The result of one walk: messages by topic, or by group and topic."""

    stored: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    lag: Counter[GroupTopic] = field(default_factory=Counter)
    in_flight: Counter[GroupTopic] = field(default_factory=Counter)
    oldest_ms: dict[GroupTopic, int] = field(default_factory=dict)


class QueueMeasures:
    """Counts the messages in queues, and the backlogs of groups."""

    def __init__(
        self,
        store: Store,
        offsets: OffsetChanges,
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
            lambda: _by_topic(self._fresh().stored),
        )
        measures.gauge(
            "ariane.topic.messages.kept",
            "{message}",
            "Messages of a topic that can still be read.",
            lambda: _by_topic(self._fresh().kept),
        )
        measures.gauge(
            "ariane.dead_letters",
            "{message}",
            "Messages that a group has given up and that are still kept.",
            lambda: (
                (count, {"consumer_group": group}) for group, count in self._fresh().dead.items()
            ),
        )
        measures.gauge(
            "ariane.consumer.lag",
            "{message}",
            "Messages that a group has not consumed yet.",
            lambda: _by_group(self._fresh().lag),
        )
        measures.gauge(
            "ariane.consumer.lag.age",
            "s",
            "How long the oldest message that a group has not consumed has been stored.",
            self._ages,
        )
        measures.gauge(
            "ariane.consumer.in_flight",
            "{message}",
            "Messages that receivers of a group have in hand.",
            lambda: _by_group(self._fresh().in_flight),
        )

    def _ages(self) -> Iterable[Value]:
        walk, now_ms = self._fresh(), self._now_ms()
        for group_topic in walk.lag:
            oldest_ms = walk.oldest_ms.get(group_topic, now_ms)
            yield max(0, now_ms - oldest_ms) / 1000, _names(group_topic)

    def _fresh(self) -> _Walk:
        now = self._monotonic()
        if now - self._walked_at > FRESH_SECONDS:
            self._walk, self._walked_at = self._new_walk(), now
        return self._walk

    def _new_walk(self) -> _Walk:
        walk = _Walk()
        for topic, queue_id in self._store.queues():
            begin, end = self._store.queue_bounds(topic, queue_id)
            if topic.startswith(DEAD_LETTER_PREFIX):
                walk.dead[topic.removeprefix(DEAD_LETTER_PREFIX)] += end - begin
            else:
                walk.stored[topic] += end
                walk.kept[topic] += end - begin
        for place in self._offsets.places("", ""):
            self._count_place(walk, place)
        return walk

    def _count_place(self, walk: _Walk, place: GroupOffset) -> None:
        group_topic = (place.consumer_group, place.queue.topic)
        standing = self._standings.of_queue(place.consumer_group, place.queue)
        backlog = self._offsets.backlog(place)
        lag = backlog.message_count if standing is None else standing.unsettled_count
        walk.lag[group_topic] += lag
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
