"""The topics that a broker creates for itself at its first start.

They are those of RocketMQ that this broker uses or will use, and three of our own, for batch
transactions and for receiving. RocketMQ also creates topics named after the cluster and the broker;
no rule reserves those names, so they are left to users.
"""

from __future__ import annotations

from typing import Final

from ariane_broker.topics.topic_table import Permission, TopicConfig
from ariane_record.names import (
    CHECKS_EXHAUSTED_TOPIC,
    DELAY_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    TEMPLATE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
)

BATCH_TOPIC: Final = "RMQ_SYS_ARIANE_BATCH_TOPIC"
RECEIVE_TOPIC: Final = "RMQ_SYS_ARIANE_RECEIVE_TOPIC"
STAGE_TOPIC: Final = "RMQ_SYS_ARIANE_STAGE_TOPIC"

DELAY_LEVEL_COUNT: Final = 18


def system_topics(*, auto_create_topics: bool, default_queue_count: int) -> list[TopicConfig]:
    """Topics that must exist before the broker serves.

    Args:
        auto_create_topics: Whether a send may create its topic. Then there is a template topic,
            whose route tells producers which brokers would create an unknown topic.
        default_queue_count: Queues of the template.
    """
    topics = [
        _topic(BATCH_TOPIC, 1),
        _topic(CHECKS_EXHAUSTED_TOPIC, 1),
        _topic(DELAY_TOPIC, DELAY_LEVEL_COUNT),
        _topic(HALF_TOPIC, 1),
        _topic(OP_TOPIC, 1),
        _topic(RECEIVE_TOPIC, 1),
        _topic(STAGE_TOPIC, 1),
        _topic(TIMER_TOPIC, 1),
        _topic(TRACE_TOPIC, 1),
    ]
    if auto_create_topics:
        permission = Permission.READ_WRITE | Permission.INHERIT
        topics.append(_topic(TEMPLATE_TOPIC, default_queue_count, permission))
    return topics


def _topic(
    name: str, queue_count: int, permission: Permission = Permission.READ_WRITE
) -> TopicConfig:
    return TopicConfig(
        topic=name,
        read_queue_count=queue_count,
        write_queue_count=queue_count,
        permission=permission,
    )
