"""The packed block: many contiguous records of one topic, and their columns.

A producer encodes records in the format of the commit log, with zeros in the fields that the broker
owns, so that the broker appends the block with one copy and fills those fields by column::

    records      | record 0            | record 1      | record 2                  | ...
    sizes        [ 1160,                 260,            1304,                       ... ]
    tag_codes    [ hash(tag 0),          0,              hash(tag 2),                ... ]
    key_counts   [ 2,                    0,              1,                          ... ]
    key_hashes   [ hash(key 0a), hash(key 0b),           hash(key 2a),               ... ]
    crc32        of all of records
    record_crcs  [ crc(record 0),        crc(record 1),  crc(record 2),              ... ]

``record_crcs`` saves the broker a pass over every single record: CRC-32 is linear, so the sum of a
whole record can be computed from the sum with zeros and from the values that replace the zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.layout import CRC_PROPERTY_BYTES, ByteBuffer
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    SEQUENCE_PREFIX,
    ProducerSequence,
    encode_sequence,
    sequence_place,
)


# Never changed; not frozen, because that takes longer than all columns of a tiny block.
@dataclass(slots=True, eq=False)
class RecordBlock:
    """Records of one topic in the form of the commit log, with their columns.

    Attributes:
        topic: The topic of all records.
        records: The records, back to back.
        sizes: Bytes of each record, int32[count].
        tag_codes: Hash of each tag, 0 for none, int32[count].
        key_counts: Number of index keys of each record, uint8[count].
        key_hashes: Index hashes of all keys, record after record, int32[sum(key_counts)].
        crc32: CRC-32 of ``records``.
        record_crcs: CRC-32 of each record in ``records`` without its last 20 bytes, the checksum:
            uint32[count]. Only with zeros in the fields that the broker owns; None leaves the sums
            to the broker.
        forwarded: Whether attempts and half offsets may differ from zero: in blocks that a broker
            makes of stored messages, never in blocks of a client.
        delivery_times_ms: When each record is due, milliseconds since the epoch, int64[count]; only
            in blocks of the timer topic, which keeps it in the place of the tag.
    """

    topic: str
    records: ByteBuffer
    sizes: NDArray[np.int32]
    tag_codes: NDArray[np.int32]
    key_counts: NDArray[np.uint8]
    key_hashes: NDArray[np.int32]
    crc32: int
    record_crcs: NDArray[np.uint32] | None = None
    forwarded: bool = False
    delivery_times_ms: NDArray[np.int64] | None = None

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.sizes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return len(self.records)

    def with_sequence(self, sequence: ProducerSequence) -> RecordBlock:
        """The same block at another place of a stream; its first record has a sequence already.

        Raises:
            ValueError: The first record has none.
        """
        place = sequence_place(self.records)
        end = place + SEQUENCE_BYTES
        if bytes(self.records[place : place + len(SEQUENCE_PREFIX)]) != SEQUENCE_PREFIX:
            raise ValueError("the first record of the block has no room for a producer sequence")
        encoded = encode_sequence(sequence, self.count, self.size_bytes)
        moved = b"".join((self.records[:place], encoded, self.records[end:]))
        crcs = self.record_crcs
        if crcs is not None:
            crcs = crcs.copy()
            crcs[0] = crc32_of(memoryview(moved)[: int(self.sizes[0]) - CRC_PROPERTY_BYTES])
        return replace(self, records=moved, crc32=crc32_of(moved), record_crcs=crcs)
