"""A message that is handed to a client."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2.definition_pb2 import (
    DELAY,
    FIFO,
    IDENTITY,
    MD5,
    NORMAL,
    PRIORITY,
    TRANSACTION,
    Message,
    MessageType,
    Resource,
)
from ariane_gateway.brokers.receive_calls import Delivery
from ariane_gateway.receiving.handles import Handle
from ariane_gateway.rpc.sent_message import BORN_HOST, SYSTEM_PROPERTIES, TRACE_CONTEXT
from ariane_record.layout import Host, PropertyName
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from ariane_record.single.message import split_keys
from ariane_sdk.message import ReceivedMessage

_TIME_DIGITS_MAX: Final = 14
"""Digits of a time in milliseconds: longer ones are beyond the year 5000, and none to protobuf."""

_TYPES: Final = (
    (PropertyName.MESSAGE_GROUP, FIFO),
    (PropertyName.HALF_MESSAGE, TRANSACTION),
    (PropertyName.DELIVERY_TIME_MS, DELAY),
    (PropertyName.DELAY_LEVEL, DELAY),
    (PropertyName.PRIORITY, PRIORITY),
)
"""The type of a message by what it has; the first one that fits."""


def hand(delivery: Delivery, wanted: Resource, now_ms: int, to: Message) -> None:
    """Fill in a message that a client receives.

    Args:
        delivery: The message, as the broker handed it out.
        wanted: The topic, as the client named it.
        now_ms: When it is handed out.
        to: An empty message.

    Raises:
        BodyDamaged: Its stored body cannot be unpacked.
    """
    _fill(to, delivery.message, _topic_of(delivery, wanted))
    system = to.system_properties
    place = delivery.message.message_queue.broker_name, delivery.message.queue_offset
    system.receipt_handle = Handle(*place, delivery.receipt).encode()
    system.delivery_attempt = delivery.attempt
    _put_ms(system.invisible_duration, max(0, delivery.invisible_until_ms - now_ms))


def message_for(message: ReceivedMessage, topic: Resource) -> Message:
    """A stored message, as clients read it; it cannot be settled.

    Args:
        message: The message.
        topic: The topic that it was sent to.

    Raises:
        BodyDamaged: Its stored body cannot be unpacked.
    """
    made = Message()
    _fill(made, message, topic)
    return made


def _fill(to: Message, message: ReceivedMessage, topic: Resource) -> None:
    """Fill in a message in its place: protobuf would copy what is made apart, octet by octet."""
    # Decoded once: what a message has by name would be searched for each time.
    properties = message.properties
    property_of = properties.get
    body = bytes(message.body)
    to.topic.CopyFrom(topic)
    to.body = body
    own = {name: value for name, value in properties.items() if name not in SYSTEM_PROPERTIES}
    if own:
        to.user_properties.update(own)
    system = to.system_properties
    if keys := property_of(PropertyName.KEYS):
        system.keys.extend(split_keys(keys))
    system.message_id = property_of(PropertyName.UNIQUE_ID) or message.offset_message_id
    system.body_digest.type, system.body_digest.checksum = MD5, _md5(body)
    system.body_encoding = IDENTITY
    system.message_type = _type_of(properties)
    system.born_host = property_of(BORN_HOST) or _host_text(message.born_host)
    system.store_host = _host_text(message.store_host)
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    system.delivery_attempt = 1
    _put_ms(system.born_timestamp, message.born_timestamp_ms)
    _put_ms(system.store_timestamp, message.store_timestamp_ms)
    if tag := property_of(PropertyName.TAGS):
        system.tag = tag
    if message_group := property_of(PropertyName.MESSAGE_GROUP):
        system.message_group = message_group
    if PropertyName.PRIORITY in properties:
        system.priority = message.priority
    due_ms = property_of(PropertyName.DELIVERY_TIME_MS, "")
    if due_ms.isdecimal() and len(due_ms) <= _TIME_DIGITS_MAX:
        system.delivery_timestamp.FromMilliseconds(int(due_ms))
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    dead_topic = property_of(PropertyName.DEAD_LETTER_TOPIC, "")
    if dead_topic and message.topic.startswith(DEAD_LETTER_PREFIX):
        system.dead_letter_queue.topic = dead_topic
        system.dead_letter_queue.message_id = property_of(PropertyName.DEAD_LETTER_MESSAGE_ID, "")


def _topic_of(delivery: Delivery, wanted: Resource) -> Resource:
    """The topic that a message was sent to, also when it comes by way of the retry topic."""
    if not delivery.topic.startswith(RETRY_PREFIX):
        return wanted
    origin = delivery.message.properties.get(PropertyName.RETRY_TOPIC, "")
    return Resource(name=origin, resource_namespace=wanted.resource_namespace) if origin else wanted


def _type_of(properties: Mapping[str, str]) -> MessageType.ValueType:
    for name, kind in _TYPES:
        if name in properties:
            return kind
    return NORMAL


def _put_ms(to: Timestamp | Duration, milliseconds: int) -> None:
    """Set a time that is not negative; a fifth of what protobuf's own method costs."""
    to.seconds, rest = divmod(milliseconds, 1000)
    to.nanos = rest * 1_000_000


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _host_text(host: Host) -> str:
    name, port = host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
