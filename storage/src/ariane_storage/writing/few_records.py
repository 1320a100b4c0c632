"""Tables of few records, record by record: a step of numpy costs more than a record.

The accepted tables and the written bytes are the same as by column (``table_check``,
``packed_records``). Wrong or unusual tables are passed to that way too, which finds the fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Self

from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32
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
from ariane_record.single.producer_sequence import (
    SEQUENCE_BYTES,
    SEQUENCE_PREFIX,
    encode_sequence,
)
from ariane_storage.log.records.fields import FIELD_STARTS
from ariane_storage.log.records.tag_check import TAG_NAME, tag_code_of
from ariane_storage.queues.consume_queue_entry import encoded_entry
from ariane_storage.writing.append import HOSTS_END, HOSTS_START, Placed, Places
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
        hashes, topics, counts = table.key_hashes.tolist(), table.topics, table.counts
        if not (
            len(codes) == len(sizes) == len(table.key_counts)
            and sum(table.key_counts.tolist()) == len(hashes)
            and min(hashes, default=0) >= 0
            and min(sizes) >= RECORD_BYTES_MIN
            and max(sizes) <= limits.record_bytes_max
            and sum(sizes) == len(records) <= limits.table_bytes_max
            and min(counts) >= 1
            and sum(counts) == len(sizes)
            and (len(counts) == 1 or PARKED_TOPICS.isdisjoint(topics))
            and crc32(records) == table.crc32
        ):
            return None
        first = begin = 0
        for row, count in enumerate(counts):
            behind = first + count
            of_row = sizes[first:behind]
            end = begin + sum(of_row)
            properties = _properties_of(
                table, topics[row], records, begin, of_row, codes[first:behind]
            )
            if properties is None or not (
                sequences is None or _says_sequence(properties, sequences[row], count, end - begin)
            ):
                return None
            first, begin = behind, end
        return cls(table, records, sizes, codes)

    def place(self, view: memoryview, position: int, hosts: bytes, places: Places) -> Placed:
        """Write the records with the broker's fields; see ``PackedRecords``."""
        view[position : position + len(self.records)] = self.records
        commit_log_offset, queue_ids, firsts, other_codes = places
        codes = self.codes
        if isinstance(other_codes, int):
            codes = [other_codes] * len(codes)
        elif other_codes is not None:
            codes = other_codes.tolist()
        begin = position
        records = zip(self.sizes, codes, strict=True)
        starts, edges, entries = [], [commit_log_offset], []
        for queue_id, first, count in zip(queue_ids, firsts, self.table.counts, strict=True):
            of_row = b""
            for queue_offset in range(first, first + count):
                size, code = next(records)
                end = begin + size
                _pack_queue_id(view, begin + _QUEUE_ID, queue_id)
                _pack_offsets(view, begin + _OFFSETS, queue_offset, commit_log_offset)
                view[begin + HOSTS_START : begin + HOSTS_END] = hosts
                checksum = crc32(view[begin : end - CRC_PROPERTY_BYTES]) & CRC_MASK
                # Least significant first.
                view[end - (CRC_DIGITS + 1) : end - 1] = (b"%010d" % checksum)[::-1]
                starts.append(commit_log_offset)
                of_row += encoded_entry(commit_log_offset, size, code)
                begin = end
                commit_log_offset += size
            edges.append(commit_log_offset)
            entries.append(of_row)
        return Placed(starts, edges, entries)


def _properties_of(  # noqa: PLR0917 - one row of a table.
    table: RecordTable,
    name: str,
    records: bytes,
    begin: int,
    sizes: list[int],
    codes: list[int],
) -> bytes | None:
    """The properties of the first record of a row; None if a record is not valid.

    Args:
        table: The table.
        name: The topic of the row.
        records: All records.
        begin: The place of the first one of the row.
        sizes: Bytes of each; none is below the minimum.
        codes: The code of the tag of each.
    """
    magic, topic = counted_topic(name)
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
            or ((attempts or half_offset) and not table.forwarded)
            or body_length < 0
            or not CRC_PROPERTY_BYTES <= length <= PROPERTIES_BYTES_MAX
        ):
            return None
        if length != length_between:
            between, length_between = topic + length.to_bytes(_LENGTH_BYTES, "big"), length
        if (
            not records.startswith(between, body_end)
            or not records.startswith(CRC_PROPERTY_PREFIX, end - CRC_PROPERTY_BYTES)
            or records[end - 1] != _VALUE_END
            or crc32(records[body:body_end]) & CRC_MASK != body_crc
        ):
            return None
        properties.append(records[properties_start:end])
        begin = end
    encoded = properties[0] if len(properties) == 1 else b"".join(properties)
    # The checksum property is ASCII: no character spans two records.
    if (
        not (encoded.isascii() or is_text(encoded))
        or says_later_sequence(encoded)
        or (not table.forwarded and properties_hold_control_character(encoded))
        or codes
        != (list(map(tag_code_of, properties)) if TAG_NAME in encoded else [0] * len(codes))
    ):
        return None
    return properties[0]


def _says_sequence(
    properties: bytes, sequence: ProducerSequence | None, count: int, size_bytes: int
) -> bool:
    """Whether the properties of a first record begin with a sequence, in its usual form."""
    if sequence is None:
        return not properties.startswith(SEQUENCE_PREFIX)
    return properties[:SEQUENCE_BYTES] == encode_sequence(sequence, count, size_bytes)
