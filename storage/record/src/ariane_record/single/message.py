"""Encoding and decoding one record: a message with all its fields.

For many records at once, the vector forms in ``block`` and ``columns`` are faster.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ariane_record.checksums.checksum import checksum_digits, masked_crc32
from ariane_record.errors import IllegalProperty, RecordCorrupted, RecordTooLarge
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    HEADER_STRUCTS,
    HOST_FLAGS,
    KEY_SEPARATOR,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
    ByteBuffer,
    Host,
    PropertyName,
    SystemFlag,
)
from ariane_record.single.addresses import ip_text, packed_ip
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.properties import decode_properties, encode_properties

EMPTY_HOST: Final[Host] = ("0.0.0.0", 0)  # noqa: S104 - an empty host slot, nothing listens.
IPV6_BYTES: Final = 16
_SYSTEM_FLAG: Final = struct.Struct(">i")
_BORN_IPV6, _STORE_IPV6 = int(SystemFlag.BORN_HOST_IPV6), int(SystemFlag.STORE_HOST_IPV6)
# By the bits of the flag: an operation on an Enum costs more than the rest of a header.
_HEADER_OF_FLAGS: Final = {
    born * _BORN_IPV6 | store * _STORE_IPV6: layout
    for (born, store), layout in HEADER_STRUCTS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """All fields of one record.

    When the record is encoded, the two IPv6 bits of the system flag are derived from the hosts, and
    ``body_crc`` from the body. The checksum of the record is not a property of the message.
    """

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    queue_id: int = 0
    queue_offset: int = 0
    commit_log_offset: int = 0
    flag: int = 0
    system_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = EMPTY_HOST
    store_timestamp_ms: int = 0
    store_host: Host = EMPTY_HOST
    attempts: int = 0
    half_offset: int = 0
    body_crc: int = 0

    @property
    def tag(self) -> str:
        """The tag, or an empty text."""
        return self.properties.get(PropertyName.TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys by which the message can be found."""
        return split_keys(self.properties.get(PropertyName.KEYS, ""))

    @property
    def unique_id(self) -> str:
        """The id that the producer gave, or an empty text."""
        return self.properties.get(PropertyName.UNIQUE_ID, "")

    @property
    def message_group(self) -> str:
        """The ordering key, or an empty text."""
        return self.properties.get(PropertyName.MESSAGE_GROUP, "")


def split_keys(joined: str) -> tuple[str, ...]:
    """The keys in the value of the property ``KEYS``."""
    return tuple(filter(None, joined.split(KEY_SEPARATOR)))


def encode_record(fields: RecordFields, *, checksum: bool = True) -> bytes:
    """One record as bytes.

    Args:
        fields: The message. A topic of more than 127 bytes makes a V2 record.
        checksum: Whether the record ends with the checksum of itself.

    Raises:
        IllegalProperty: The format cannot hold a property.
        RecordTooLarge: Topic or properties do not fit into their length fields.
    """
    if PropertyName.CHECKSUM in fields.properties:
        raise IllegalProperty("the checksum is not for the caller to set")
    born_host, store_host = fields.born_host, fields.store_host
    magic, topic = counted_topic(fields.topic)
    properties = encode_properties(fields.properties)
    properties_length = len(properties) + (CRC_PROPERTY_BYTES if checksum else 0)
    if properties_length > PROPERTIES_BYTES_MAX:
        raise RecordTooLarge(f"properties of {properties_length} bytes")
    born_ip = packed_ip(born_host[0])
    store_ip = packed_ip(store_host[0])
    born_ipv6, store_ipv6 = len(born_ip) == IPV6_BYTES, len(store_ip) == IPV6_BYTES
    system_flag = fields.system_flag & ~HOST_FLAGS
    if born_ipv6:
        system_flag |= SystemFlag.BORN_HOST_IPV6
    if store_ipv6:
        system_flag |= SystemFlag.STORE_HOST_IPV6
    header = HEADER_STRUCTS[born_ipv6, store_ipv6]
    size = header.size + len(fields.body) + len(topic) + 2 + properties_length
    record = b"".join(
        (
            header.pack(
                size,
                magic,
                masked_crc32(fields.body),
                fields.queue_id,
                fields.flag,
                fields.queue_offset,
                fields.commit_log_offset,
                system_flag,
                fields.born_timestamp_ms,
                born_ip,
                born_host[1],
                fields.store_timestamp_ms,
                store_ip,
                store_host[1],
                fields.attempts,
                fields.half_offset,
                len(fields.body),
            ),
            fields.body,
            topic,
            properties_length.to_bytes(2, "big"),
            properties,
        )
    )
    if not checksum:
        return record
    digits = checksum_digits(masked_crc32(record))
    return b"".join((record, CRC_PROPERTY_PREFIX, digits, PROPERTY_VALUE_END))


class RecordSpans(NamedTuple):
    """The header of one record, and the places of its variable parts in the buffer."""

    header: tuple[Any, ...]
    """The values of ``layout.HEADER``, in its order; the addresses as bytes."""
    body: slice
    """The body."""
    topic: slice
    """The name of the topic, without its length field."""
    properties: slice
    """The encoded properties, without their length field."""


def find_spans(buffer: ByteBuffer, start: int, size: int) -> RecordSpans:
    """The parts of a record, of either version and with hosts of either family.

    Args:
        buffer: The buffer with the record.
        start: Its first byte.
        size: Its size from another source, all of it within the buffer.

    Raises:
        RecordCorrupted: The bytes are not a record of this size.
    """
    end = start + size
    if size < RECORD_BYTES_MIN:
        raise RecordCorrupted(f"{size} bytes are too few for a record")
    (host_flags,) = _SYSTEM_FLAG.unpack_from(buffer, start + SYSTEM_FLAG_START)
    layout = _HEADER_OF_FLAGS[host_flags & HOST_FLAGS]
    if size < layout.size + RECORD_BYTES_MIN - HEADER_BYTES:
        raise RecordCorrupted(f"{size} bytes are too few for a record with such hosts")
    header = layout.unpack_from(buffer, start)
    stored_size, magic, *_, body_length = header
    if stored_size != size:
        raise RecordCorrupted(f"its size field says {stored_size}, but it has {size} bytes")
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordCorrupted(f"unknown magic code {magic:#010x}")
    body = slice(start + layout.size, start + layout.size + body_length)
    if not body.start <= body.stop < end:
        raise RecordCorrupted(f"a body of {body_length} bytes does not fit")
    topic = _counted(buffer, body.stop, 2 if magic == MAGIC_V2 else 1)
    properties = _counted(buffer, topic.stop, 2)
    if properties.stop != end:
        raise RecordCorrupted("its lengths do not add up to its size")
    return RecordSpans(header, body, topic, properties)


def _counted(buffer: ByteBuffer, start: int, length_bytes: int) -> slice:
    """The place of the bytes after a length field; the caller checks that they are complete."""
    content = start + length_bytes
    return slice(content, content + int.from_bytes(buffer[start:content], "big"))


def decode_record(buffer: ByteBuffer, *, verify: bool = True) -> RecordFields:
    """Decode one record.

    Args:
        buffer: Exactly one record: V1 or V2, with IPv4 or IPv6 hosts.
        verify: Whether the checksums of body and record are compared as well.

    Raises:
        RecordCorrupted: The bytes are not a record, or a checksum differs.
    """
    view = memoryview(buffer).cast("B")
    spans = find_spans(view, 0, len(view))
    if verify:
        check_checksums(view, spans)
    return fields_of(view, spans)


def fields_of(buffer: ByteBuffer, spans: RecordSpans) -> RecordFields:
    """Decode all fields of a record whose parts are known.

    Raises:
        RecordCorrupted: The topic is not UTF-8.
    """
    header = spans.header
    try:
        topic = str(buffer[spans.topic], "utf-8")
    except UnicodeDecodeError:
        raise RecordCorrupted("its topic is no UTF-8") from None
    properties = decode_properties(buffer[spans.properties])
    properties.pop(PropertyName.CHECKSUM, None)
    return RecordFields(
        topic=topic,
        body=bytes(buffer[spans.body]),
        properties=properties,
        body_crc=header[2],
        queue_id=header[3],
        flag=header[4],
        queue_offset=header[5],
        commit_log_offset=header[6],
        system_flag=header[7],
        born_timestamp_ms=header[8],
        born_host=(ip_text(header[9]), header[10]),
        store_timestamp_ms=header[11],
        store_host=(ip_text(header[12]), header[13]),
        attempts=header[14],
        half_offset=header[15],
    )


def record_checksum_ok(buffer: ByteBuffer, *, required: bool = False) -> bool:
    """Whether one record matches its checksums.

    Args:
        buffer: Exactly one record.
        required: Whether a record without a checksum of itself is refused. If not, only the
            checksum of its body is compared.
    """
    view = memoryview(buffer).cast("B")
    try:
        spans = find_spans(view, 0, len(view))
        check_checksums(view, spans)
    except RecordCorrupted:
        return False
    return not required or has_checksum(view, spans)


def check_checksums(view: memoryview, spans: RecordSpans) -> None:
    """Compare a record with the checksums of its body and of itself, if it has one.

    Args:
        view: Exactly one record.
        spans: Its parts.

    Raises:
        RecordCorrupted: One differs.
    """
    if masked_crc32(view[spans.body]) != spans.header[2]:
        raise RecordCorrupted("the checksum of the body differs")
    if has_checksum(view, spans):
        covered = len(view) - CRC_PROPERTY_BYTES
        digits = checksum_digits(masked_crc32(view[:covered]))
        if bytes(view[covered:]) != CRC_PROPERTY_PREFIX + digits + PROPERTY_VALUE_END:
            raise RecordCorrupted("the checksum of the record differs")


def has_checksum(view: memoryview, spans: RecordSpans) -> bool:
    """Whether a record, of these parts, ends with the checksum of itself."""
    start = len(view) - CRC_PROPERTY_BYTES
    prefix = bytes(view[start : start + len(CRC_PROPERTY_PREFIX)])
    return start >= spans.properties.start and prefix == CRC_PROPERTY_PREFIX
