"""A block in pieces: its records are copied only when a request is built.

A block is a megabyte, and every further copy of it is one more megabyte of memory that the system
has to find and clear. Most of a block does not change after its encoding; only the producer
sequence in its first record is not known before the block is sent. So the sequence is its own
piece, which is replaced, and the sums are updated by the difference::

    pieces    | ... before ... | __PSEQ# 0x01 AAAA... 0x02 | ... behind ... | ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32 as crc32_of
from ariane_record.checksums.crc_algebra import shifted
from ariane_record.encoding.record_table import RecordTable
from ariane_record.layout import CRC_PROPERTY_BYTES, ByteBuffer
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    ProducerSequence,
    encode_sequence,
    sequence_place,
)


@dataclass(frozen=True, slots=True, eq=False)
class LooseBlock:
    """A ``RecordTable`` in pieces.

    Attributes:
        topic: As ``RecordTable``.
        pieces: The records: joined, they are the records of ``RecordTable``.
        size_bytes: Bytes of all pieces.
        sizes: As ``RecordTable``.
        tag_codes: As ``RecordTable``.
        key_counts: As ``RecordTable``.
        key_hashes: As ``RecordTable``.
        crc32: As ``RecordTable``.
        record_crcs: As ``RecordTable``.
        sequence_piece: The index of the piece with the producer sequence; None without one.
        sequence_start: The start of that piece in the block.
    """

    topic: str
    pieces: Sequence[ByteBuffer]
    size_bytes: int
    sizes: NDArray[np.int32]
    tag_codes: NDArray[np.int32]
    key_counts: NDArray[np.uint8]
    key_hashes: NDArray[np.int32]
    crc32: int
    record_crcs: NDArray[np.uint32] | None
    sequence_piece: int | None = None
    sequence_start: int = 0

    @classmethod
    def of(cls, block: RecordTable, *, sequenced: bool) -> Self:
        """A loose block of one or three pieces from a packed block.

        Args:
            block: The block.
            sequenced: Whether its first record has room for a producer sequence.
        """
        records = memoryview(block.records)
        start = sequence_place(records) if sequenced else 0
        end = start + SEQUENCE_BYTES
        return cls(
            topic=block.topic,
            pieces=(records[:start], records[start:end], records[end:])
            if sequenced
            else (records,),
            size_bytes=len(records),
            sizes=block.sizes,
            tag_codes=block.tag_codes,
            key_counts=block.key_counts,
            key_hashes=block.key_hashes,
            crc32=block.crc32,
            record_crcs=block.record_crcs,
            sequence_piece=1 if sequenced else None,
            sequence_start=start,
        )

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.sizes)

    def at(self, sequence: ProducerSequence) -> Self:
        """The block with its place in the stream of its producer.

        Raises:
            ValueError: It has no room for a producer sequence.
        """
        if self.sequence_piece is None:
            raise ValueError("the block has no room for a producer sequence")
        pieces = list(self.pieces)
        encoded = encode_sequence(sequence, self.count, self.size_bytes)
        # Texts of one length: their sums differ by the bare CRC of their difference.
        change = crc32_of(encoded) ^ crc32_of(pieces[self.sequence_piece])
        pieces[self.sequence_piece] = encoded
        end = self.sequence_start + SEQUENCE_BYTES
        crcs = self.record_crcs
        if crcs is not None:
            crcs = crcs.copy()
            behind = int(self.sizes[0]) - CRC_PROPERTY_BYTES - end
            crcs[0] ^= np.uint32(shifted(change, behind))
        crc32 = self.crc32 ^ shifted(change, self.size_bytes - end)
        return replace(self, pieces=pieces, crc32=crc32, record_crcs=crcs)

    def joined(self) -> RecordTable:
        """The same block in one piece."""
        return RecordTable.of(
            self.topic,
            b"".join(self.pieces),
            sizes=self.sizes,
            tag_codes=self.tag_codes,
            key_counts=self.key_counts,
            key_hashes=self.key_hashes,
            crc32=self.crc32,
            record_crcs=self.record_crcs,
        )
