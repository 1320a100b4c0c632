"""How topics lie on their brokers: rows of ``ariane topic``."""

from __future__ import annotations

from ariane.admin.v1.topic_service_pb2 import GetTopicResponse, TopicPlacement
from ariane_admin.commands.topic.words import message_type_word, permission_word
from ariane_admin.terminal.output import Row
from ariane_admin.times import moment_text
from ariane_admin.topic_attributes import retention_text


def layout_rows(answer: GetTopicResponse) -> list[Row]:
    """A topic on each broker; of one that does not answer nothing but the place is known."""
    rows = {part.broker_name: placement_row(part) for part in answer.topic.placements}
    for broker in answer.silent_brokers:
        place = TopicPlacement(
            cluster_name=broker.cluster_name,
            broker_name=broker.broker_name,
            address=broker.address,
        )
        known = ("cluster", "broker", "address")
        row = placement_row(place)
        rows[broker.broker_name] = {name: row[name] if name in known else None for name in row}
    return [rows[name] for name in sorted(rows)]


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
        "retention": retention_text(found),
        "attributes": dict(found.attributes),
        "version": found.version,
        "system": found.system,
        "last_stored": moment_text(found, "last_store_time"),
        "unread_messages": found.unread_message_count,
    }
