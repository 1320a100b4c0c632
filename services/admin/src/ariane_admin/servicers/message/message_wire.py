"""Conversion of messages from queues to messages of the contract."""

from __future__ import annotations

from ariane.common.v1.message_pb2 import Message, StoredPosition
from ariane_admin.messages.message_fields import own_properties, producer_address
from ariane_admin.servicers.times import time_of
from ariane_sdk import ReceivedMessage


def message_of(message: ReceivedMessage, *, body_bytes_max: int = 0) -> tuple[Message, bool]:
    """Convert a message; return it, and whether its body was cut.

    Args:
        message: The message.
        body_bytes_max: Bytes of the body; 0 for all.

    Raises:
        BodyDamaged: The body cannot be decompressed.
    """
    body = bytes(message.body)
    cut = bool(body_bytes_max) and len(body) > body_bytes_max
    converted = Message(
        topic=message.topic,
        body=body[:body_bytes_max] if cut else body,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        priority=message.priority,
        properties=own_properties(message),
        unique_id=message.unique_id,
        flag=message.flag,
        create_time=time_of(message.born_timestamp_ms),
        position=StoredPosition(
            broker_name=message.message_queue.broker_name,
            queue_id=message.message_queue.queue_id,
            queue_offset=message.queue_offset,
            commit_log_offset=message.commit_log_offset,
            store_time=time_of(message.store_timestamp_ms),
            producer_address=producer_address(message),
            attempts=message.attempts,
            message_id=message.offset_message_id,
        ),
    )
    return converted, cut


def shortened(message: Message, body_bytes_max: int) -> tuple[Message, bool]:
    """A message of the contract with the beginning of its body, and whether the body was cut."""
    if len(message.body) <= body_bytes_max:
        return message, False
    short = Message()
    short.CopyFrom(message)
    short.body = message.body[:body_bytes_max]
    return short, True
