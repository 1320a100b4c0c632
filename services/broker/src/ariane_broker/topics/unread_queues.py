"""Queues that consumers do not read, and the messages in them, which no group gets.

A topic may have more queues to write than to read, or may have had more queues to read::

    queue id    0 ........... read_queue_count ........... write_queue_count ...........
                [ read                ][ unread, still written             ][ unread ]

A backlog in these queues is no reader's lag, so it is reported separately, and a change that would
create one is refused unless the caller allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ariane_broker.errors.public_errors import queues_unread
from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record import ConsumerOffset
from ariane_storage.store import Store


class UnreadQueue(NamedTuple):
    """A queue that consumers do not read, and that has messages.

    Attributes:
        queue: The queue.
        begin: The oldest kept queue offset.
        end: Queue offset behind the newest message.
    """

    queue: QueueKey
    begin: int
    end: int

    @property
    def message_count(self) -> int:
        """Number of kept messages."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True, eq=False)
class UnreadQueues:
    """Finds queues that consumers do not read, and refuses to make more."""

    store: Store
    topics: TopicTable
    offsets: ConsumerOffsets

    def all(self) -> Iterator[UnreadQueue]:
        """Unread queues of users' topics that have messages, by topic and queue."""
        for topic, queue_id in self.store.queues():
            config = self.topics.find(topic)
            if config is not None and not config.system and queue_id >= config.read_queue_count:
                yield from self._kept(QueueKey(topic, queue_id))

    def message_counts(self) -> Counter[str]:
        """Messages in unread queues, by topic."""
        counts: Counter[str] = Counter()
        for unread in self.all():
            counts[unread.queue.topic] += unread.message_count
        return counts

    def places(self, places: Collection[GroupOffset]) -> list[GroupOffset]:
        """Positions of groups in the unread queues of topics in which they have offsets.

        Returns:
            The stored offset of each, or the oldest kept one; of those that are not among the given
            places.
        """
        known = set(places)
        groups: dict[str, set[str]] = {}
        for place in places:
            groups.setdefault(place.queue.topic, set()).add(place.consumer_group)
        found = []
        for unread in self.all() if groups else ():
            for group in groups.get(unread.queue.topic, ()):
                stored = self.offsets.find(group, unread.queue)
                begin = ConsumerOffset(unread.begin) if stored is None else stored
                found.append(GroupOffset(group, unread.queue, begin))
        return [place for place in found if place not in known]

    def is_unread(self, queue: QueueKey) -> bool:
        """Whether consumers do not read a queue."""
        config = self.topics.find(queue.topic)
        return config is not None and queue.queue_id >= config.read_queue_count

    def check(self, before: TopicConfig | None, config: TopicConfig) -> None:
        """Refuse a change that hides messages, present or future ones.

        Args:
            before: The topic as it is; None for a new one.
            config: The topic as it would be.

        Raises:
            ServiceError: QUEUES_UNREAD.
        """
        reads, writes = config.read_queue_count, config.write_queue_count
        unread_before = 0
        if before is not None:
            unread_before = max(0, before.write_queue_count - before.read_queue_count)
        if writes - reads > unread_before:
            raise queues_unread(config.topic, reads, writes, 0)
        if before is not None and reads < before.read_queue_count:
            gone = (QueueKey(config.topic, each) for each in range(reads, before.read_queue_count))
            count = sum(map(self._unconsumed_count, gone))
            if count:
                raise queues_unread(config.topic, reads, writes, count)

    def _unconsumed_count(self, queue: QueueKey) -> int:
        """Messages of a queue that some group has not consumed; all if its topic has no group."""
        begin, end = self._kept_range(queue)
        groups = self._groups_of(queue.topic)
        done = [self.offsets.find(group, queue) or 0 for group in groups]
        return max(0, end - max(begin, min(done, default=0)))

    def _groups_of(self, topic: str) -> Iterable[str]:
        return [group for group in self.offsets.groups() if self.offsets.of_group(group, topic)]

    def _kept(self, queue: QueueKey) -> Iterator[UnreadQueue]:
        begin, end = self._kept_range(queue)
        if begin < end:
            yield UnreadQueue(queue, begin, end)

    def _kept_range(self, queue: QueueKey) -> tuple[int, int]:
        """The kept range of a queue, with the end that a new primary hands out later."""
        return self.store.queue_bounds(*queue)[0], self.store.queue_end(*queue)
