"""How topics lie on their brokers: rows of ``ariane topic``."""

from __future__ import annotations

from ariane.admin.v1.topic_service_pb2 import TopicPlacement
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.commands.topic.words import message_type_word, permission_word
from ariane_admin.terminal.output import Row
from ariane_admin.times import moment_text
from ariane_sdk import LiveBroker


def layout_row(broker: LiveBroker, found: Topic) -> Row:
    """A topic on one broker."""
    return placement_row(
        TopicPlacement(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            address=broker.address,
            topic=found,
        )
    )


def placement_row(part: TopicPlacement) -> Row:
    """A topic's part on one broker."""
    found = part.topic
    return {
        "cluster": part.cluster_name,
        "broker": part.broker_name,
        "address": part.address,
        "read_queues": found.read_queue_count,
        "write_queues": found.write_queue_count,
        "permission": permission_word(found.permission),
        "type": message_type_word(found.message_type),
        "attributes": dict(found.attributes),
        "version": found.version,
        "system": found.system,
        "last_stored": moment_text(found, "last_store_time"),
        "unread_messages": found.unread_message_count,
    }


def unknown_layout(broker: LiveBroker) -> Row:
    """A topic on a broker that does not answer."""
    known = layout_row(broker, Topic())
    named = ("cluster", "broker", "address")
    return {name: value if name in named else None for name, value in known.items()}
