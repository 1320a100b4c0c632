"""A row of messages of one topic (``record_table``), encoded message by message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.checksum import range_crcs
from ariane_record.checksums.java_hash import key_hashes, tag_code
from ariane_record.control_characters import are_pairs
from ariane_record.encoding.record_table import RecordTable
from ariane_record.errors import BlockFull, IllegalProperty, RecordTooLarge
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    HOST_FLAGS,
    KEY_SEPARATOR,
    PRODUCER_PROPERTIES_BYTES_MAX,
    ByteBuffer,
    PropertyName,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import (
    EMPTY_SEQUENCE,
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
)

KEYS_MAX: Final = 255
"""The most keys of one message in the index, including its unique id."""

RECORD_CRCS_COUNT_MIN: Final = 128
"""Blocks of fewer records have no ``record_crcs``: the broker computes them as fast."""

OWN_ARGUMENTS: Final = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.UNIQUE_ID,
        PropertyName.MESSAGE_GROUP,
        PropertyName.CHECKSUM,
        PropertyName.PRODUCER_SEQUENCE,
    }
)
"""Properties that are arguments of their own, so that no column can contradict its record."""

_PROPERTIES_PART: Final = 4
"""The index of the properties among the parts of the first record."""

_OWN_OR_EMPTY: Final = OWN_ARGUMENTS | {""}
_NAME_END: Final = "\x01"
_VALUE_END: Final = "\x02"
_join_pair = _NAME_END.join
_join_pairs = _VALUE_END.join


# The header with zeros (``x``) in the fields that the broker owns:
# size, magic, body CRC, queue id, flag, both offsets, system flag, born timestamp,
# born host, store timestamp, store host, attempts, half offset, body length.
pack_unowned_header: Final = Struct(">iII 4x i 16x iq 8x 8x 8x 4x 8x i").pack


class BlockEncoder:
    """Builds blocks of one topic, message by message; not for several threads at once."""

    __slots__ = (
        "_counted_topic",
        "_fixed_bytes",
        "_key_counts",
        "_keys",
        "_magic",
        "_parts",
        "_sequenced",
        "_sizes",
        "_tags",
        "size_bytes",
        "size_bytes_max",
        "topic",
    )

    def __init__(self, topic: str, *, size_bytes_max: int, sequenced: bool = False) -> None:
        """Start an empty block.

        Args:
            topic: Name of the topic; more than 127 bytes make V2 records.
            size_bytes_max: The most bytes of a block.
            sequenced: Whether each block gets a producer sequence when it is finished.

        Raises:
            RecordTooLarge: The topic does not fit into its length field.
        """
        self.topic = topic
        self.size_bytes_max = size_bytes_max
        self.size_bytes = 0
        self._sequenced = sequenced
        self._magic, self._counted_topic = counted_topic(topic)
        self._fixed_bytes = HEADER_BYTES + len(self._counted_topic) + 2
        self._parts: list[bytes] = []
        self._sizes: list[int] = []
        self._tags: list[str] = []
        self._key_counts: list[int] = []
        self._keys: list[str] = []

    @property
    def count(self) -> int:
        """Number of records in the block so far."""
        return len(self._sizes)

    def clear(self) -> None:
        """Remove all records."""
        self.size_bytes = 0
        self._parts = []
        self._sizes = []
        self._tags = []
        self._key_counts = []
        self._keys = []

    def add(
        self,
        body: ByteBuffer,
        *,
        tag: str = "",
        keys: Sequence[str] = (),
        unique_id: str = "",
        properties: Mapping[str, str] | None = None,
        message_group: str = "",
        flag: int = 0,
        system_flag: int = 0,
        born_timestamp_ms: int,
    ) -> int:
        """Encode one message at the end of the block.

        Args:
            body: The body as it is to be stored, compressed or not.
            tag: The one coarse label; empty for none.
            keys: Keys by which the message can be found; no spaces inside.
            unique_id: The id that the producer gives.
            properties: Further properties, except the ones that are arguments here.
            message_group: The ordering key; empty for none.
            flag: Free for the application.
            system_flag: Bits of ``SystemFlag``, except those of the hosts.
            born_timestamp_ms: When the message was made, milliseconds since the epoch.

        Returns:
            Bytes of the record.

        Raises:
            BlockFull: No room; the block is unchanged.
            IllegalProperty: The format cannot hold a property, tag or key.
            RecordTooLarge: The record fits into no block, or its properties into no record.
        """
        encoded = encode_pairs(properties, keys, tag, unique_id, message_group)
        if self._sequenced and not self._sizes:
            encoded = EMPTY_SEQUENCE + encoded
        if type(body) is not bytes:
            body = bytes(memoryview(body))
        body_length = len(body)
        properties_length = len(encoded) + CRC_PROPERTY_BYTES
        key_count = len(keys) + 1 if unique_id else len(keys)
        size = self._fixed_bytes + body_length + properties_length
        size_bytes = self.size_bytes + size
        if (
            size_bytes > self.size_bytes_max
            or properties_length > PRODUCER_PROPERTIES_BYTES_MAX
            or key_count > KEYS_MAX
            or system_flag & HOST_FLAGS
        ):
            raise self._refusal(size, properties_length, key_count)
        body_crc = crc32_of(body) & CRC_MASK
        header = pack_unowned_header(
            size, self._magic, body_crc, flag, system_flag, born_timestamp_ms, body_length
        )
        counted = properties_length.to_bytes(2)
        # The code below raises nothing: a record is in the block as a whole or not at all.
        self._parts += (header, body, self._counted_topic, counted, encoded, EMPTY_CRC_PROPERTY)
        self._sizes.append(size)
        self._tags.append(tag)
        self._key_counts.append(key_count)
        if unique_id:
            self._keys.append(unique_id)
        if keys:
            self._keys += keys
        self.size_bytes = size_bytes
        return size

    def finish(self, sequence: ProducerSequence | None = None) -> RecordTable:
        """The block of everything added so far; the encoder starts the next one, empty.

        Args:
            sequence: The block's place in the stream of its producer; only for a sequenced
                encoder, which needs it.

        Raises:
            ValueError: A sequence is given without room for it, or missing although there is room.
        """
        if self._sequenced is (sequence is None):
            raise ValueError("a sequenced encoder, and no other, finishes with a sequence")
        if sequence is not None and self._sizes:
            encoded = encode_sequence(sequence, len(self._sizes), self.size_bytes)
            properties = self._parts[_PROPERTIES_PART]
            self._parts[_PROPERTIES_PART] = encoded + properties[SEQUENCE_BYTES:]
        records = b"".join(self._parts)
        count = len(self._sizes)
        sizes = np.array(self._sizes, np.int32)
        block = RecordTable.of(
            self.topic,
            records,
            sizes=sizes,
            tag_codes=np.fromiter(map(tag_code, self._tags), np.int32, count),
            key_counts=np.array(self._key_counts, np.uint8),
            key_hashes=key_hashes(self.topic, self._keys),
            crc32=crc32_of(records),
            record_crcs=record_crcs_of(records, sizes),
        )
        self.clear()
        return block

    def _refusal(self, size: int, properties_length: int, key_count: int) -> Exception:
        """The error of a record that does not fit."""
        if properties_length > PRODUCER_PROPERTIES_BYTES_MAX:
            return RecordTooLarge(
                f"properties of {properties_length} bytes;"
                f" {PRODUCER_PROPERTIES_BYTES_MAX} are allowed"
            )
        if key_count > KEYS_MAX:
            return RecordTooLarge(f"{key_count} keys; the index takes {KEYS_MAX}")
        if size > self.size_bytes_max:
            return RecordTooLarge(f"record of {size} bytes; a block takes {self.size_bytes_max}")
        room = self.size_bytes_max - self.size_bytes
        if size > room:
            return BlockFull(f"record of {size} bytes; {room} bytes are left")
        return ValueError("the host bits of the system flag are not for the producer to set")


def record_crcs_of(records: ByteBuffer, sizes: NDArray[np.int32]) -> NDArray[np.uint32] | None:
    """``RecordTable.record_crcs`` of records with room for their checksum; None for a few."""
    if len(sizes) < RECORD_CRCS_COUNT_MIN:
        return None
    ends = np.cumsum(sizes, dtype=np.int64)
    return range_crcs(memoryview(records), ends - sizes, ends - CRC_PROPERTY_BYTES)


def encode_pairs(  # noqa: C901 - five optional parts, one after the other.
    properties: Mapping[str, str] | None,
    keys: Sequence[str],
    tag: str,
    unique_id: str,
    message_group: str,
) -> bytes:
    """All properties of one message, encoded: the user's first.

    This is the largest cost of a message for its producer, so all properties are one text that is
    checked and encoded as a whole.
    """
    if properties:
        if not _OWN_OR_EMPTY.isdisjoint(properties) or "" in properties.values():
            raise _illegal_pair(properties)
        text = _join_pairs(map(_join_pair, properties.items())) + _VALUE_END
        count = len(properties)
    else:
        text = ""
        count = 0
    if keys:
        if isinstance(keys, str):
            raise TypeError("keys is a sequence of texts, not one text")
        joined = KEY_SEPARATOR.join(keys)
        if joined.count(KEY_SEPARATOR) != len(keys) - 1 or "" in keys:
            raise IllegalProperty(f"keys {keys!r}: a key is not empty and holds no space")
        text = f"{text}KEYS\x01{joined}\x02"
        count += 1
    if tag:
        # Added, not formatted: the formatted text of an Enum member may differ from its value.
        text += "TAGS\x01" + tag + _VALUE_END
        count += 1
    if unique_id:
        text = f"{text}UNIQ_KEY\x01{unique_id}\x02"
        count += 1
    if message_group:
        text += "__SHARDINGKEY\x01" + message_group + _VALUE_END
        count += 1
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise IllegalProperty(f"no Unicode text: {error}") from error
    if not are_pairs(encoded, count):
        raise IllegalProperty("a property, tag, key, id or group holds a control character")
    return encoded


def _illegal_pair(properties: Mapping[str, str]) -> IllegalProperty:
    """The error of illegal names, or else of illegal values."""
    names = OWN_ARGUMENTS.intersection(properties)
    if names:
        return IllegalProperty(f"{', '.join(sorted(names))}: not a property to set by name")
    return IllegalProperty("empty names and values are not kept")


def index_keys(unique_id: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of a stored message that are in the index."""
    every = (unique_id, *keys) if unique_id else keys
    return every[:KEYS_MAX]
