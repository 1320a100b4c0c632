"""Reply addresses: from the contract's message to the properties of a record, and back.

A request is an ordinary message with these additional properties, which are RocketMQ's::

    CORRELATION_ID     the request that a reply belongs to
    REPLY_TO_CLIENT    the client that waits for it
    TTL                how long it waits, in milliseconds
    CLUSTER            the cluster whose reply topic the requester reads; not in a reply

A reply goes to the topic ``<cluster>_REPLY_TOPIC`` with the same properties and ``MSG_TYPE=reply``.
Its tag is the id of the client that waits, so that each requester reads its own replies only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.duration_pb2 import Duration

from ariane.common.v1.message_pb2 import Message, ReplyAddress
from ariane_broker.errors.public_errors import message_illegal
from ariane_record.control_characters import holds_control_character
from ariane_record.names import REPLY_SUFFIX

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL_MS: Final = "TTL"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"

REPLY_PROPERTIES: Final = frozenset(
    {CORRELATION_ID, REPLY_TO_CLIENT, TTL_MS, CLUSTER, MESSAGE_TYPE}
)

TEXT_LENGTH_MAX: Final = 255
_TTL_MS_MAX: Final = (1 << 63) - 1


def reply_properties(
    message: Message, topic: str, position: int, *, cluster_name: str
) -> dict[str, str]:
    """The record's properties for a request or a reply; empty for other messages.

    Args:
        message: As the producer sent it.
        topic: The topic that it goes to.
        position: Position of the message in the call, for errors.
        cluster_name: The cluster of this broker.

    Raises:
        ServiceError: MESSAGE_ILLEGAL for an invalid address.
    """
    is_reply = topic.endswith(REPLY_SUFFIX)
    if not message.HasField("reply_address"):
        if is_reply:
            raise message_illegal(position, "a reply repeats the reply_address of its request")
        return {}
    address = message.reply_address
    for name, text in (
        ("correlation_id", address.correlation_id),
        ("client_id", address.client_id),
    ):
        if not 1 <= len(text) <= TEXT_LENGTH_MAX or holds_control_character(text):
            rule = f"reply_address.{name} has 1 to {TEXT_LENGTH_MAX} characters, none of control"
            raise message_illegal(position, rule)
    client_id = address.client_id
    if "|" in client_id or client_id != client_id.strip():
        rule = "reply_address.client_id holds no '|' and no outer space: it becomes a tag"
        raise message_illegal(position, rule)
    ttl_ms = address.time_to_live.ToNanoseconds() // 1_000_000
    if not 0 <= ttl_ms <= _TTL_MS_MAX:
        raise message_illegal(position, "reply_address.time_to_live must not be negative")
    properties = {
        CORRELATION_ID: address.correlation_id,
        REPLY_TO_CLIENT: client_id,
        TTL_MS: str(ttl_ms),
    }
    if is_reply:
        if message.tag not in {"", client_id}:
            rule = "a reply has no tag of its own: the broker makes it the client_id of its address"
            raise message_illegal(position, rule)
        return properties | {MESSAGE_TYPE: "reply"}
    if address.cluster_name not in {"", cluster_name}:
        raise message_illegal(position, f"reply_address.cluster_name is not {cluster_name!r}")
    return properties | {CLUSTER: cluster_name}


def reply_address_of(topic: str, properties: Mapping[str, str]) -> ReplyAddress | None:
    """The address of a stored request or reply; None for other messages."""
    correlation_id = properties.get(CORRELATION_ID)
    client_id = properties.get(REPLY_TO_CLIENT)
    if not correlation_id or not client_id:
        return None
    reply_topic = topic
    cluster_name = properties.get(CLUSTER, "")
    if cluster_name:
        reply_topic = cluster_name + REPLY_SUFFIX
    elif topic.endswith(REPLY_SUFFIX):
        cluster_name = topic.removesuffix(REPLY_SUFFIX)
    else:
        return None
    return ReplyAddress(
        correlation_id=correlation_id,
        client_id=client_id,
        cluster_name=cluster_name,
        time_to_live=_duration(properties.get(TTL_MS, "")),
        reply_topic=reply_topic,
    )


def _duration(ttl_ms: str) -> Duration | None:
    """The time to live; None if the record, perhaps of a Java client, has none."""
    duration = Duration()
    try:
        duration.FromMilliseconds(int(ttl_ms))
    except ValueError:
        return None
    return duration
