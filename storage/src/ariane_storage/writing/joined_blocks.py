"""Many small blocks at once: their records are joined, and checked as if they were one block.

A block of few records costs far more than its records, one by one or by column. Here a step of
numpy serves all blocks of a request.

The accepted blocks and the written bytes are the same as block by block (``block_check``,
``append``), except that only some bodies are compared with their checksums (``SPOT_CHECKS``): a
producer that lies about another body harms only that message. If any block is wrong or unusual,
the blocks are processed one by one, so that a refused block does not affect the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.checksum import crc32, uneven_crcs
from ariane_record.control_characters import properties_hold_control_character
from ariane_record.decoding.columns import gather_headers
from ariane_record.encoding.block import EMPTY_CRC_PROPERTY
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HEADER_BYTES,
    MAGIC_V1,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
)
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import SEQUENCE_BYTES, SEQUENCE_PREFIX, encode_sequences
from ariane_storage.log.records.fields import ByteBuffer, FieldColumn, Int64s
from ariane_storage.log.records.tag_check import tag_codes_of
from ariane_storage.writing.append import OwnedFields, fill_ipv4_headers, write_checksums
from ariane_storage.writing.block_check import (
    ALLOWED_FLAGS,
    BlockLimits,
    is_text,
    says_later_sequence,
    spot_checks,
)
from ariane_storage.writing.block_table import BlockTable
from ariane_storage.writing.draft_memory import DraftMemory
from ariane_storage.writing.header_bits import bits_in_any

_RAW_HEADER: Final = np.dtype((np.void, HEADER_BYTES))
_LATER_SEQUENCE: Final = PROPERTY_VALUE_END + SEQUENCE_PREFIX
_LENGTH_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class JoinedBlocks:
    """Valid blocks that are written joined and without a change of sizes, for IPv4 hosts.

    Attributes:
        table: The blocks.
        records: The joined records, in memory that is reused for later blocks.
        edges: Byte position of each record, and the end of the last.
        headers: ``layout.HEADER`` of each: a copy to fill in.
    """

    table: BlockTable
    records: memoryview
    edges: Int64s
    headers: NDArray[np.void]

    @classmethod
    def of(cls, table: BlockTable, limits: BlockLimits, drafts: DraftMemory) -> Self | None:
        """The joined blocks, or None if one is invalid or unusual."""
        sizes = table.sizes
        if not _are_columns_sound(table, limits):
            return None
        records = drafts.of(len(table.records))
        records[:] = table.records
        edges = np.zeros(len(sizes) + 1, np.int64)
        sizes.cumsum(dtype=np.int64, out=edges[1:])
        starts = edges[:-1]
        headers = gather_headers(records, starts)
        if not _are_headers_sound(headers, sizes):
            return None
        joined = cls(table, records, edges, headers)
        body_ends = starts + HEADER_BYTES + headers["body_length"].astype(np.int64)
        return joined if joined._are_records_sound(body_ends) else None

    @property
    def starts(self) -> Int64s:
        """Byte position of each record."""
        return self.edges[:-1]

    @property
    def ends(self) -> Int64s:
        """The end of each record."""
        return self.edges[1:]

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
        return len(self.records)

    def _are_records_sound(self, body_ends: Int64s) -> bool:
        """Whether bodies, topics and properties are valid, and at the right places."""
        counts = self.table.counts
        magics, topics = zip(*map(counted_topic, self.table.topics), strict=True)
        if magics.count(MAGIC_V1) != len(magics):
            return False
        widths = np.fromiter(map(len, topics), np.int64, len(topics))
        properties_starts = body_ends + (widths + _LENGTH_BYTES).repeat(counts)
        lengths = self.ends - properties_starts
        if int(lengths.min()) < CRC_PROPERTY_BYTES or int(lengths.max()) > PROPERTIES_BYTES_MAX:
            return False  # Before the places that they give are read.
        said = FieldColumn(self.records, ">u2", properties_starts - _LENGTH_BYTES, 0).get()
        return (
            bool((said == lengths).all())
            and self._are_topics_said(topics, widths, body_ends)
            and self._are_bodies_sound(body_ends)
            and self._are_properties_sound(properties_starts)
        )

    def _are_topics_said(self, topics: Sequence[bytes], widths: Int64s, places: Int64s) -> bool:
        """Whether the records of each block have its topic; there is room for it in all of them."""
        width = int(widths.max())
        texts = _text_rows(self.records, places, width)
        expected = np.array(topics, f"S{width}").view(np.uint8).reshape(-1, width)
        counts = self.table.counts
        different = texts != expected.repeat(counts, axis=0)
        if width > int(widths.min()):
            # The bytes after a topic are not compared.
            different &= (np.arange(width) < widths[:, None]).repeat(counts, axis=0)
        return not different.any()

    def _are_bodies_sound(self, body_ends: Int64s) -> bool:
        """Whether some bodies, chosen by the checksum of all, match their checksums."""
        rows = np.array(spot_checks(len(self.starts), self.table.crc))
        sums = uneven_crcs(self.records, self.starts[rows] + HEADER_BYTES, body_ends[rows])
        return bool((sums & np.uint32(CRC_MASK) == self.headers["body_crc"][rows]).all())

    def _are_properties_sound(self, starts: Int64s) -> bool:
        """Whether properties are UTF-8, and have the sequences of their blocks."""
        places = self.ends - CRC_PROPERTY_BYTES
        last = FieldColumn(self.records, f"V{CRC_PROPERTY_BYTES}", places, 0).get()
        if last.tobytes() != EMPTY_CRC_PROPERTY * len(places):
            return False
        table = self.table
        sequences = [sequence for sequence in table.sequences if sequence is not None]
        firsts = table.firsts
        is_later = np.ones(len(starts), np.bool_)
        is_later[firsts] = False
        # The last property is ASCII: no character spans two records.
        of_firsts = self._joined(starts[firsts], self.ends[firsts])
        of_others = self._joined(starts[is_later], self.ends[is_later])
        if (
            says_later_sequence(PROPERTY_VALUE_END + of_others)
            or (PROPERTY_VALUE_END + of_firsts).count(_LATER_SEQUENCE) != len(sequences)
            or not is_text(of_firsts)
            or not is_text(of_others)
            or properties_hold_control_character(of_firsts)
            or properties_hold_control_character(of_others)
            or not self._are_tags_said(starts)
        ):
            return False
        if not sequences:
            return True
        counts, sizes = table.counts, np.array(table.block_sizes)
        if len(sequences) < len(table):
            rows = np.flatnonzero([sequence is not None for sequence in table.sequences])
            firsts, counts, sizes = firsts[rows], counts[rows], sizes[rows]
        if int((self.ends[firsts] - starts[firsts]).min()) < SEQUENCE_BYTES:
            return False
        expected = encode_sequences(sequences, counts, sizes)
        said = FieldColumn(self.records, f"V{SEQUENCE_BYTES}", starts[firsts], 0).get()
        return said.tobytes() == expected

    def _are_tags_said(self, starts: Int64s) -> bool:
        """Whether the column of tag codes matches the properties, which begin at ``starts``."""
        lengths = self.ends - starts
        length = int(lengths[0])
        even = bool((lengths == length).all())
        codes = tag_codes_of(
            self._joined(starts, self.ends), length if even else lengths, len(lengths)
        )
        return bool((codes == self.table.tag_codes).all())

    def _joined(self, starts: Int64s, ends: Int64s) -> bytes:
        """Some ranges, none of them empty, joined."""
        lengths = ends - starts
        width = int(lengths.max(initial=0))
        if width and width == int(lengths.min()):
            return FieldColumn(self.records, f"V{width}", starts, 0).get().tobytes()
        edges = map(slice, starts.tolist(), ends.tolist())
        return b"".join(map(self.records.__getitem__, edges))

    def fill_in(self, owned: OwnedFields, queue_offsets: Int64s) -> None:
        """Fill in the broker's fields: in the headers, and the checksums.

        Args:
            owned: The fields to fill in, except those of the queue.
            queue_offsets: Queue offset of each record.
        """
        headers, starts, ends = self.headers, self.starts, self.ends
        offsets = starts + owned.first_commit_log_offset
        fill_ipv4_headers(headers, owned, queue_offsets, offsets)
        headers["queue_id"] = np.array(self.table.queue_ids).repeat(self.table.counts)
        FieldColumn(self.records, _RAW_HEADER, starts, 0).set(headers.view(_RAW_HEADER))
        sums = uneven_crcs(self.records, starts, ends - CRC_PROPERTY_BYTES)
        write_checksums(self.records, ends, 0, sums)


def _are_columns_sound(table: BlockTable, limits: BlockLimits) -> bool:
    """Whether the columns of each block fit its records, and the blocks are not too large."""
    sizes, hashes, firsts = table.sizes, table.key_hashes, table.firsts
    # In these topics the column of tags has other values.
    if DELAY_TOPIC in table.topics or TIMER_TOPIC in table.topics:
        return False
    return (
        int(sizes.min()) >= RECORD_BYTES_MIN
        and int(sizes.max()) <= limits.record_bytes_max
        and table.are_sizes_whole
        and len(table.records) <= limits.block_bytes_max
        and bool(
            (
                np.add.reduceat(table.key_counts, firsts, dtype=np.int64) == table.key_hash_counts
            ).all()
        )
        and (not len(hashes) or int(hashes.min()) >= 0)
        and crc32(table.records) == table.crc
    )


def _are_headers_sound(headers: NDArray[np.void], sizes: NDArray[np.int32]) -> bool:
    in_any = bits_in_any(headers)
    return (
        not in_any["system_flag"] & ~ALLOWED_FLAGS
        and in_any["born_timestamp"] >= 0
        and in_any["body_length"] >= 0
        and not in_any["attempts"]
        and not in_any["half_offset"]
        and bool((headers["magic"] == MAGIC_V1).all())
        and bool((headers["size"] == sizes).all())
    )


def _text_rows(records: ByteBuffer, places: Int64s, width: int) -> NDArray[np.uint8]:
    """``width`` bytes from each of some places on, ascending: uint8[places, width].

    Bytes after the end are zeros.
    """
    if int(places[-1]) + width > len(records):
        records = bytes(records) + bytes(width)
    texts = FieldColumn(records, f"V{width}", places, 0).get()
    return texts.view(np.uint8).reshape(-1, width)
