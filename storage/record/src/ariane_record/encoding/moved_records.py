"""Records that are moved to another topic: parked until they are due, delivered, sent again.

All work is done by column, without Python code for each record. A record keeps its body, its flags
and its own properties; properties about its destination are dropped, and others are put before the
rest. Fields that the broker owns are zero, as in the block of a producer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.java_hash import key_hashes, tag_code
from ariane_record.decoding.columns import RecordColumns
from ariane_record.decoding.property_columns import decode_property_columns
from ariane_record.encoding.message_properties import index_keys
from ariane_record.encoding.record_table import RecordTable, headers_of
from ariane_record.errors import RecordTooLarge
from ariane_record.layout import (
    EMPTY_CRC_PROPERTY,
    HEADER_BYTES,
    HOST_FLAGS,
    PROPERTIES_BYTES_MAX,
    TRANSACTION_MASK,
    PropertyName,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.message import split_keys

Int64s = NDArray[np.int64]

_KEPT_FLAGS: Final = ~(HOST_FLAGS | TRANSACTION_MASK)
_KEPT_FIELDS: Final = ("body_crc", "flag", "born_timestamp", "body_length")


class MovedRecords:
    """Records on their way to other topics."""

    def __init__(self, columns: RecordColumns, *, dropped: Collection[str]) -> None:
        self.columns = columns
        """The original records."""
        self._properties = decode_property_columns(
            columns.records, columns.properties_start, columns.properties_length
        )
        self.kept = self._without({*dropped, PropertyName.CHECKSUM})
        """The encoded properties of each that are kept, without its checksum."""

    def values(self, name: str) -> list[str]:
        """A property of each record, dropped or not; empty for records without it."""
        properties = self._properties
        pairs = properties.pair_of_each_row(name)
        found = pairs >= 0
        values = np.full(len(pairs), "", object)
        values[found] = properties.texts(pairs[found])
        texts: list[str] = values.tolist()
        return texts

    def block(
        self,
        topic: str,
        rows: Int64s,
        *,
        heads: Sequence[bytes],
        half_offsets: Int64s | int = 0,
        attempts: int | None = None,
        delivery_times_ms: Int64s | None = None,
    ) -> RecordTable:
        """Some of the records as a block of a topic.

        The copies belong to no transaction, even if the records did.

        Args:
            topic: The topic of the block.
            rows: The records, in the order of the block; at least one.
            heads: Encoded properties to put before the kept ones, for each record.
            half_offsets: The value of the header field for a half message's offset.
            attempts: The attempts of all; None leaves them unchanged.
            delivery_times_ms: As ``RecordTable.delivery_times_ms``.

        Raises:
            RecordTooLarge: The topic, or the properties of a record, do not fit into a record.
        """
        columns, chosen = self.columns, rows.tolist()
        magic, counted = counted_topic(topic)
        kept = list(map(self.kept.__getitem__, chosen))
        lengths = np.fromiter(map(len, kept), np.int64, len(kept))
        lengths += np.fromiter(map(len, heads), np.int64, len(kept)) + len(EMPTY_CRC_PROPERTY)
        if int(lengths.max()) > PROPERTIES_BYTES_MAX:
            raise RecordTooLarge(f"properties of {lengths.max()} bytes")
        body_starts = columns.body_start[rows]
        body_ends = body_starts + columns.body_length[rows]
        sizes = HEADER_BYTES + (body_ends - body_starts) + len(counted) + 2 + lengths
        before = columns.headers[rows]
        headers = headers_of(
            len(rows),
            **{name: before[name] for name in _KEPT_FIELDS},
            size=sizes,
            magic=magic,
            system_flag=before["system_flag"] & _KEPT_FLAGS,
            attempts=before["attempts"] if attempts is None else attempts,
            half_offset=half_offsets,
        )
        encoded = headers.tobytes()
        header_starts = range(0, len(encoded), HEADER_BYTES)
        header_ends = range(HEADER_BYTES, len(encoded) + 1, HEADER_BYTES)
        octets = lengths.astype(">u2").tobytes()
        length_starts = range(0, len(octets), 2)
        parts = zip(
            map(encoded.__getitem__, map(slice, header_starts, header_ends)),
            map(columns.records.__getitem__, map(slice, body_starts.tolist(), body_ends.tolist())),
            repeat(counted, len(kept)),
            map(octets.__getitem__, map(slice, length_starts, range(2, len(octets) + 1, 2))),
            heads,
            kept,
            repeat(EMPTY_CRC_PROPERTY, len(kept)),
            strict=True,
        )
        records = b"".join(chain.from_iterable(parts))
        keys = list(map(self._keys.__getitem__, chosen))
        return RecordTable.of(
            topic,
            records,
            sizes=sizes.astype(np.int32),
            tag_codes=self._tag_codes[rows],
            key_counts=np.fromiter(map(len, keys), np.uint8, len(keys)),
            key_hashes=key_hashes(topic, list(chain.from_iterable(keys))),
            crc32=crc32_of(records),
            forwarded=True,
            delivery_times_ms=delivery_times_ms,
        )

    @cached_property
    def _tag_codes(self) -> NDArray[np.int32]:
        tags = self.values(PropertyName.TAGS)
        return np.fromiter(map(tag_code, tags), np.int32, len(tags))

    @cached_property
    def _keys(self) -> list[tuple[str, ...]]:
        """The keys of each as in the index: its unique id, then each key."""
        unique_ids = self.values(PropertyName.UNIQUE_ID)
        keys_of_each = map(split_keys, self.values(PropertyName.KEYS))
        return list(map(index_keys, unique_ids, keys_of_each))

    def _without(self, names: Collection[str]) -> list[bytes]:
        """The encoded properties of each record without those of these names."""
        properties = self._properties
        dropped = np.zeros(len(properties.row), np.bool_)
        for name in names:
            dropped |= properties.named(name)
        pairs = np.flatnonzero(~dropped)
        begins, ends = properties.name_start[pairs], properties.value_end[pairs] + 1
        edges = np.zeros(len(properties.text) + 1, np.int8)
        edges[begins] += 1
        edges[ends] -= 1
        inside = np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)
        text = np.frombuffer(properties.text, np.uint8)[inside].tobytes()
        lengths = np.bincount(
            properties.row[pairs], weights=ends - begins, minlength=properties.row_count
        )
        row_ends = np.cumsum(lengths.astype(np.int64))
        row_starts = row_ends - lengths.astype(np.int64)
        return list(map(text.__getitem__, map(slice, row_starts.tolist(), row_ends.tolist())))
