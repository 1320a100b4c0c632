"""Limits for the number of topics and queues of a broker.

Without limits any client that may send could fill the memory, and the routes, with topics: at every
change of a topic the broker writes and announces all of them. Topics from a time with other limits
stay and are served; only new ones are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ariane_broker.errors.public_errors import topic_limit_reached
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from ariane_servicekit.security.gate.charging import name_room
from ariane_servicekit.security.limits.meter import TOPICS
from ariane_servicekit.security.limits.name_room import NameRoom

_GROUP_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one broker."""

    topics_max: int
    """Topics of clients."""
    queues_max: int
    """Queues of the topics of clients, in all."""
    group_topics_max: int
    """Retry topics and dead letters of groups."""

    def left_beside(self, standing: Iterable[TopicConfig]) -> Iterator[TopicsLeft | None]:
        """How many topics and queues may still be created; yields once for each topic before."""
        # Those who ask at a time share an answer: the quotas of a process are the same for all.
        names = name_room(TOPICS)
        topics = queues = group_topics = 0
        for config in standing:
            if not config.system:
                names.count(config.topic)
                topics += 1
                queues += _queue_count(config)
            elif config.topic.startswith(_GROUP_PREFIXES):
                group_topics += 1
            yield None
        yield TopicsLeft(
            self,
            self.topics_max - topics,
            self.queues_max - queues,
            self.group_topics_max - group_topics,
            names,
        )


@dataclass(slots=True)
class TopicsLeft:
    """Topics and queues that may still be created; below 0 if more exist than the limits allow."""

    limits: TopicLimits
    """The limits, for errors."""
    topics: int
    """Topics of clients."""
    queues: int
    """Queues of these."""
    group_topics: int
    """Retry topics and dead letters of groups."""
    names: NameRoom
    """Topics of clients by what their names begin with."""

    def take(self, config: TopicConfig) -> None:
        """Reserve room for a new topic.

        Raises:
            ServiceError: TOPIC_LIMIT_REACHED or QUOTA_EXCEEDED.
        """
        limits = self.limits
        if config.system:
            if self.group_topics < 1:
                # Twice that setting: each group has one topic for retries and one for dead letters.
                what = "topics of groups"
                raise topic_limit_reached("groups_max", limits.group_topics_max, what)
            self.group_topics -= 1
            return
        if self.topics < 1:
            raise topic_limit_reached("topics_max", limits.topics_max, "topics")
        self.names.take(config.topic)
        self.take_queues(_queue_count(config))
        self.topics -= 1

    def take_queues(self, count: int) -> None:
        """Reserve room for queues of a topic.

        Raises:
            ServiceError: TOPIC_LIMIT_REACHED.
        """
        if count > self.queues:
            raise topic_limit_reached("queues_max", self.limits.queues_max, "queues")
        self.queues -= count


def added_queue_count(before: TopicConfig, after: TopicConfig) -> int:
    """How many queues a change adds to a topic; 0 if it removes some."""
    return max(0, _queue_count(after) - _queue_count(before))


def _queue_count(config: TopicConfig) -> int:
    return max(config.read_queue_count, config.write_queue_count)
