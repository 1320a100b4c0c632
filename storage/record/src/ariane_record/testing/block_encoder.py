"""Encodes the messages of one topic as records, one by one: what the encoders are compared with.

Tests and benches make their records with it, too. No program uses it: producers and the broker
encode rows (``encoding.row_encoder``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.checksum import range_crcs
from ariane_record.checksums.java_hash import key_hashes, tag_code
from ariane_record.encoding.message_properties import KEYS_MAX, encode_pairs
from ariane_record.encoding.record_table import RECORD_CRCS_COUNT_MIN, RecordTable
from ariane_record.errors import RecordError, RecordTooLarge
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    HOST_FLAGS,
    PRODUCER_PROPERTIES_BYTES_MAX,
    ByteBuffer,
    pack_unowned_header,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import (
    EMPTY_SEQUENCE,
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
)

_PROPERTIES_PART: Final = 4
"""The index of the properties among the parts of the first record."""


class BlockFull(RecordError):
    """The record does not fit into the rest of the block."""


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
            *(size, self._magic, body_crc, flag, system_flag, born_timestamp_ms, 0, 0, body_length)
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
