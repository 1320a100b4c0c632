"""One record at a time: a message with all its fields, to bytes and back.

Where many records lie together, the vector forms in ``block`` and ``columns`` are the fast way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from struct import Struct
from struct import error as StructError
from typing import Final

from ariane_record.checksum import checksum_digits, masked_crc32
from ariane_record.errors import IllegalProperty, RecordCorrupted, RecordTooLarge
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_STRUCTS,
    KEY_SEPARATOR,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
    SYSTEM_FLAG_START,
    TOPIC_V1_BYTES_MAX,
    TOPIC_V2_BYTES_MAX,
    ByteBuffer,
    Host,
    PropertyName,
    SystemFlag,
)
from ariane_record.properties import decode_properties, encode_properties

EMPTY_HOST: Final[Host] = ("0.0.0.0", 0)  # noqa: S104 - an empty host slot, nothing listens.
_HOST_FLAGS: Final = int(SystemFlag.BORN_HOST_IPV6 | SystemFlag.STORE_HOST_IPV6)
_SYSTEM_FLAG: Final = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """Everything that one record says.

    The two IPv6 bits of the system flag follow from the hosts when the record is encoded, and
    ``body_crc`` from the body. The checksum of the record is no property of the message.
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
        """The keys under which the message is found again."""
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
        IllegalProperty: A property that the format cannot carry.
        RecordTooLarge: Topic or properties do not fit into their length fields.
    """
    if PropertyName.CHECKSUM in fields.properties:
        raise IllegalProperty("the checksum is not for the caller to set")
    topic = fields.topic.encode()
    if len(topic) > TOPIC_V2_BYTES_MAX:
        raise RecordTooLarge(f"topic of {len(topic)} bytes")
    properties = encode_properties(fields.properties)
    properties_length = len(properties) + (CRC_PROPERTY_BYTES if checksum else 0)
    if properties_length > PROPERTIES_BYTES_MAX:
        raise RecordTooLarge(f"properties of {properties_length} bytes")
    version_2 = len(topic) > TOPIC_V1_BYTES_MAX
    born_ip = ip_address(fields.born_host[0])
    store_ip = ip_address(fields.store_host[0])
    system_flag = fields.system_flag & ~_HOST_FLAGS
    if born_ip.version == 6:
        system_flag |= SystemFlag.BORN_HOST_IPV6
    if store_ip.version == 6:
        system_flag |= SystemFlag.STORE_HOST_IPV6
    header = HEADER_STRUCTS[born_ip.version == 6, store_ip.version == 6]
    topic_length_bytes = 2 if version_2 else 1
    size = header.size + len(fields.body) + topic_length_bytes + len(topic) + 2 + properties_length
    record = b"".join(
        (
            header.pack(
                size,
                MAGIC_V2 if version_2 else MAGIC_V1,
                masked_crc32(fields.body),
                fields.queue_id,
                fields.flag,
                fields.queue_offset,
                fields.commit_log_offset,
                system_flag,
                fields.born_timestamp_ms,
                born_ip.packed,
                fields.born_host[1],
                fields.store_timestamp_ms,
                store_ip.packed,
                fields.store_host[1],
                fields.attempts,
                fields.half_offset,
                len(fields.body),
            ),
            fields.body,
            len(topic).to_bytes(topic_length_bytes, "big"),
            topic,
            properties_length.to_bytes(2, "big"),
            properties,
        )
    )
    if not checksum:
        return record
    digits = checksum_digits(masked_crc32(record))
    return b"".join((record, CRC_PROPERTY_PREFIX, digits, PROPERTY_VALUE_END))


def decode_record(buffer: ByteBuffer, *, verify: bool = True) -> RecordFields:
    """Everything that one record says.

    Args:
        buffer: Exactly one record: V1 or V2, with IPv4 or IPv6 hosts.
        verify: Whether the checksums of body and record are compared as well.

    Raises:
        RecordCorrupted: The bytes are no record, or a checksum differs.
    """
    return _decode(buffer, verify=verify)[0]


def _decode(buffer: ByteBuffer, *, verify: bool) -> tuple[RecordFields, int]:
    """The fields, and where the properties start."""
    view = memoryview(buffer).cast("B")
    if len(view) < RECORD_BYTES_MIN:
        raise RecordCorrupted(f"{len(view)} bytes are too few for a record")
    (host_flags,) = _SYSTEM_FLAG.unpack_from(view, SYSTEM_FLAG_START)
    born_ipv6 = bool(host_flags & SystemFlag.BORN_HOST_IPV6)
    store_ipv6 = bool(host_flags & SystemFlag.STORE_HOST_IPV6)
    header = HEADER_STRUCTS[born_ipv6, store_ipv6]
    try:
        (
            size,
            magic,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            commit_log_offset,
            system_flag,
            born_timestamp_ms,
            born_ip,
            born_port,
            store_timestamp_ms,
            store_ip,
            store_port,
            attempts,
            half_offset,
            body_length,
        ) = header.unpack_from(view)
    except StructError:
        raise RecordCorrupted(f"{len(view)} bytes are too few for its header") from None
    if size != len(view):
        raise RecordCorrupted(f"its size field says {size}, but it has {len(view)} bytes")
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordCorrupted(f"unknown magic code {magic:#010x}")
    body_end = header.size + body_length
    topic_start, topic_end = _counted(view, body_end, 2 if magic == MAGIC_V2 else 1)
    properties_start, properties_end = _counted(view, topic_end, 2)
    if body_length < 0 or properties_end != size:
        raise RecordCorrupted("its lengths do not add up to its size")
    body = bytes(view[header.size : body_end])
    if verify:
        if masked_crc32(body) != body_crc:
            raise RecordCorrupted("the checksum of the body differs")
        if not _checksum_matches(view, properties_start, required=False):
            raise RecordCorrupted("the checksum of the record differs")
    try:
        topic = str(view[topic_start:topic_end], "utf-8")
    except UnicodeDecodeError:
        raise RecordCorrupted("its topic is no UTF-8") from None
    properties = decode_properties(view[properties_start:properties_end])
    properties.pop(PropertyName.CHECKSUM, None)
    fields = RecordFields(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=commit_log_offset,
        flag=flag,
        system_flag=system_flag,
        born_timestamp_ms=born_timestamp_ms,
        born_host=(str(ip_address(born_ip)), born_port),
        store_timestamp_ms=store_timestamp_ms,
        store_host=(str(ip_address(store_ip)), store_port),
        attempts=attempts,
        half_offset=half_offset,
        body_crc=body_crc,
    )
    return fields, properties_start


def _counted(view: memoryview, start: int, count_bytes: int) -> tuple[int, int]:
    """Where the bytes behind a length field begin and end."""
    content = start + count_bytes
    length = int.from_bytes(view[start:content], "big")
    if start < 0 or content > len(view) or content + length > len(view):
        raise RecordCorrupted("its lengths do not add up to its size")
    return content, content + length


def record_checksum_ok(buffer: ByteBuffer, *, required: bool = False) -> bool:
    """Whether one record is what its checksums say.

    Args:
        buffer: Exactly one record.
        required: Whether a record without a checksum of itself is refused. If not, such a record
            is judged by the checksum of its body.
    """
    try:
        properties_start = _decode(buffer, verify=True)[1]
    except RecordCorrupted:
        return False
    view = memoryview(buffer).cast("B")
    return not required or _checksum_matches(view, properties_start, required=True)


def _checksum_matches(view: memoryview, properties_start: int, *, required: bool) -> bool:
    covered = len(view) - CRC_PROPERTY_BYTES
    last = bytes(view[max(covered, properties_start) :])
    if covered < properties_start or not last.startswith(CRC_PROPERTY_PREFIX):
        return not required
    digits = checksum_digits(masked_crc32(view[:covered]))
    return last == CRC_PROPERTY_PREFIX + digits + PROPERTY_VALUE_END
