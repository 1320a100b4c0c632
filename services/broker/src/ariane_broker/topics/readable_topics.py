"""The topics and queues that a consumer may read."""

from __future__ import annotations

from ariane_broker.errors.public_errors import (
    queue_not_found,
    topic_not_found,
    topic_not_readable,
    topic_reserved,
)
from ariane_broker.topics.topic_changes import check_user_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record.names import DEAD_LETTER_PREFIX, TRACE_TOPIC, retry_topic


def readable_topic(topics: TopicTable, topic: str, consumer_group: str = "") -> TopicConfig:
    """Return a topic that the group may read.

    A group may read its own retry topic and no other group's; every group may read dead letters and
    the trace topic. All other topics of the system are closed.

    Raises:
        ServiceError: TOPIC_NOT_FOUND, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED or TOPIC_NOT_READABLE.
    """
    config = topics.find(topic)
    if config is not None and config.is_open:
        return config
    if config is None:
        if not _open_to(topic, consumer_group):
            check_user_topic(topic)
        raise topic_not_found(topic)
    if config.system and not _open_to(topic, consumer_group):
        raise topic_reserved(topic)
    if not config.readable:
        raise topic_not_readable(topic, int(config.permission))
    return config


def readable_queue(
    topics: TopicTable, topic: str, queue_id: int, consumer_group: str = ""
) -> TopicConfig:
    """Return the topic of a queue that the group may read.

    Raises:
        ServiceError: As ``readable_topic``, or QUEUE_NOT_FOUND.
    """
    config = readable_topic(topics, topic, consumer_group)
    if not 0 <= queue_id < config.read_queue_count:
        raise queue_not_found(topic, queue_id, config.read_queue_count)
    return config


def _open_to(topic: str, consumer_group: str) -> bool:
    own_retry_topic = bool(consumer_group) and topic == retry_topic(consumer_group)
    return own_retry_topic or topic == TRACE_TOPIC or topic.startswith(DEAD_LETTER_PREFIX)
