"""Copies of records for another topic, one by one, with unchanged bytes.

::

    record     | header | body | topic     | properties ...     | checksum |
    copy                  body               properties ...
    block      | header | body | new topic | properties ...     | zeros    |  and its columns

Decoding a message and encoding it again would cost four times as much; messages that were decoded
for another reason become copies, too (``encode_block``). Fields that the broker owns
are zero, as in the block of a producer. For many records at once, ``moved_records`` does the same
by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32, masked_crc32
from ariane_record.checksums.java_hash import key_hashes, tag_code
from ariane_record.encoding.message_properties import index_keys
from ariane_record.encoding.record_table import RecordTable
from ariane_record.errors import RecordTooLarge
from ariane_record.layout import (
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    HOST_FLAGS,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    ByteBuffer,
    Host,
    PropertyName,
    pack_unowned_header,
)
from ariane_record.single.addresses import ip_text
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.message import (
    RecordFields,
    check_checksums,
    find_spans,
    split_keys,
)
from ariane_record.single.properties import decode_properties, encode_properties, property_finder

_NEVER_COPIED: Final = frozenset({PropertyName.CHECKSUM, PropertyName.PRODUCER_SEQUENCE})
"""The checksum covers the whole record, and the sequence holds only for the original."""

_NO_HASHES: Final = np.empty(0, np.int32)

_find_tag = property_finder(PropertyName.TAGS)
_find_keys = property_finder(PropertyName.KEYS)
_find_unique_id = property_finder(PropertyName.UNIQUE_ID)


class RecordCopy(NamedTuple):
    """The parts of a record that its copy keeps."""

    body: bytes
    """The body."""
    body_crc: int
    """Its checksum, without the highest bit."""
    properties: bytes
    """The encoded properties, without checksum and producer sequence."""
    flag: int
    """The application's flag."""
    system_flag: int
    """The system flag, without the bits of hosts."""
    born_timestamp_ms: int
    """When it was made."""
    born_host: Host
    """The address of its producer, as the broker saw it."""
    attempts: int
    """The number of its attempts."""
    half_offset: int
    """Commit-log offset of its half message."""


def copy_of(record: ByteBuffer, *, verify: bool = True) -> RecordCopy:
    """Read the parts of a record that its copy keeps.

    Args:
        record: Exactly one record: V1 or V2, with IPv4 or IPv6 hosts.
        verify: Whether the checksums of body and record are compared as well.

    Raises:
        RecordCorrupted: The bytes are not a record, or a checksum differs.
    """
    view = memoryview(record).cast("B")
    spans = find_spans(view, 0, len(view))
    if verify:
        check_checksums(view, spans)
    header, encoded = spans.header, bytes(view[spans.properties])
    own_end = len(encoded) - CRC_PROPERTY_BYTES
    if own_end >= 0 and encoded.startswith(CRC_PROPERTY_PREFIX, own_end):
        encoded = encoded[:own_end]
    # By position: that takes half as long.
    return RecordCopy(
        bytes(view[spans.body]),
        header[2],
        _sound(encoded, _NEVER_COPIED),
        header[4],
        header[7] & ~HOST_FLAGS,
        header[8],
        (ip_text(header[9]), header[10]),
        header[14],
        header[15],
    )


def without_properties(copy: RecordCopy, names: frozenset[str]) -> RecordCopy:
    """A copy that does not have the properties of these names."""
    properties = _sound(copy.properties, names)
    return copy if properties is copy.properties else copy._replace(properties=properties)


def _sound(properties: bytes, dropped: frozenset[str]) -> bytes:
    """Legal properties, without some; nearly always they are so already."""
    is_ended = not properties or properties.endswith(PROPERTY_VALUE_END)
    if is_ended and (properties.isascii() or _is_text(properties)):
        for name in _encoded(dropped):
            if name in properties:  # If it is in a value, this only costs more time.
                break
        else:
            return properties
    pairs = decode_properties(properties)
    return encode_properties({name: pairs[name] for name in pairs if name not in dropped})


@lru_cache(maxsize=16)
def _encoded(names: frozenset[str]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in names)


def _is_text(properties: bytes) -> bool:
    try:
        properties.decode()
    except UnicodeDecodeError:
        return False
    return True


def copied_bytes(topic: str, copy: RecordCopy) -> int:
    """The size of a copy in a block of this topic."""
    counted = counted_topic(topic)[1]
    beside = HEADER_BYTES + len(counted) + 2 + CRC_PROPERTY_BYTES
    return beside + len(copy.body) + len(copy.properties)


def encode_block(topic: str, messages: Sequence[RecordFields | RecordCopy]) -> RecordTable:
    """A table of one row of decoded messages: of retried and redriven ones.

    Hosts are left to the broker. All other fields are kept but what is never copied.

    Args:
        topic: The topic of the row, which replaces the topics of the messages.
        messages: The messages, or their parts, in this order.

    Raises:
        IllegalProperty: The format cannot hold a property.
        RecordTooLarge: Topic or properties do not fit into a record.
    """
    copies = [
        message if isinstance(message, RecordCopy) else _copy_of_fields(message)
        for message in messages
    ]
    return copied_block(topic, copies)


def _copy_of_fields(message: RecordFields) -> RecordCopy:
    properties, pairs = b"", message.properties
    if pairs:
        pairs = {name: value for name, value in pairs.items() if name not in _NEVER_COPIED}
        properties = encode_properties(pairs)
    return RecordCopy(
        body=message.body,
        body_crc=masked_crc32(message.body),
        properties=properties,
        flag=message.flag,
        system_flag=message.system_flag & ~HOST_FLAGS,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        attempts=message.attempts,
        half_offset=message.half_offset,
    )


def copied_block(topic: str, copies: Sequence[RecordCopy]) -> RecordTable:
    """A table of one row of copies; see ``copied_rows``."""
    return copied_rows([(topic, copies)])


def copied_rows(rows: Sequence[tuple[str, Sequence[RecordCopy]]]) -> RecordTable:
    """A table of copies.

    A message with more keys than the index takes can be found by the first ones.

    Args:
        rows: The topic of each row, and its records in their order, at least one.

    Raises:
        RecordTooLarge: Topic or properties do not fit into a record.
    """
    parts: list[bytes] = []
    sizes: list[int] = []
    codes: list[int] = []
    counts: list[int] = []
    hashes: list[NDArray[np.int32]] = []
    for topic, copies in rows:
        keys: list[str] = []
        magic, counted = counted_topic(topic)
        fixed_bytes = HEADER_BYTES + len(counted) + 2
        for body, body_crc, properties, flag, system_flag, born_ms, _, attempts, half in copies:
            length = len(properties) + CRC_PROPERTY_BYTES
            if length > PROPERTIES_BYTES_MAX:
                raise RecordTooLarge(f"properties of {length} bytes")
            size = fixed_bytes + len(body) + length
            header = pack_unowned_header(
                *(size, magic, body_crc, flag, system_flag, born_ms, attempts, half, len(body))
            )
            of_length = length.to_bytes(2, "big")
            parts += (header, body, counted, of_length, properties, EMPTY_CRC_PROPERTY)
            key_count, code = 0, 0
            if properties:
                found = index_keys(_find_unique_id(properties), _keys_of(properties))
                key_count, code = len(found), tag_code(_find_tag(properties))
                keys += found
            sizes.append(size)
            codes.append(code)
            counts.append(key_count)
        hashes.append(key_hashes(topic, keys) if keys else _NO_HASHES)
    records = b"".join(parts)
    return RecordTable(
        topics=[topic for topic, _ in rows],
        counts=[len(copies) for _, copies in rows],
        pieces=(records,),
        sizes=np.array(sizes, np.int32),
        tag_codes=np.array(codes, np.int32),
        key_counts=np.array(counts, np.uint8),
        key_hashes=hashes[0] if len(hashes) == 1 else np.concatenate(hashes),
        crc32=crc32(records),
        forwarded=True,
    )


def _keys_of(properties: bytes) -> tuple[str, ...]:
    joined = _find_keys(properties)
    return split_keys(joined) if joined else ()
