"""Conversion between plain messages of the contract and records.

Packed answers have records unchanged; here every message becomes fields one by one: for clients
that pack no blocks, for queries, and for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ariane.common.v1.message_pb2 import (
    COMPRESSION_LZ4,
    COMPRESSION_UNSPECIFIED,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    MESSAGE_TYPE_DELAY,
    MESSAGE_TYPE_FIFO,
    MESSAGE_TYPE_NORMAL,
    MESSAGE_TYPE_TRANSACTION,
    MESSAGE_TYPE_UNSPECIFIED,
    Compression,
    Message,
    MessageOrigin,
    MessageType,
    StoredPosition,
)
from ariane_broker.errors.public_errors import message_illegal, message_too_large
from ariane_broker.filters.tags import ALL_TAGS
from ariane_broker.rpc.translation.reply_address import (
    REPLY_PROPERTIES,
    REPLY_TO_CLIENT,
    reply_address_of,
    reply_properties,
)
from ariane_broker.rpc.translation.wire_time import milliseconds_of, set_time
from ariane_broker.topics.topic_table import TopicMessageType
from ariane_broker.transactions.stored_place import StoredPlace
from ariane_broker.transactions.transaction_records import TRANSACTION_PROPERTIES
from ariane_record import (
    IllegalProperty,
    PropertyName,
    RecordFields,
    RecordTooLarge,
    SystemFlag,
    decode_record,
)
from ariane_record.control_characters import holds_control_character
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.layout import COMPRESSION_TYPE_MASK
from ariane_record.names import (
    DEAD_LETTER_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    TRACE_TOPIC,
    TRACE_WRITER,
)
from ariane_record.priority import priority_of
from ariane_record.single.message_id import encode_offset_message_id

SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_")
)
"""Properties that the system uses: users can neither set them by name nor see them."""

_FIELD_PROPERTIES: Final = SYSTEM_PROPERTIES | REPLY_PROPERTIES
"""Properties for which plain messages have fields."""

_RESERVED_PROPERTIES: Final = _FIELD_PROPERTIES | TRANSACTION_PROPERTIES

_ORDINARY_TYPES: Final = frozenset({MESSAGE_TYPE_UNSPECIFIED, MESSAGE_TYPE_NORMAL})
_SENT_TYPES: Final = _ORDINARY_TYPES | {
    MESSAGE_TYPE_FIFO,
    MESSAGE_TYPE_DELAY,
    MESSAGE_TYPE_TRANSACTION,
}

_TIME_DIGITS_MAX: Final = 15
"""A time in milliseconds has fewer."""

_COMPRESSED: Final = int(SystemFlag.COMPRESSED)
_COMPRESSION_BITS: Final = {
    COMPRESSION_UNSPECIFIED: 0,
    COMPRESSION_LZ4: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_LZ4),
    COMPRESSION_ZSTD: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZSTD),
    COMPRESSION_ZLIB: int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB),
}
_COMPRESSIONS: Final = {
    0: COMPRESSION_ZLIB,  # RocketMQ before 5 sets no type.
    int(SystemFlag.COMPRESSION_LZ4): COMPRESSION_LZ4,
    int(SystemFlag.COMPRESSION_ZSTD): COMPRESSION_ZSTD,
    int(SystemFlag.COMPRESSION_ZLIB): COMPRESSION_ZLIB,
}


@dataclass(frozen=True, slots=True)
class EncodingDefaults:
    """Values that the broker fills in for missing fields."""

    born_timestamp_ms: int
    """For a message without a create time."""
    body_bytes_max: int
    """Largest body."""
    cluster_name: str
    """The cluster whose reply topic a requester reads."""
    trace_writer: str
    """Who sends, for the trace topic, which everybody may write to; empty if nobody is known."""


def is_delayed(message: Message) -> bool:
    """Whether a message is to be delivered later."""
    return (
        message.HasField("delivery_time") or message.HasField("delay") or message.delay_level != 0
    )


def type_of(message: Message, position: int, *, is_half: bool = False) -> TopicMessageType:
    """The type of a message that a producer sends, as a half message or as another.

    Raises:
        ServiceError: MESSAGE_ILLEGAL for a FIFO message without a group, a delayed one with a
            group or without a time, or a half message among others.
    """
    delayed, grouped = is_delayed(message), message.message_group != ""
    kind = message.message_type
    is_transaction = kind == MESSAGE_TYPE_TRANSACTION
    if is_half or delayed or kind not in _ORDINARY_TYPES:
        for is_broken, rule in (
            (is_half and not is_transaction, "it goes with half messages and is none"),
            (is_half and delayed, "a half message cannot be delayed"),
            (delayed and grouped, "a message of a group cannot be delayed"),
            (
                kind == MESSAGE_TYPE_DELAY and not delayed,
                "a delayed message needs a delivery time, a delay or a level",
            ),
            (is_transaction and not is_half, "a half message needs its producer group"),
            (kind == MESSAGE_TYPE_FIFO and not grouped, "a FIFO message needs a message group"),
            (kind not in _SENT_TYPES, "its type is not known"),
        ):
            if is_broken:
                raise message_illegal(position, rule)
    if is_half:
        return TopicMessageType.TRANSACTION
    if delayed:
        return TopicMessageType.DELAY
    return TopicMessageType.FIFO if grouped else TopicMessageType.NORMAL


def encoded_message(
    topic: TopicProperties, message: Message, position: int, defaults: EncodingDefaults
) -> tuple[bytes, EncodedProperties, int]:
    """The body of a producer's message, its properties, and when it was made, in milliseconds.

    Args:
        topic: Encodes properties for the topic that it goes to.
        message: As the producer sent it.
        position: Position of the message in the call, for errors.
        defaults: Values for missing fields.

    Raises:
        ServiceError: MESSAGE_ILLEGAL, MESSAGE_TOO_LARGE or FIELD_INVALID.
    """
    # Each field is read once: for small messages that is what sending them plainly costs.
    body = message.body
    if len(body) > defaults.body_bytes_max:
        raise message_too_large(len(body), defaults.body_bytes_max, position)
    tag = message.tag
    if tag and (
        "|" in tag or tag == ALL_TAGS or holds_control_character(tag) or tag != tag.strip()
    ):
        rule = "a tag is not '*', and holds no '|', control character or outer space"
        raise message_illegal(position, rule)
    properties = _own_properties(message, position)
    system_flag = _COMPRESSION_BITS.get(message.compression)
    if system_flag is None:
        raise message_illegal(position, "its compression is not known")
    born_timestamp_ms = defaults.born_timestamp_ms
    if message.HasField("create_time"):
        field = f"messages[{position}].create_time"
        born_timestamp_ms = milliseconds_of(message.create_time, field)
    if message.HasField("expire_time"):
        expiry_ms = milliseconds_of(message.expire_time, f"messages[{position}].expire_time")
        properties[PropertyName.EXPIRES_AT] = str(expiry_ms)
        system_flag |= int(SystemFlag.EXPIRES)
    is_reply = topic.name.endswith(REPLY_SUFFIX)
    if is_reply or message.HasField("reply_address"):
        properties |= reply_properties(
            message, topic.name, position, cluster_name=defaults.cluster_name
        )
        tag = properties[REPLY_TO_CLIENT] if is_reply else tag
    if topic.name == TRACE_TOPIC:
        properties |= _writer(properties, position, defaults.trace_writer)
    try:
        encoded = topic.encode(
            tag=tag,
            keys=tuple(message.keys),
            unique_id=message.unique_id,
            properties=properties,
            message_group=message.message_group,
            flag=message.flag,
            system_flag=system_flag,
        )
    except (IllegalProperty, RecordTooLarge) as error:
        raise message_illegal(position, str(error)) from error
    return body, encoded, born_timestamp_ms


def _own_properties(message: Message, position: int) -> dict[str, str]:
    """The properties that a producer gives a message, with its priority.

    Raises:
        ServiceError: MESSAGE_ILLEGAL.
    """
    properties: dict[str, str] = {}
    if message.properties:
        properties.update(message.properties)
    if properties and not _RESERVED_PROPERTIES.isdisjoint(properties):
        reserved = min(_RESERVED_PROPERTIES.intersection(properties))
        raise message_illegal(position, f"property {reserved!r} belongs to the system")
    if message.HasField("priority"):
        properties[PropertyName.PRIORITY] = str(message.priority)
    return properties


def _writer(properties: Mapping[str, str], position: int, user: str) -> dict[str, str]:
    """The property that says who writes a trace; empty if nobody is known.

    Raises:
        ServiceError: MESSAGE_ILLEGAL: the message says it itself.
    """
    if TRACE_WRITER in properties:
        raise message_illegal(position, f"property {TRACE_WRITER!r} belongs to the system")
    return {TRACE_WRITER: user} if user else {}


def message_of(fields: RecordFields, broker_name: str) -> Message:
    """Convert a stored message to a message of the contract."""
    message = Message()
    fill_message(fields, broker_name, message)
    return message


def fill_message(fields: RecordFields, broker_name: str, message: Message) -> None:
    """Say in an empty message of the contract what was stored.

    Field by field: that costs half of what it takes to make one and copy it into an answer.
    """
    properties = fields.properties
    message.topic, message.body = fields.topic, fields.body
    message.tag, message.message_group = fields.tag, fields.message_group
    message.keys.extend(fields.keys)
    for name, value in properties.items():
        if name not in _FIELD_PROPERTIES:
            message.properties[name] = value
    message.unique_id, message.flag = fields.unique_id, fields.flag
    message.message_type = _stored_type(fields)
    message.compression = _stored_compression(fields.system_flag)
    set_time(message.create_time, fields.born_timestamp_ms)
    fill_position(fields, broker_name, message.position)
    priority = priority_of(properties.get(PropertyName.PRIORITY, ""))
    if priority is not None:
        message.priority = priority
    expires_at = properties.get(PropertyName.EXPIRES_AT, "")
    if expires_at.isascii() and expires_at.isdigit() and len(expires_at) < _TIME_DIGITS_MAX:
        set_time(message.expire_time, int(expires_at))
    origin = origin_of(fields)
    if origin is not None:
        message.origin.CopyFrom(origin)
    address = reply_address_of(fields.topic, properties)
    if address is not None:
        message.reply_address.CopyFrom(address)


def message_of_topic(record: bytes, name: str, broker_name: str) -> Message:
    """Convert a record to a message, with the topic that a property names instead of its own."""
    fields = decode_record(record)
    topic = fields.properties.get(name, fields.topic)
    return message_of(replace(fields, topic=topic), broker_name)


def fill_position(
    fields: RecordFields | StoredPlace, broker_name: str, position: StoredPosition
) -> None:
    """Say in an empty message of the contract where and when a message was stored.

    Field by field: that costs a third of what it takes to make one and copy it into an answer.
    """
    host, port = fields.born_host
    position.broker_name = broker_name
    position.queue_id = fields.queue_id
    position.queue_offset = fields.queue_offset
    position.commit_log_offset = fields.commit_log_offset
    set_time(position.store_time, fields.store_timestamp_ms)
    position.producer_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    position.attempts = fields.attempts
    position.message_id = encode_offset_message_id(fields.store_host, fields.commit_log_offset)


def _stored_type(fields: RecordFields) -> MessageType.ValueType:
    if PropertyName.HALF_MESSAGE in fields.properties:
        return MESSAGE_TYPE_TRANSACTION
    return MESSAGE_TYPE_FIFO if fields.message_group else MESSAGE_TYPE_NORMAL


def _stored_compression(system_flag: int) -> Compression.ValueType:
    if not system_flag & _COMPRESSED:
        return COMPRESSION_UNSPECIFIED
    return _COMPRESSIONS.get(system_flag & COMPRESSION_TYPE_MASK, COMPRESSION_UNSPECIFIED)


def origin_of(fields: RecordFields) -> MessageOrigin | None:
    """The origin of a stored message; None if it was never returned.

    Only origins in retry topics and topics of dead letters are used: in other topics the producer
    may have written them.
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
        attempts=fields.attempts,
    )


def _number(text: str) -> int | None:
    """The decimal number of a property; None without one (Java's brokers do not set all)."""
    return int(text) if text.isascii() and text.isdecimal() else None
