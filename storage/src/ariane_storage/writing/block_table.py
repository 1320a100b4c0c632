"""Blocks for many queues side by side: what each of them says, as columns over all of them.

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
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ariane_record import ProducerSequence
from ariane_storage.log.fields import ByteBuffer, Int64s

_INT32: Final = np.dtype("<i4")


class PackedColumns(NamedTuple):
    """Blocks side by side as producers pack them: see ``RecordBlock``, numbers little-endian.

    Attributes:
        topics: The topic of the records of each block.
        queue_ids: The queue that each goes to.
        records: The records of each, back to back.
        sizes: Bytes of each record, int32.
        tag_codes: Hash of each tag, int32.
        key_counts: Number of index keys of each record, uint8.
        key_hashes: Index hashes of all keys, int32.
        crcs: CRC-32 of ``records``.
        sequences: Where each stands in the stream of its producer; None for nowhere.
    """

    topics: Sequence[str]
    queue_ids: Sequence[int]
    records: Sequence[bytes]
    sizes: Sequence[bytes]
    tag_codes: Sequence[bytes]
    key_counts: Sequence[bytes]
    key_hashes: Sequence[bytes]
    crcs: Sequence[int]
    sequences: Sequence[ProducerSequence | None]


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Blocks for queues, in the order in which they are to be appended.

    Attributes:
        topics: Topic of each block.
        queue_ids: Queue of each.
        pieces: The records, block after block: a piece for each block, or one for all.
        crcs: CRC-32 of each piece.
        sequences: Where each stands in the stream of its producer; None for nowhere.
        counts: Number of records of each, 1 or more: int64[blocks].
        key_hash_counts: Number of key hashes of each: int64[blocks].
        sizes: Bytes of each record, block after block: int32[records].
        tag_codes: Hash of the tag of each: int32[records].
        key_counts: Index keys of each: uint8[records].
        key_hashes: Index hashes of all keys: int32[sum(key_hash_counts)].
    """

    topics: Sequence[str]
    queue_ids: Sequence[int]
    pieces: Sequence[ByteBuffer]
    crcs: Sequence[int]
    sequences: Sequence[ProducerSequence | None]
    counts: Int64s
    key_hash_counts: Int64s
    sizes: NDArray[np.int32]
    tag_codes: NDArray[np.int32]
    key_counts: NDArray[np.uint8]
    key_hashes: NDArray[np.int32]

    @classmethod
    def of(cls, blocks: PackedColumns) -> Self | None:
        """Some blocks, one at least; None when the columns of one do not go together."""
        topics, queue_ids, records, sizes, tags, counts, hashes, crcs, sequences = blocks
        record_counts = list(map(len, counts))
        widths = [_INT32.itemsize * count for count in record_counts]
        hash_widths = np.fromiter(map(len, hashes), np.int64, len(topics))
        if (
            not all(record_counts)
            or list(map(len, sizes)) != widths
            or list(map(len, tags)) != widths
            or (hash_widths % _INT32.itemsize).any()
        ):
            return None
        return cls(
            topics=topics,
            queue_ids=queue_ids,
            pieces=records,
            crcs=crcs,
            sequences=sequences,
            counts=np.array(record_counts, np.int64),
            key_hash_counts=hash_widths // _INT32.itemsize,
            sizes=np.frombuffer(b"".join(sizes), _INT32),
            tag_codes=np.frombuffer(b"".join(tags), _INT32),
            key_counts=np.frombuffer(b"".join(counts), np.uint8),
            key_hashes=np.frombuffer(b"".join(hashes), _INT32),
        )

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

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of all pieces."""
        return sum(map(len, self.pieces))

    @property
    def are_pieces_whole(self) -> bool:
        """Whether the pieces are as long as the column of sizes says."""
        lengths = list(map(len, self.pieces))
        if len(lengths) == len(self):
            return lengths == self.block_sizes
        return lengths == [sum(self.block_sizes)]

    def records_of(self, blocks: Iterable[int]) -> bytes:
        """The records of some blocks, back to back; of sound pieces."""
        pieces = self.pieces
        if len(pieces) < len(self):
            edges = pairwise([0, *np.cumsum(self.block_sizes).tolist()])
            pieces = [pieces[0][begin:end] for begin, end in edges]
        return b"".join(map(pieces.__getitem__, blocks))
