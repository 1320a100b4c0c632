"""How many topics and queues a broker makes.

Without limits any client that may send could fill the memory with topics, and with it the routes:
every change of a topic has the broker write and tell all of them. What stands already, from a
time with other limits, stays and is served; only new ones are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ariane_broker.errors import topic_limit_reached
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX

_GROUP_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one broker.

    Attributes:
        topics_max: Topics of clients.
        queues_max: Queues of the topics of clients, in all.
        group_topics_max: Topics that groups have for themselves.
    """

    topics_max: int
    queues_max: int
    group_topics_max: int

    def room_beside(self, standing: Iterable[TopicConfig]) -> TopicRoom:
        """How many topics and queues may still be made beside those that exist.

        Args:
            standing: All topics of the broker.
        """
        topics = queues = group_topics = 0
        for config in standing:
            if not config.system:
                topics += 1
                queues += _queue_count(config)
            elif config.topic.startswith(_GROUP_PREFIXES):
                group_topics += 1
        return TopicRoom(
            self,
            self.topics_max - topics,
            self.queues_max - queues,
            self.group_topics_max - group_topics,
        )


@dataclass(slots=True)
class TopicRoom:
    """How much may still be made; below 0 where more exists than the limits allow.

    Attributes:
        limits: For errors.
        topics: Topics of clients.
        queues: Queues of these.
        group_topics: Topics of groups.
    """

    limits: TopicLimits
    topics: int
    queues: int
    group_topics: int

    def take(self, config: TopicConfig) -> None:
        """Set room aside for a new topic.

        Raises:
            ServiceError: TOPIC_LIMIT_REACHED.
        """
        limits = self.limits
        if config.system:
            if self.group_topics < 1:
                # Twice that setting: a group has one for repeats and one for dead letters.
                what = "topics of groups"
                raise topic_limit_reached("groups_max", limits.group_topics_max, what)
            self.group_topics -= 1
            return
        if self.topics < 1:
            raise topic_limit_reached("topics_max", limits.topics_max, "topics")
        self.take_queues(_queue_count(config))
        self.topics -= 1

    def take_queues(self, count: int) -> None:
        """Set room aside for queues of a topic.

        Raises:
            ServiceError: TOPIC_LIMIT_REACHED.
        """
        if count > self.queues:
            raise topic_limit_reached("queues_max", self.limits.queues_max, "queues")
        self.queues -= count


def added_queue_count(before: TopicConfig, after: TopicConfig) -> int:
    """How many queues a change of a topic adds; none for one that takes some away."""
    return max(0, _queue_count(after) - _queue_count(before))


def _queue_count(config: TopicConfig) -> int:
    return max(config.read_queue_count, config.write_queue_count)
