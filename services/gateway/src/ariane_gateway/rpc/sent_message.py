"""A message that a client sends: checked, and as the cluster takes it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Final

from apache.rocketmq.v2.definition_pb2 import (
    DELAY,
    FIFO,
    GZIP,
    LITE,
    MESSAGE_TYPE_UNSPECIFIED,
    Code,
    Digest,
    DigestType,
    Message,
    SystemProperties,
)
from ariane_gateway.rpc.caller import topic_of
from ariane_gateway.rpc.statuses import Illegal
from ariane_record.control_characters import holds_control_character
from ariane_record.encoding.message_properties import KEYS_MAX
from ariane_record.layout import PropertyName
from ariane_sdk import RESERVED_PROPERTIES
from ariane_sdk.message import RelayedMessage

PROPERTIES_MAX: Final = 128
PROPERTY_BYTES_MAX: Final = 16 << 10
GROUP_LENGTH_MAX: Final = 64
MESSAGE_ID_LENGTH_MAX: Final = 255

TRACE_CONTEXT: Final = "TRACE_CONTEXT"
"""Property with the trace context, as RocketMQ's proxy stores it."""

_ANY_WINDOW: Final = zlib.MAX_WBITS | 32
"""What zlib reads with: its own format, which the C++ client sends, and that of gzip."""


_TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, in milliseconds since 1970."""

_MAY_WAIT: Final = frozenset({DELAY, MESSAGE_TYPE_UNSPECIFIED})
"""Types of messages that may have a delivery time."""

BORN_HOST: Final = "__BORNHOST"
"""Property with the client's address, as RocketMQ's proxy stores it."""

_OF_ROCKETMQ: Final = frozenset(
    {
        "1ST_POP_TIME",
        "ARRIVE_TIME",
        "BORN_TIMESTAMP",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "CORRECTION_FLAG",
        "DUP_INFO",
        "INNER_MULTI_QUEUE_OFFSET",
        "MQ2_FLAG",
        "ORIGIN_GROUP",
        "POP_CK",
        "POP_CK_OFFSET",
        "PUSH_REPLY_TIME",
        "TIMER_DELAY_LEVEL",
        "TIMER_ENQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "__LITE_TOPIC",
        BORN_HOST,
        TRACE_CONTEXT,
    }
)
"""Properties that RocketMQ's proxy and brokers write beside those that we know."""

SYSTEM_PROPERTIES: Final = (
    frozenset(value for name, value in vars(PropertyName).items() if not name.startswith("_"))
    | RESERVED_PROPERTIES
    | _OF_ROCKETMQ
)
"""Properties that no client sets by name, and that none is handed as its own."""


_NO_TAG: Final = frozenset({"", "*"})
"""What clients send where an application has set none, or means all: no subscription names it."""


def relayed_message(message: Message, *, body_bytes_max: int, now_ms: int) -> RelayedMessage:
    """The message of a client as the cluster takes it.

    Args:
        message: As the client sent it.
        body_bytes_max: Largest body, unpacked.
        now_ms: When it came, if it does not say when it was made.

    Raises:
        Illegal: It breaks a rule; the code says which.
    """
    system = message.system_properties
    if not 0 < len(system.message_id) <= MESSAGE_ID_LENGTH_MAX or _is_odd(system.message_id):
        raise Illegal(
            Code.ILLEGAL_MESSAGE_ID, "the message id is missing, too long or not printable"
        )
    _check_type(system)
    properties = _checked_properties(message.user_properties)
    if system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context
    if system.HasField("priority"):
        # Of a message of our own clients, 0 is none.
        properties[PropertyName.PRIORITY] = str(system.priority)
    deliver_at = None
    if system.HasField("delivery_timestamp"):
        try:
            deliver_at = system.delivery_timestamp.ToDatetime(UTC)
        except ValueError:
            raise Illegal(Code.ILLEGAL_DELIVERY_TIME, "the delivery time is none") from None
    return RelayedMessage(
        topic_of(message.topic),
        _checked_body(message, body_bytes_max),
        tag=_checked_tag(system),
        keys=_checked_keys(system),
        message_group=system.message_group,
        properties=properties,
        deliver_at=deliver_at,
        unique_id=system.message_id,
        born_timestamp_ms=_born_ms(system, now_ms),
    )


def _check_type(system: SystemProperties) -> None:
    """Refuse a message whose type and fields do not fit, and types that are not served."""
    kind = system.message_type
    if kind == LITE or system.lite_topic:
        raise Illegal(Code.NOT_IMPLEMENTED, "lite messages are not supported by this gateway")
    if kind == FIFO and not system.message_group:
        raise Illegal(Code.ILLEGAL_MESSAGE_GROUP, "a FIFO message needs a message group")
    if system.message_group and (
        len(system.message_group) > GROUP_LENGTH_MAX
        or holds_control_character(system.message_group)
        or not system.message_group.strip()
    ):
        raise Illegal(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"a message group has at most {GROUP_LENGTH_MAX} characters, none of control, and is "
            "not blank",
        )
    if kind == DELAY and not system.HasField("delivery_timestamp"):
        raise Illegal(Code.ILLEGAL_DELIVERY_TIME, "a delayed message needs a delivery time")
    if system.message_group and system.HasField("delivery_timestamp"):
        raise Illegal(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "a message of a message group stays in order: it has no delivery time",
        )
    if kind not in _MAY_WAIT and system.HasField("delivery_timestamp"):
        raise Illegal(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "only a delayed message has a delivery time"
        )


def _checked_properties(given: Mapping[str, str]) -> dict[str, str]:
    if not given:  # Most have none, and protobuf takes long to say so again.
        return {}
    if len(given) > PROPERTIES_MAX:
        raise Illegal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(given)} properties; {PROPERTIES_MAX} are most"
        )
    size = 0
    for name, value in given.items():
        size += len(name) + len(value)
        if _is_odd(name) or _is_odd(value) or name in SYSTEM_PROPERTIES:
            raise Illegal(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name!r:.100}: empty, with control characters, or of the system",
            )
    if size > PROPERTY_BYTES_MAX:
        raise Illegal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{size} characters of properties; {PROPERTY_BYTES_MAX} are most",
        )
    return dict(given)


def _checked_tag(system: SystemProperties) -> str:
    tag = system.tag
    if tag in _NO_TAG:
        return ""
    if tag != tag.strip() or "|" in tag or holds_control_character(tag):
        raise Illegal(
            Code.ILLEGAL_MESSAGE_TAG,
            f"tag {tag!r:.100}: not blank, without |, control character or outer space",
        )
    return tag


def _checked_keys(system: SystemProperties) -> tuple[str, ...]:
    keys = tuple(filter(None, system.keys))
    if not keys:
        return ()
    if any(not key.strip() or holds_control_character(key) for key in keys):
        raise Illegal(
            Code.ILLEGAL_MESSAGE_KEY, "a key is not blank, and holds no control character"
        )
    # A key with spaces is several keys: they are stored so.
    words = tuple(word for key in keys for word in key.split(" ") if word)
    if len(words) >= KEYS_MAX:  # The message's id is one of them.
        raise Illegal(Code.ILLEGAL_MESSAGE_KEY, f"{len(words)} keys; {KEYS_MAX - 1} are most")
    return words


def _checked_body(message: Message, bytes_max: int) -> bytes:
    body = message.body
    if not body:
        raise Illegal(Code.MESSAGE_BODY_EMPTY, "the body is empty")
    system = message.system_properties
    if system.HasField("body_digest"):
        _check_digest(body, system.body_digest)
    if system.body_encoding == GZIP:
        body = _unpacked(body, bytes_max)
    if len(body) > bytes_max:
        raise Illegal(
            Code.MESSAGE_BODY_TOO_LARGE, f"a body of {len(body)} bytes; {bytes_max} are allowed"
        )
    return body


def _unpacked(body: bytes, bytes_max: int) -> bytes:
    """A packed body, unpacked: other clients of the cluster know other packings."""
    unpacking = zlib.decompressobj(_ANY_WINDOW)
    try:
        unpacked = unpacking.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise Illegal(Code.MESSAGE_CORRUPTED, f"the body cannot be unpacked: {error}") from None
    if not unpacking.eof and len(unpacked) <= bytes_max:
        raise Illegal(Code.MESSAGE_CORRUPTED, "the packed body is cut off")
    return unpacked


_CHECKSUMS: Final[Mapping[int, Callable[[bytes], str]]] = {
    DigestType.CRC32: lambda body: f"{zlib.crc32(body):x}",
    DigestType.MD5: lambda body: hashlib.md5(body, usedforsecurity=False).hexdigest(),
    DigestType.SHA1: lambda body: hashlib.sha1(body, usedforsecurity=False).hexdigest(),
}


def _check_digest(body: bytes, digest: Digest) -> None:
    """Compare the digest of a body; clients write hex in either case, with leading zeros or not."""
    checksum = _CHECKSUMS.get(digest.type)
    if checksum is None or not digest.checksum:
        return
    if checksum(body).lstrip("0") != digest.checksum.lower().lstrip("0"):
        raise Illegal(Code.MESSAGE_CORRUPTED, "the body does not have the digest that came with it")


def _born_ms(system: SystemProperties, now_ms: int) -> int:
    if not system.HasField("born_timestamp"):
        return now_ms
    born = system.born_timestamp
    born_ms: int = born.seconds * 1000 + born.nanos // 1_000_000
    return born_ms if 0 < born_ms <= _TIME_MS_MAX else now_ms


def _is_odd(text: str) -> bool:
    """Whether a text is empty, or cannot be stored among properties."""
    return not text or holds_control_character(text)
