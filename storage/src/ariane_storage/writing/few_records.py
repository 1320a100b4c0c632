"""Tables of few records, record by record: a step of numpy costs more than a record.

The accepted tables and the written bytes are the same as by column (``table_check``,
``packed_records``). Wrong or unusual tables are passed to that way too, which finds the fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import Struct
from typing import Final, Self

from ariane_record import RecordTable
from ariane_record.checksums.checksum import checksum_digits, crc32
from ariane_record.control_characters import properties_hold_control_character
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    PROPERTIES_BYTES_MAX,
    PROPERTY_VALUE_END,
    RECORD_BYTES_MIN,
)
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import says_sequence
from ariane_storage.log.records.fields import FIELD_STARTS, Int64s
from ariane_storage.log.records.tag_check import TAG_NAME, tag_code_of
from ariane_storage.queues.consume_queue_entry import encoded_entry
from ariane_storage.writing.append import HOSTS_END, HOSTS_START, OwnedFields, Places
from ariane_storage.writing.property_check import Sequences, is_text, says_later_sequence
from ariane_storage.writing.table_check import ALLOWED_FLAGS, PARKED_TOPICS, TableLimits

FEW: Final = 64
"""Up to so many records are processed one by one: 2.3 us each (measured), against a fixed cost of
180 us by column."""

# The header without the broker's fields, and without the flag, which may have any value:
# size, magic, body CRC, system flag, born timestamp, attempts, half offset, body length.
_unpack_header = Struct(">iII24xiq24xiqi").unpack_from
_pack_queue_id = Struct(">i").pack_into
_pack_offsets = Struct(">qq").pack_into
_QUEUE_ID: Final = FIELD_STARTS["queue_id"]
_OFFSETS: Final = FIELD_STARTS["queue_offset"]
_LENGTH_BYTES: Final = 2
_VALUE_END: Final = PROPERTY_VALUE_END[0]


# Never changed once made; not frozen, for that takes more than twice as long to make.
@dataclass(slots=True, eq=False)
class FewRecords:
    """A valid table of few records."""

    table: RecordTable
    """The table."""
    records: bytes
    """All its records."""
    sizes: list[int]
    """Bytes of each record."""
    codes: list[int]
    """The code of each tag."""

    @classmethod
    def of(
        cls, table: RecordTable, limits: TableLimits, sequences: Sequences = None
    ) -> Self | None:
        """The table, or None if it has many, invalid or unusual records."""
        sizes: list[int] = table.sizes.tolist()
        if table.record_crcs is not None or not 1 <= len(sizes) <= FEW:
            return None
        records = bytes(table.records)  # No copy if they are bytes already.
        codes: list[int] = table.tag_codes.tolist()
        if not _are_columns_sound(table, records, sizes, codes, limits):
            return None
        if not _are_rows_sound(table, records, sizes, codes, sequences):
            return None
        return cls(table, records, sizes, codes)

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
        return len(self.records)

    def place(self, view: memoryview, position: int, owned: OwnedFields, places: Places) -> None:
        """Write the records and their owned fields; see ``PackedRecords``."""
        records = self.records
        view[position : position + len(records)] = records
        hosts = owned.hosts()
        commit_log_offset, queue_ids, first_queue_offsets = places
        begin = position
        sizes = iter(self.sizes)
        for queue_id, first, count in zip(
            queue_ids, first_queue_offsets, self.table.counts, strict=True
        ):
            for queue_offset in range(first, first + count):
                size = next(sizes)
                end = begin + size
                _pack_queue_id(view, begin + _QUEUE_ID, queue_id)
                _pack_offsets(view, begin + _OFFSETS, queue_offset, commit_log_offset)
                view[begin + HOSTS_START : begin + HOSTS_END] = hosts
                checksum = crc32(view[begin : end - CRC_PROPERTY_BYTES]) & CRC_MASK
                view[end - (CRC_DIGITS + 1) : end - 1] = checksum_digits(checksum)
                begin = end
                commit_log_offset += size

    def offsets(self, commit_log_offset: int) -> list[int]:
        """The start of each record in the log, if that of the first is this one."""
        if len(self.sizes) == 1:
            return [commit_log_offset]
        return list(accumulate(self.sizes[:-1], initial=commit_log_offset))

    def edges(self, commit_log_offset: int) -> Sequence[int]:
        """The start of each row in the log, and the end of the last."""
        counts = self.table.counts
        if len(counts) == 1:
            return commit_log_offset, commit_log_offset + len(self.records)
        ends = list(accumulate(self.sizes, initial=commit_log_offset))
        return [ends[row] for row in accumulate(counts, initial=0)]

    def entries(self, commit_log_offset: int, tag_codes: Int64s | int | None) -> Sequence[bytes]:
        """The entries of each row in its consume queue; see ``PackedRecords``."""
        codes = self.codes
        if len(codes) == 1 and tag_codes is None:
            return (encoded_entry(commit_log_offset, self.sizes[0], codes[0]),)
        if isinstance(tag_codes, int):
            codes = [tag_codes] * len(codes)
        elif tag_codes is not None:
            codes = tag_codes.tolist()
        encoded = list(map(encoded_entry, self.offsets(commit_log_offset), self.sizes, codes))
        counts = self.table.counts
        if len(encoded) == len(counts):
            return encoded
        return list(_joined_by(counts, encoded))


def _joined_by(counts: Sequence[int], parts: Sequence[bytes]) -> Iterator[bytes]:
    begin = 0
    for count in counts:
        yield b"".join(parts[begin : begin + count])
        begin += count


def _are_columns_sound(
    table: RecordTable, records: bytes, sizes: list[int], codes: list[int], limits: TableLimits
) -> bool:
    hashes = table.key_hashes.tolist()
    counts = table.counts
    return (
        len(codes) == len(sizes) == len(table.key_counts)
        and sum(table.key_counts.tolist()) == len(hashes)
        and min(hashes, default=0) >= 0
        and min(sizes) >= RECORD_BYTES_MIN
        and max(sizes) <= limits.record_bytes_max
        and sum(sizes) == len(records) <= limits.table_bytes_max
        and min(counts) >= 1
        and sum(counts) == len(sizes)
        and (len(counts) == 1 or PARKED_TOPICS.isdisjoint(table.topics))
        and crc32(records) == table.crc32
    )


def _are_rows_sound(
    table: RecordTable, records: bytes, sizes: list[int], codes: list[int], sequences: Sequences
) -> bool:
    """Whether the records of all rows are valid, and say the sequences that they should."""
    if len(table.counts) == 1:
        return _are_records_sound(table.topics[0], records, 0, sizes, codes, table) and (
            sequences is None or says_sequence(records, sequences[0], len(sizes))
        )
    begin = place = 0
    for row, (topic, count) in enumerate(zip(table.topics, table.counts, strict=True)):
        end = begin + count
        of_row = sizes[begin:end]
        row_end = place + sum(of_row)
        if not _are_records_sound(topic, records, place, of_row, codes[begin:end], table) or (
            sequences is not None
            and not says_sequence(records[place:row_end], sequences[row], count)
        ):
            return False
        begin, place = end, row_end
    return True


def _are_records_sound(  # noqa: PLR0917 - one row of a table.
    name: str,
    records: bytes,
    begin: int,
    sizes: list[int],
    codes: list[int],
    table: RecordTable,
) -> bool:
    """Whether the records of a row are valid; none is of a size below the minimum."""
    magic, topic = counted_topic(name)
    forwarded = table.forwarded
    width = len(topic) + _LENGTH_BYTES
    between, length_between = b"", -1
    properties = []
    for size in sizes:
        end = begin + size
        header = _unpack_header(records, begin)
        own_size, own_magic, body_crc, flag, born_ms, attempts, half_offset, body_length = header
        body = begin + HEADER_BYTES
        body_end = body + body_length
        properties_start = body_end + width
        length = end - properties_start
        if (
            own_size != size
            or own_magic != magic
            or flag & ~ALLOWED_FLAGS
            or born_ms < 0
            or ((attempts or half_offset) and not forwarded)
            or body_length < 0
            or not CRC_PROPERTY_BYTES <= length <= PROPERTIES_BYTES_MAX
        ):
            return False
        if length != length_between:
            between, length_between = topic + length.to_bytes(_LENGTH_BYTES, "big"), length
        if (
            not records.startswith(between, body_end)
            or not records.startswith(CRC_PROPERTY_PREFIX, end - CRC_PROPERTY_BYTES)
            or records[end - 1] != _VALUE_END
            or crc32(records[body:body_end]) & CRC_MASK != body_crc
        ):
            return False
        properties.append(records[properties_start:end])
        begin = end
    encoded = properties[0] if len(properties) == 1 else b"".join(properties)
    # The checksum property is ASCII: no character spans two records.
    if (
        not is_text(encoded)
        or says_later_sequence(encoded)
        or (not forwarded and properties_hold_control_character(encoded))
    ):
        return False
    if TAG_NAME in encoded:
        return codes == list(map(tag_code_of, properties))
    return not any(codes)
