"""The order of messages: the queue of each message group."""

from ariane_ordering.java_hash import java_string_hash
from ariane_ordering.message_groups import BrokerQueue, group_position, queues_in_order

__all__ = ["BrokerQueue", "group_position", "java_string_hash", "queues_in_order"]
