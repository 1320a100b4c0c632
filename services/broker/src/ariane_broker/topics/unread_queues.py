"""Queues that consumers do not read, and the messages in them, which no group gets.

A topic may have more queues to write than to read, or may have had more queues to read::

    queue id    0 ........... read_queue_count ........... write_queue_count ...........
                [ read                ][ unread, still written             ][ unread ]

A backlog in these queues is no reader's lag, so it is reported separately, and a change that would
create one is refused unless the caller allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ariane_broker.errors.public_errors import queues_unread
from ariane_broker.groups.consumer_offsets import ConsumerOffsets, GroupOffset
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record import ConsumerOffset
from ariane_servicekit import in_turns
from ariane_storage.store import Store


class UnreadQueue(NamedTuple):
    """A queue that consumers do not read, and that has messages."""

    queue: QueueKey
    """The queue."""
    begin: int
    """The oldest kept queue offset."""
    end: int
    """Queue offset behind the newest message."""

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

    def walk(self) -> Iterator[UnreadQueue | None]:
        """Unread queues of users' topics that have messages, in any order.

        Yields once for each queue of the store: None for one that is read.
        """
        for queue in self.store.walk_queues():
            config = None if queue is None else self.topics.find(queue[0])
            is_unread = (
                queue is not None
                and config is not None
                and not config.system
                and queue[1] >= config.read_queue_count
            )
            yield self._kept(QueueKey(*queue)) if is_unread and queue is not None else None

    async def message_counts(self) -> Counter[str]:
        """Messages in unread queues, by topic."""
        counts: Counter[str] = Counter()
        for unread in await in_turns(self.walk()):
            counts[unread.queue.topic] += unread.message_count
        return counts

    def with_places(
        self, places: Iterable[GroupOffset | None], unread: Iterable[UnreadQueue]
    ) -> Iterator[GroupOffset | None]:
        """Add to positions of groups those in unread queues of topics in which they have offsets.

        Args:
            places: Positions; None for something that was examined.
            unread: All unread queues.

        Yields:
            Each position; and for queues without a stored one, the oldest kept offset.
        """
        of_topic: dict[str, list[UnreadQueue]] = {}
        for each in unread:
            of_topic.setdefault(each.queue.topic, []).append(each)
        added: set[tuple[str, str]] = set()
        for place in places:
            yield place
            if place is None or place.queue.topic not in of_topic:
                continue
            group, topic = place.consumer_group, place.queue.topic
            if (group, topic) not in added:
                added.add((group, topic))
                for each in of_topic[topic]:
                    if self.offsets.find(group, each.queue) is None:
                        yield GroupOffset(group, each.queue, ConsumerOffset(each.begin))
                    else:
                        yield None

    def is_unread(self, queue: QueueKey) -> bool:
        """Whether consumers do not read a queue."""
        config = self.topics.find(queue.topic)
        return config is not None and queue.queue_id >= config.read_queue_count

    def ends(self, before: TopicConfig, config: TopicConfig) -> list[int]:
        """The ends of the queues that a change would hide."""
        gone = range(config.read_queue_count, before.read_queue_count)
        return [self.store.queue_end(config.topic, queue_id) for queue_id in gone]

    def check(self, before: TopicConfig | None, config: TopicConfig) -> Iterator[None]:
        """Refuse a change that hides messages, present or future ones.

        Yields once for each offset and queue that is examined; for a new topic, there are none.

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
            gone = range(reads, before.read_queue_count)
            count = 0
            for unconsumed in self._unconsumed_counts(config.topic, gone):
                count += unconsumed
                yield
            if count:
                raise queues_unread(config.topic, reads, writes, count)

    def _unconsumed_counts(self, topic: str, queue_ids: Iterable[int]) -> Iterator[int]:
        """Messages of each queue that some group of the topic has not consumed.

        Without a group, all of them. Yields 0 for each offset that is examined before.
        """
        groups: set[str] = set()
        least: dict[int, int] = {}
        known: Counter[int] = Counter()
        for place in self.offsets.walk(topic=topic):
            if place is not None:
                queue_id, offset = place.queue.queue_id, place.consumer_offset
                groups.add(place.consumer_group)
                known[queue_id] += 1
                least[queue_id] = min(offset, least.get(queue_id, offset))
            yield 0
        for queue_id in queue_ids:
            begin, end = self._kept_range(QueueKey(topic, queue_id))
            done = least[queue_id] if groups and known[queue_id] == len(groups) else 0
            yield max(0, end - max(begin, done))

    def _kept(self, queue: QueueKey) -> UnreadQueue | None:
        begin, end = self._kept_range(queue)
        return UnreadQueue(queue, begin, end) if begin < end else None

    def _kept_range(self, queue: QueueKey) -> tuple[int, int]:
        """The kept range of a queue, with the end that a new primary hands out later."""
        return self.store.queue_bounds(*queue)[0], self.store.queue_end(*queue)
