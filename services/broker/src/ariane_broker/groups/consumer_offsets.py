"""The offset of each consumer group in each queue: the next queue offset that it will consume.

``config/consumerOffset.json`` has RocketMQ's shape::

    {"dataVersion": {...}, "offsetTable": {"orders@billing": {0: 12, 1: 30}}}

and one key of our own, ``resetTable``, which RocketMQ skips: how often each offset was reset. It
has the shape of ``offsetTable`` and is in the same file, so that a reset and its count become
durable together.

An unknown offset is absent, never zero: a consumer without an offset begins by its own settings.
Parts of the file that only RocketMQ uses are kept unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from ariane_broker.durable.data_version import DataVersion
from ariane_broker.queue_key import QueueKey
from ariane_record import ConsumerOffset
from ariane_servicekit import at_once

_TOPIC_END: Final = "@"


def _nobody_waits(consumer_group: str, queue: QueueKey) -> None:
    """Until somebody does."""


class GroupOffset(NamedTuple):
    """The offset of one group in one queue."""

    consumer_group: str
    queue: QueueKey
    consumer_offset: ConsumerOffset


class ConsumerOffsets:
    """The consumer offsets of all groups, in memory: by group, topic and queue id.

    Those of a group in a topic are a table of their own, which goes as a whole.
    """

    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self.on_reset: Callable[[str, QueueKey], None] = _nobody_waits
        """Called with a group and a queue after each reset: there may be messages for members that
        wait."""
        self._now_ms = now_ms
        self._groups: dict[str, dict[str, dict[int, ConsumerOffset]]] = {}
        self._resets: dict[str, dict[str, Counter[int]]] = {}
        self._version = DataVersion()
        self._foreign: dict[str, Any] = {}

    def find(self, consumer_group: str, queue: QueueKey) -> ConsumerOffset | None:
        """The group's offset in the queue, or None if there is none."""
        return self._groups.get(consumer_group, {}).get(queue.topic, {}).get(queue.queue_id)

    def has_any(self, consumer_group: str) -> bool:
        """Whether a group has an offset in any queue."""
        return bool(self._groups.get(consumer_group))

    def of_group(self, consumer_group: str) -> list[GroupOffset]:
        """All offsets of a group, by topic and queue."""
        return sorted(at_once(self.walk(consumer_group)))

    def queues_of(self, consumer_group: str) -> Iterator[QueueKey]:
        """All queues in which a group has an offset, by topic and queue."""
        topics = self._groups.get(consumer_group, {})
        for topic in sorted(topics):
            for queue_id in sorted(topics.get(topic, ())):
                yield QueueKey(topic, queue_id)

    def walk(self, consumer_group: str = "", topic: str = "") -> Iterator[GroupOffset | None]:
        """Offsets of one group or all, in one topic or all, as they are now, in any order.

        Yields once for each offset, and None for each group.
        """
        for group in [consumer_group] if consumer_group else list(self._groups):
            yield None
            topics = self._groups.get(group, {})
            for name in [topic] if topic else list(topics):
                for queue_id, offset in list(topics.get(name, {}).items()):
                    yield GroupOffset(group, QueueKey(name, queue_id), offset)

    def groups(self) -> list[str]:
        """All groups that have an offset, by name."""
        return sorted(self._groups)

    def put(self, consumer_group: str, queue: QueueKey, consumer_offset: ConsumerOffset) -> None:
        """Set the group's offset, forwards or back."""
        topics = self._groups.setdefault(consumer_group, {})
        topics.setdefault(queue.topic, {})[queue.queue_id] = consumer_offset

    def advance(
        self,
        consumer_group: str,
        queue: QueueKey,
        consumer_offset: ConsumerOffset,
        reset_epoch: int,
    ) -> bool:
        """Raise the group's offset to this one, unless it was reset since.

        Args:
            consumer_group: The group.
            queue: The queue.
            consumer_offset: At least this.
            reset_epoch: How often the offset had been reset when this one was found.

        Returns:
            Whether it has changed.
        """
        is_reset = consumer_group in self._resets  # Nearly never.
        if reset_epoch != (self.reset_epoch(consumer_group, queue) if is_reset else 0):
            return False
        topics = self._groups.setdefault(consumer_group, {})
        offsets = topics.setdefault(queue.topic, {})
        known = offsets.get(queue.queue_id)
        if known is not None and known >= consumer_offset:
            return False
        offsets[queue.queue_id] = consumer_offset
        return True

    def reset(self, consumer_group: str, queue: QueueKey, consumer_offset: ConsumerOffset) -> None:
        """Reset the group's offset: commits of members that do not know of it no longer count."""
        self.put(consumer_group, queue, consumer_offset)
        self._resets_in(consumer_group, queue.topic)[queue.queue_id] += 1
        self.on_reset(consumer_group, queue)

    def set_back(self, end_of: Callable[[QueueKey], int]) -> list[tuple[GroupOffset, int]]:
        """Reset each offset that lies beyond the end of its queue to that end, or below 0 to 0.

        Args:
            end_of: The next queue offset of a queue.

        Returns:
            The offsets as they were, each with what it is now; by group, topic and queue.
        """
        changes = []
        ends: dict[QueueKey, int] = {}
        for group in self.groups():
            for place in self.of_group(group):
                queue = place.queue
                end = ends[queue] if queue in ends else ends.setdefault(queue, end_of(queue))
                kept = min(max(0, place.consumer_offset), end)
                if place.consumer_offset != kept:
                    self.reset(group, queue, ConsumerOffset(kept))
                    changes.append((place, kept))
        return changes

    def reset_epoch(self, consumer_group: str, queue: QueueKey) -> int:
        """How often the group's offset in the queue was reset."""
        resets = self._resets.get(consumer_group)
        return resets[queue.topic][queue.queue_id] if resets and queue.topic in resets else 0

    def resets_of(self, consumer_group: str) -> Mapping[str, Mapping[int, int]]:
        """How often each of the group's offsets was reset, by topic and queue id, where any was."""
        return self._resets.get(consumer_group, {})

    def remove_group(self, consumer_group: str) -> bool:
        """Remove the offsets of a group; returns whether it had any."""
        self._resets.pop(consumer_group, None)
        return self._groups.pop(consumer_group, None) is not None

    def topics(self) -> set[str]:
        """Topics that any group has offsets in."""
        return set(chain.from_iterable(self._groups.values()))

    def remove_topics(self, topics: Container[str]) -> Iterator[bool | None]:
        """Remove the offsets in some topics.

        Yields once for each topic of a group that is examined: True if offsets were removed.
        """
        for group in {*self._groups, *self._resets}:
            for topic in {*self._groups.get(group, ()), *self._resets.get(group, ())}:
                removed = None
                if topic in topics:
                    removed = _popped(self._groups, group, topic)
                    _popped(self._resets, group, topic)
                yield True if removed else None

    def remove_topic_of(self, consumer_group: str, topic: str) -> None:
        """Remove the offsets of a group in one topic, all at once: nobody comes meanwhile.

        For members that do not know of it, it is a reset: what they commit no longer counts.
        """
        removed = _popped(self._groups, consumer_group, topic)
        if removed:
            # Not a statement for each of thousands of queues.
            self._resets_in(consumer_group, topic).update(list(removed))

    def _resets_in(self, consumer_group: str, topic: str) -> Counter[int]:
        """How often each of a group's offsets in a topic was reset, to be changed."""
        return self._resets.setdefault(consumer_group, {}).setdefault(topic, Counter())

    def document(self) -> dict[str, Any]:
        """The content of the file."""
        (document,) = at_once(self.documented())
        return document

    def documented(self) -> Iterator[dict[str, Any] | None]:
        """The content of the file; yields once for each offset before.

        Each offset is taken together with the count of its resets. Some may be newer than others:
        they do not depend on one another.
        """
        self._version = self._version.next(self._now_ms())
        offsets: dict[str, dict[str, int]] = {}
        resets: dict[str, dict[str, int]] = {}
        for group, queue in _places(self._groups):
            yield None
            offset = self.find(group, queue)
            if offset is not None:
                key, queue_id = f"{queue.topic}{_TOPIC_END}{group}", str(queue.queue_id)
                offsets.setdefault(key, {})[queue_id] = offset
                if count := self.reset_epoch(group, queue):
                    resets.setdefault(key, {})[queue_id] = count
        # And of those that were removed: who had them brings none back.
        for group, queue in _places(self._resets):
            yield None
            key, queue_id = f"{queue.topic}{_TOPIC_END}{group}", str(queue.queue_id)
            is_alone = queue_id not in offsets.get(key, {})
            if is_alone and (count := self.reset_epoch(group, queue)):
                resets.setdefault(key, {})[queue_id] = count
        own: dict[str, Any] = {"dataVersion": self._version.document(), "offsetTable": offsets}
        if resets:
            own["resetTable"] = resets
        yield self._foreign | own

    def load(self, document: Mapping[str, Any]) -> None:
        """Load the content of a file.

        Raises:
            KeyError, TypeError, ValueError: The file has another shape.
        """
        self._version = DataVersion.from_document(document.get("dataVersion") or {})
        self._foreign = dict(document)
        self._foreign.pop("resetTable", None)
        self._groups = {}
        for group, queue, consumer_offset in _entries(document["offsetTable"]):
            self.put(group, queue, ConsumerOffset(consumer_offset))
        self._resets = {}
        for group, queue, count in _entries(document.get("resetTable") or {}):
            self._resets_in(group, queue.topic)[queue.queue_id] = count


_TableT = TypeVar("_TableT", bound=Mapping[int, int])


def _popped(
    groups: dict[str, dict[str, _TableT]], consumer_group: str, topic: str
) -> _TableT | None:
    """Take the table of a group's topic out, if there is one."""
    topics = groups.get(consumer_group, {})
    table = topics.pop(topic, None)
    if table is not None and not topics:
        del groups[consumer_group]
    return table


def _places(
    groups: Mapping[str, Mapping[str, Mapping[int, int]]],
) -> Iterator[tuple[str, QueueKey]]:
    """Group and queue of all entries; they may change meanwhile."""
    for group in list(groups):
        for topic in list(groups.get(group, ())):
            for queue_id in list(groups.get(group, {}).get(topic, ())):
                yield group, QueueKey(topic, queue_id)


def _entries(table: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, QueueKey, int]]:
    """Group, queue and number of all entries of such a table.

    Raises:
        ValueError: A key has another shape.
    """
    for key, queues in table.items():
        topic, separator, group = key.rpartition(_TOPIC_END)
        if not separator:
            raise ValueError(f"{key!r} is not topic@group")
        for queue_id, number in queues.items():
            yield group, QueueKey(topic, int(queue_id)), int(number)
