"""Where a message that is tried again, or a dead letter, came from, for generated clients."""

from __future__ import annotations

from ariane.common.v1.message_pb2 import MessageOrigin
from ariane_record import PropertyName, RecordFields
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX


def origin_of(fields: RecordFields) -> MessageOrigin | None:
    """The origin of a stored message; None for one that no return made.

    Only retry topics and those of dead letters are believed: what a record of another topic says of
    an origin was written by its producer.
    """
    if not fields.topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return None
    properties = fields.properties
    topic = properties.get(PropertyName.RETRY_TOPIC) or properties.get(
        PropertyName.DEAD_LETTER_TOPIC
    )
    if not topic:
        return None
    return MessageOrigin(
        topic=topic,
        message_id=properties.get(PropertyName.ORIGIN_MESSAGE_ID, ""),
        queue_id=_number(properties.get(PropertyName.ORIGIN_QUEUE_ID, "")),
        queue_offset=_number(properties.get(PropertyName.ORIGIN_QUEUE_OFFSET, "")),
        dead_letter_reason=properties.get(PropertyName.DEAD_LETTER_REASON, ""),
        last_error=properties.get(PropertyName.LAST_ERROR, ""),
    )


def _number(text: str) -> int | None:
    """A decimal number of a property; None where there is none (Java's brokers do not say all)."""
    return int(text) if text.isascii() and text.isdecimal() else None
