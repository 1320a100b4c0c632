"""The table of records: rows of records for one queue each, over flat columns.

A producer encodes records in the format of the commit log, with zeros in the fields that the broker
owns, so that the broker appends them with one copy and fills those fields by column. The records of
a row are contiguous and of one topic. A lone message is a table of one row::

    row          | 0                                  | 1                      | 2
    topics       | orders                             | orders                 | flights
    counts       | 2                                  | 1                      | 1
    ------------------------------------------------------------------------------------------
    records      | record 0            | record 1     | record 2               | record 3
    sizes        [ 1160,                 260,           1304,                    800         ]
    tag_codes    [ hash(tag 0),          0,             hash(tag 2),             0           ]
    key_counts   [ 2,                    0,             1,                       0           ]
    key_hashes   [ hash(key 0a), hash(key 0b),          hash(key 2a)                         ]
    crc32        of all of records
    record_crcs  [ crc(record 0),        crc(record 1), crc(record 2),           ...         ]

``record_crcs`` saves the broker a pass over every single record: CRC-32 is linear, so the sum of a
whole record can be computed from the sum with zeros and from the values that replace the zeros.

A table is megabytes, and every further copy of it is as much memory that the system has to find and
clear. So its records may stay in pieces, which are joined only when a request is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.crc_algebra import shifted
from ariane_record.layout import CRC_PROPERTY_BYTES, HEADER, ByteBuffer
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    SEQUENCE_PREFIX,
    ProducerSequence,
    encode_sequence,
    sequence_place,
)

RECORD_CRCS_COUNT_MIN: Final = 128
"""Fewer records come without ``record_crcs``: the broker computes them as fast."""


# Never changed but for the joining of pieces; not frozen, because that takes longer than all
# columns of a lone message.
@dataclass(slots=True, eq=False)
class RecordTable:
    """Records in the form of the commit log, with their columns; b rows of n records in all."""

    topics: Sequence[str]
    """The topic of each row."""
    counts: Sequence[int]
    """How many records each row has, 1 or more."""
    pieces: Sequence[ByteBuffer]
    """The records, row after row: joined, they are back to back."""
    sizes: NDArray[np.int32]
    """Bytes of each record, int32[n]."""
    tag_codes: NDArray[np.int32]
    """Hash of each tag, 0 for none, int32[n]."""
    key_counts: NDArray[np.uint8]
    """Number of index keys of each record, uint8[n]."""
    key_hashes: NDArray[np.int32]
    """Index hashes of all keys, record after record, int32[sum(key_counts)]."""
    crc32: int
    """CRC-32 of all records."""
    record_crcs: NDArray[np.uint32] | None = None
    """CRC-32 of each record without its last 20 bytes, the checksum: uint32[n]. Only with zeros in
    the fields that the broker owns; None leaves the sums to the broker."""
    forwarded: bool = False
    """Whether attempts and half offsets may differ from zero: in tables that a broker makes of
    stored messages, never in those of a client."""
    delivery_times_ms: NDArray[np.int64] | None = None
    """When each record is due, milliseconds since the epoch, int64[n]; only for the timer topic,
    which keeps it in the place of the tag."""

    @classmethod
    def of(
        cls, topic: str, records: ByteBuffer, *, sizes: NDArray[np.int32], **columns: Any
    ) -> Self:
        """A table of one row; its columns are named as the attributes."""
        return cls((topic,), (len(sizes),), (records,), sizes, **columns)

    @classmethod
    def joined(cls, tables: Sequence[Self]) -> Self:
        """The rows of some tables in one, without a copy of their records.

        With the sums of records, if all tables have them.
        """
        if len(tables) == 1:
            return tables[0]
        crc = 0
        for table in tables:
            crc = shifted(crc, table.size_bytes) ^ table.crc32
        sums = [table.record_crcs for table in tables if table.record_crcs is not None]
        return cls(
            topics=[topic for table in tables for topic in table.topics],
            counts=[count for table in tables for count in table.counts],
            pieces=[piece for table in tables for piece in table.pieces],
            sizes=np.concatenate([table.sizes for table in tables]),
            tag_codes=np.concatenate([table.tag_codes for table in tables]),
            key_counts=np.concatenate([table.key_counts for table in tables]),
            key_hashes=np.concatenate([table.key_hashes for table in tables]),
            crc32=crc,
            record_crcs=np.concatenate(sums) if len(sums) == len(tables) else None,
        )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.topics)

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.sizes)

    @property
    def topic(self) -> str:
        """The topic of the only row."""
        (topic,) = self.topics
        return topic

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(map(len, self.pieces))

    @property
    def records(self) -> ByteBuffer:
        """All records in one piece."""
        if len(self.pieces) != 1:
            self.pieces = (b"".join(self.pieces),)
        return self.pieces[0]

    def rows(self) -> list[Self]:
        """A table for each row; the columns of records must be of one length and valid."""
        if len(self) == 1:
            return [self]
        view = memoryview(self.records)
        edges = [0, *accumulate(self.counts)]
        ends = np.cumsum(self.sizes, dtype=np.int64)
        keys = np.cumsum(self.key_counts, dtype=np.int64)
        places, key_places = (
            [0, *column[np.array(edges[1:]) - 1].tolist()] for column in (ends, keys)
        )
        rows = []
        for row, topic in enumerate(self.topics):
            of_row = slice(edges[row], edges[row + 1])
            records = view[places[row] : places[row + 1]]
            crcs = self.record_crcs
            rows.append(
                type(self)(
                    topics=(topic,),
                    counts=(self.counts[row],),
                    pieces=(records,),
                    sizes=self.sizes[of_row],
                    tag_codes=self.tag_codes[of_row],
                    key_counts=self.key_counts[of_row],
                    key_hashes=self.key_hashes[key_places[row] : key_places[row + 1]],
                    crc32=crc32_of(records),
                    record_crcs=None if crcs is None else crcs[of_row],
                )
            )
        return rows

    def with_sequence(self, sequence: ProducerSequence) -> Self:
        """A table of one row at another place of a stream.

        The sequence is a piece of its own, and the sums are updated by the difference::

            pieces    | ... before ... | __PSEQ# 0x01 AAAA... 0x02 | ... behind ... | ...

        Raises:
            ValueError: The first record has no sequence, and so no room for one; or its beginning
                is scattered over pieces.
        """
        start, pieces = self._split_at_sequence()
        end = start + SEQUENCE_BYTES
        encoded = encode_sequence(sequence, self.count, self.size_bytes)
        # Texts of one length: their sums differ by the bare CRC of their difference.
        change = crc32_of(encoded) ^ crc32_of(pieces[1])
        crcs = self.record_crcs
        if crcs is not None:
            crcs = crcs.copy()
            behind = int(self.sizes[0]) - CRC_PROPERTY_BYTES - end
            crcs[0] ^= np.uint32(shifted(change, behind))
        return replace(
            self,
            pieces=[pieces[0], encoded, *pieces[2:]],
            crc32=self.crc32 ^ shifted(change, self.size_bytes - end),
            record_crcs=crcs,
        )

    def _split_at_sequence(self) -> tuple[int, Sequence[ByteBuffer]]:
        """Where the sequence of the first record is, and the pieces with it as the second."""
        first = self.pieces[0] if self.pieces else b""
        start = sequence_place(first)
        pieces = self.pieces
        if start < len(first):
            view, end = memoryview(first), start + SEQUENCE_BYTES
            pieces = [view[:start], view[start:end], view[end:], *self.pieces[1:]]
        if (
            start > len(first)
            or len(pieces) < 3
            or len(pieces[1]) != SEQUENCE_BYTES
            or bytes(pieces[1][: len(SEQUENCE_PREFIX)]) != SEQUENCE_PREFIX
        ):
            raise ValueError("the first record of the table has no room for a producer sequence")
        return start, pieces


def headers_of(count: int, **columns: Any) -> NDArray[np.void]:
    """The fixed part of each record, ``HEADER[count]``: some fields, and zeros in all others."""
    headers: NDArray[np.void] = np.zeros(count, HEADER)
    for name, values in columns.items():
        headers[name] = values
    return headers


def with_keys(
    id_hashes: NDArray[np.int32], counts: NDArray[np.int64], hashes: Any
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The key columns of records with a unique id each: its hash, and then those of the keys.

    Args:
        id_hashes: Index hash of each id.
        counts: How many keys each record has besides.
        hashes: Index hashes of all these keys, record after record.
    """
    every = np.empty(len(id_hashes) + len(hashes), np.int32)
    is_key = np.ones(len(every), np.bool_)
    is_key[np.cumsum(counts + 1) - counts - 1] = False
    every[~is_key] = id_hashes
    every[is_key] = hashes
    return (counts + 1).astype(np.uint8), every
