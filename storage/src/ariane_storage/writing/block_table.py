"""Joined blocks for many queues, with columns over all of them.

::

    block         0               1                   2
    topics        orders          orders              flights
    queue_ids     0               3                   1
    counts        2               3                   1
    sizes         1160    260     1304  800  1160     900
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ariane_record import ProducerSequence
from ariane_storage.log.records.fields import ByteBuffer, Int64s


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Blocks for queues, in the order in which they are to be appended.

    Attributes:
        topics: Topic of each block.
        queue_ids: Queue of each.
        records: The records, block after block, back to back.
        crc: CRC-32 of them.
        sequences: Each block's place in the stream of its producer, or None.
        counts: Number of records of each, 1 or more: int64[blocks].
        key_hash_counts: Number of key hashes of each: int64[blocks].
        sizes: Bytes of each record, block after block: int32[records].
        tag_codes: Hash of the tag of each: int32[records].
        key_counts: Index keys of each: uint8[records].
        key_hashes: Index hashes of all keys: int32[sum(key_hash_counts)].
        record_crcs: As in ``RecordBlock``: uint32[records]; compared where rows are cut out.
    """

    topics: Sequence[str]
    queue_ids: Sequence[int]
    records: ByteBuffer
    crc: int
    sequences: Sequence[ProducerSequence | None]
    counts: Int64s
    key_hash_counts: Int64s
    sizes: NDArray[np.int32]
    tag_codes: NDArray[np.int32]
    key_counts: NDArray[np.uint8]
    key_hashes: NDArray[np.int32]
    record_crcs: NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.topics)

    @cached_property
    def edges(self) -> Int64s:
        """Row of the first record of each block, and the number of all: int64[blocks + 1]."""
        edges = np.zeros(len(self.counts) + 1, np.int64)
        self.counts.cumsum(out=edges[1:])
        return edges

    @property
    def firsts(self) -> Int64s:
        """Row of the first record of each block."""
        return self.edges[:-1]

    @cached_property
    def block_sizes(self) -> list[int]:
        """Bytes of the records of each block, by their column."""
        sizes: list[int] = np.add.reduceat(self.sizes, self.firsts, dtype=np.int64).tolist()
        return sizes

    @property
    def are_sizes_whole(self) -> bool:
        """Whether the records have the length of the column of sizes."""
        return len(self.records) == sum(self.block_sizes)

    def records_of(self, blocks: Iterable[int]) -> bytes:
        """The records of some blocks, joined; their sizes must be valid."""
        edges = np.cumsum([0, *self.block_sizes]).tolist()
        return b"".join([self.records[edges[block] : edges[block + 1]] for block in blocks])
