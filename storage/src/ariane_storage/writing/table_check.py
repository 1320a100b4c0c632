"""Checks whether a table of records is valid, before a byte of it is written.

The table is from the network, and nothing in it is trusted: every length is checked before its use,
and every column is compared with the records.

Each check is one of all records at once; only where it fails, the record is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable, SystemFlag
from ariane_record.checksums.checksum import crc32, range_crcs
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.decoding.columns import gather_headers
from ariane_record.layout import (
    CRC_MASK,
    HEADER,
    HEADER_BYTES,
    PROPERTIES_BYTES_MAX,
    RECORD_BYTES_MIN,
)
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_record.single.counted_topic import counted_topic
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import ByteBuffer, FieldColumn, Int64s
from ariane_storage.writing.packed_records import PackedRecords
from ariane_storage.writing.property_check import Sequences, check_properties, require
from ariane_storage.writing.record_crcs import check_record_crcs, trusted_sums

ALLOWED_FLAGS: Final = int(
    SystemFlag.COMPRESSED
    | SystemFlag.MULTI_TAGS
    | SystemFlag.TRANSACTION_COMMIT
    | SystemFlag.COMPRESSION_LZ4
    | SystemFlag.COMPRESSION_ZSTD
    | SystemFlag.EXPIRES
)
"""Flags that a record in a table may have. Hosts have room for IPv4 here, and half or rolled-back
messages are ordinary records of their own topics."""

PARKED_TOPICS: Final = frozenset({DELAY_TOPIC, TIMER_TOPIC})
"""Topics whose queues have times in the place of the codes of tags; tables of them have one row."""

_LENGTH_BYTES: Final = 2
_LENGTHS_WRONG: Final = "its lengths do not add up to its size"
_TOPIC_DIFFERS: Final = "its topic is not that of the block"
_BODY_DIFFERS: Final = "the checksum of the body differs"
SPOT_CHECKS: Final = 4
"""About how many bodies of a table are compared with their checksums, if it has the sums of its
records or several rows: there, comparing all bodies would cost most. A producer that computes
checksums wrongly is found at once. One that cheats damages only messages of its own."""

_OWNED_FIELDS: Final = (
    *("queue_id", "queue_offset", "commit_log_offset", "born_ip", "born_port"),
    *("store_timestamp", "store_ip", "store_port"),
)


@dataclass(frozen=True, slots=True)
class TableLimits:
    """The limits of a store for tables."""

    record_bytes_max: int
    """Largest record."""
    table_bytes_max: int
    """Largest table, which must fit into a segment."""


def check_table(
    table: RecordTable,
    limits: TableLimits,
    *,
    sequences: Sequences = None,
    folder: CrcFolder | None = None,
) -> PackedRecords:
    """Check a table; return its records, ready to be written for hosts with IPv4.

    Args:
        table: Records and columns as a producer sent them.
        limits: The limits of the store.
        sequences: What the first record of each row must say; None leaves that to the caller.
        folder: Adds up the sums of the records; kept between checks.

    Raises:
        BlockRejected: The table is not valid; the error names the fault and the record. A row of a
            table of several may be valid by itself.
    """
    records = table.records
    starts, ends, stride = _edges(table, limits)
    if crc32(records) != table.crc32:
        raise BlockRejected("its checksum differs: damaged on the way")
    magics, topics = zip(*map(counted_topic, table.topics), strict=True)
    headers = _headers(records, starts, stride)
    _check_headers(table, headers, magics)
    lengths = _check_lengths(table, starts, ends, stride, headers["body_length"], topics)
    check_properties(table, ends, stride, lengths, sequences=sequences)
    sums = trusted_sums(table)
    if sums is not None:
        check_record_crcs(table, sums, starts, ends, stride, folder or CrcFolder())
    are_some = sums is not None or len(table) > 1
    chosen = spot_checks(table.count, table.crc32) if are_some else range(table.count)
    _check_bodies(records, headers, starts, chosen)
    return PackedRecords(table, records, starts, ends, stride, headers, sums)


def _check_bodies(
    records: ByteBuffer, headers: NDArray[np.void], starts: Int64s, chosen: range
) -> None:
    """Compare the chosen bodies with their checksums: one call for each."""
    of_chosen = slice(chosen.start, chosen.stop, chosen.step)
    begins = starts[of_chosen] + HEADER_BYTES
    ends = begins + headers["body_length"][of_chosen]
    sums = range_crcs(memoryview(records), begins, ends) & np.uint32(CRC_MASK)
    right = headers["body_crc"][of_chosen] == sums
    if not right.all():
        raise BlockRejected(_BODY_DIFFERS, chosen[int(np.argmin(right))])


def spot_checks(count: int, crc: int) -> range:
    """The records whose bodies are compared: some, spread over all, chosen by the checksum."""
    step = max(1, count // SPOT_CHECKS)
    return range(crc % step, count, step)


def _check_columns(table: RecordTable, count: int) -> None:
    """Check that the columns fit together."""
    if count == 0:
        raise BlockRejected("it has no records")
    if len(table) > 1 and not PARKED_TOPICS.isdisjoint(table.topics):
        raise BlockRejected("a system topic whose queue has other codes than those of tags")
    if len(table.tag_codes) != count or len(table.key_counts) != count:
        raise BlockRejected("its columns differ in length")
    if table.record_crcs is not None and len(table.record_crcs) != count:
        raise BlockRejected("its columns differ in length")
    if int(table.key_counts.sum(dtype=np.int64)) != len(table.key_hashes):
        raise BlockRejected("its key hashes are not as many as its key counts say")
    if len(table.key_hashes) and int(table.key_hashes.min()) < 0:
        raise BlockRejected("a key hash is negative")
    if min(table.counts) < 1 or sum(table.counts) != count:
        raise BlockRejected("its rows have other numbers of records than its columns")


def _edges(table: RecordTable, limits: TableLimits) -> tuple[Int64s, Int64s, int]:
    """The begins and ends of records and their stride, if sizes and columns fit together."""
    count = table.count
    _check_columns(table, count)
    first, stride = int(table.sizes[0]), int(table.sizes[-1])
    even = bool((table.sizes[1:] == stride).all())
    edges = (first, stride) if even else (int(table.sizes.min()), int(table.sizes.max()))
    maximum = limits.record_bytes_max
    if min(edges) < RECORD_BYTES_MIN or max(edges) > maximum:
        require(table.sizes >= RECORD_BYTES_MIN, "too small for a record")
        require(table.sizes <= maximum, f"larger than {maximum} bytes")
    if even:
        ends = np.arange(first, first + count * stride, stride, dtype=np.int64)
        starts = ends - stride
        starts[0] = 0
    else:
        stride = 0
        ends = np.cumsum(table.sizes, dtype=np.int64)
        starts = ends - table.sizes
    if int(ends[-1]) != len(table.records):
        raise BlockRejected(
            f"its sizes add up to {int(ends[-1])} bytes, but it has {len(table.records)}"
        )
    if len(table.records) > limits.table_bytes_max:
        raise BlockRejected(f"{len(table.records)} bytes; a segment takes {limits.table_bytes_max}")
    return starts, ends, stride


def _headers(records: ByteBuffer, starts: Int64s, stride: int) -> NDArray[np.void]:
    """The headers of all records, copied."""
    if not stride:
        return gather_headers(records, starts)
    raw = FieldColumn(records, f"V{HEADER_BYTES}", starts, stride).get()
    return (raw if raw.flags.owndata else raw.copy()).view(HEADER)


def _check_headers(table: RecordTable, headers: NDArray[np.void], magics: Sequence[int]) -> None:
    """Check the fields of all headers but the checksums of bodies."""
    is_one = magics.count(magics[0]) == len(magics)
    magic = magics[0] if is_one else np.repeat(magics, table.counts)
    require(headers["size"] == table.sizes, "its size is not that of its column")
    require(headers["magic"] == magic, "wrong magic code")
    require(headers["system_flag"] & ~ALLOWED_FLAGS == 0, "system flag not allowed")
    require(headers["body_length"] >= 0, _LENGTHS_WRONG)
    require(headers["born_timestamp"] >= 0, "born before the epoch")
    if not table.forwarded:
        require(headers["attempts"] == 0, "attempts are the broker's to count")
        require(headers["half_offset"] == 0, "no message of a client has a half message")
    if trusted_sums(table) is not None:
        for name in _OWNED_FIELDS:
            require(headers[name] == 0, f"{name} is the broker's to fill in, and not zero")


def _check_lengths(  # noqa: PLR0917 - the places of one table.
    table: RecordTable,
    starts: Int64s,
    ends: Int64s,
    stride: int,
    body_lengths: NDArray[np.int32],
    topics: Sequence[bytes],
) -> int | Int64s:
    """Check that topics and properties fill the rest of records; return the properties' lengths."""
    of_one_topic = topics.count(topics[0]) == len(topics)
    widths: int | Int64s = len(topics[0])
    if not of_one_topic:
        widths = np.fromiter(map(len, topics), np.int64, len(topics)).repeat(table.counts)
    if not (of_one_topic and bool((body_lengths == body_lengths[0]).all())):
        stride = 0
    topic_starts = starts + HEADER_BYTES + body_lengths
    topic_ends = topic_starts + widths
    found: Int64s = ends - topic_ends - _LENGTH_BYTES
    require(found >= 0, _LENGTHS_WRONG)
    if of_one_topic:
        texts = FieldColumn(table.records, f"V{widths}", topic_starts, stride).get()
        if texts.tobytes() != topics[0] * len(ends):
            require(texts == np.frombuffer(topics[0], texts.dtype), _TOPIC_DIFFERS)
    else:
        _check_topics(table, topic_starts, widths, topics)
    stated = FieldColumn(table.records, ">u2", topic_ends, stride).get()
    require(stated == found, _LENGTHS_WRONG)
    require(found <= PROPERTIES_BYTES_MAX, "properties larger than the format can say")
    same = int(found[0])
    return same if bool((found == same).all()) else found


def _check_topics(
    table: RecordTable, starts: Int64s, widths: int | Int64s, topics: Sequence[bytes]
) -> None:
    """Check that the records of each row are of its topic."""
    width = max(map(len, topics))
    expected = np.array(topics, f"S{width}").view(np.uint8).reshape(-1, width)
    different = _text_rows(table.records, starts, width) != expected.repeat(table.counts, axis=0)
    # The bytes after a shorter topic are not compared.
    different &= np.arange(width) < np.reshape(widths, (-1, 1))
    require(~different.any(axis=1), _TOPIC_DIFFERS)


def _text_rows(records: ByteBuffer, places: Int64s, width: int) -> NDArray[np.uint8]:
    """``width`` bytes from each of some places on, ascending: uint8[places, width].

    Bytes after the end are zeros.
    """
    if int(places[-1]) + width > len(records):
        records = bytes(records) + bytes(width)
    texts = FieldColumn(records, f"V{width}", places, 0).get()
    return texts.view(np.uint8).reshape(-1, width)
