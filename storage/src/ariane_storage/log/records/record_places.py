"""Positions of the parts of many records, and whether the records are intact.

Unlike ``table_check``, which judges one kind of record strictly, this reads everything that a
commit log may hold: V1 and V2, IPv4 and IPv6 hosts, with or without a checksum of the record, many
topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import SystemFlag
from ariane_record.checksums.checksum import range_crcs
from ariane_record.decoding.columns import gather_headers
from ariane_record.layout import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_PREFIX,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_VALUE_END,
)
from ariane_storage.layout import DISK_SECTOR_BYTES
from ariane_storage.log.records.fields import FIELD_STARTS, FieldColumn, Int64s, checksum_digits

# As plain numbers: numpy takes three microseconds to see that a flag is one.
_BORN_HOST_IPV6: Final = int(SystemFlag.BORN_HOST_IPV6)
_STORE_HOST_IPV6: Final = int(SystemFlag.STORE_HOST_IPV6)

_PREFIX: Final = np.dtype(f"V{len(CRC_PROPERTY_PREFIX)}")
_PREFIX_BYTES: Final = np.frombuffer(CRC_PROPERTY_PREFIX, np.uint8)
_NEARLY: Final = len(CRC_PROPERTY_PREFIX) - 2
_VALUE_END: Final = PROPERTY_VALUE_END[0]


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """Byte positions in a buffer, one of each for every record that has a sound structure."""

    buffer: memoryview
    """The buffer of the records."""
    headers: NDArray[np.void]
    """``layout.HEADER`` of each; for a record with an IPv6 host only the fields before the hosts
    are right."""
    starts: Int64s
    """The start of each record."""
    ends: Int64s
    """The end of each record."""
    body_starts: Int64s
    """The start of each body."""
    body_ends: Int64s
    """The end of each body."""
    topic_starts: Int64s
    """The start of each topic."""
    topic_ends: Int64s
    """The end of each topic."""
    properties_starts: Int64s
    """The start of each record's properties; they end with the record."""
    born_shift: Int64s
    """Bytes that an IPv6 born host moves the fields behind it."""

    def front(self, name: str) -> NDArray[np.int64]:
        """A header field before the hosts."""
        return self.headers[name].astype(np.int64)

    def store_timestamps(self) -> NDArray[np.int64]:
        """When each record was stored, in milliseconds."""
        if not self.born_shift.any():
            return self.front("store_timestamp")
        places = self.starts + self.born_shift + FIELD_STARTS["store_timestamp"]
        return FieldColumn(self.buffer, ">i8", places, 0).get().astype(np.int64)

    def rows(self, first: int, behind: int) -> RecordPlaces:
        """Some of the records, by their numbers here."""
        return self.chosen(slice(first, behind))

    def chosen(self, which: slice | Int64s) -> RecordPlaces:
        """Some of the records, by their numbers here in ascending order."""
        return RecordPlaces(
            buffer=self.buffer,
            headers=self.headers[which],
            starts=self.starts[which],
            ends=self.ends[which],
            body_starts=self.body_starts[which],
            body_ends=self.body_ends[which],
            topic_starts=self.topic_starts[which],
            topic_ends=self.topic_ends[which],
            properties_starts=self.properties_starts[which],
            born_shift=self.born_shift[which],
        )

    def with_text(self, text: bytes, begins: Int64s, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of some records have a text at a place: bool[count].

        Args:
            text: The text.
            begins: The place in each record.
            among: The records that have as many bytes there.
        """
        rows = np.flatnonzero(among)
        found = np.zeros(len(among), np.bool_)
        if len(rows):
            kind = f"V{len(text)}"
            there = FieldColumn(self.buffer, kind, begins[rows], 0).get()
            found[rows] = there == np.frombuffer(text, kind)
        return found

    def text(self, begins: Int64s, ends: Int64s, row: int) -> bytes:
        """One range of the buffer, copied: that of a row."""
        return bytes(self.buffer[int(begins[row]) : int(ends[row])])

    def texts(self, begins: Int64s, ends: Int64s) -> list[bytes]:
        """Ranges of the buffer, copied."""
        ranges = map(slice, begins.tolist(), ends.tolist())
        return list(map(bytes, map(self.buffer.__getitem__, ranges)))


def locate(
    buffer: memoryview, starts: Int64s, sizes: Int64s
) -> tuple[RecordPlaces, NDArray[np.bool_]]:
    """Find the parts of records.

    Args:
        buffer: The buffer of the records.
        starts: The start of each record, ascending; at least one.
        sizes: Bytes of each, at least ``RECORD_BYTES_MIN``; all inside the buffer.

    Returns:
        The places of records whose lengths add up and whose magic code is known, and a mask over
        ``starts`` of these records.
    """
    header = gather_headers(buffer, starts)
    ends = starts + sizes
    magic = header["magic"]
    flags = header["system_flag"]
    born_shift = ((flags & _BORN_HOST_IPV6) != 0) * np.int64(IPV6_EXTRA_BYTES)
    shift = born_shift + ((flags & _STORE_HOST_IPV6) != 0) * np.int64(IPV6_EXTRA_BYTES)
    body_starts = starts + HEADER_BYTES + shift
    sound = (header["size"] == sizes) & ((magic == MAGIC_V1) | (magic == MAGIC_V2))
    sound &= body_starts + 3 <= ends
    # An invalid place is never followed: it is replaced by a readable one.
    safe = np.where(sound, body_starts, starts + HEADER_BYTES)
    body_lengths = FieldColumn(buffer, ">i4", safe - 4, 0).get().astype(np.int64)
    width = np.where(magic == MAGIC_V2, 2, 1)
    counts = body_starts + body_lengths
    sound &= (body_lengths >= 0) & (counts + width + 2 <= ends)
    safe = np.where(sound, counts, starts)
    high = FieldColumn(buffer, "u1", safe, 0).get().astype(np.int64)
    low = FieldColumn(buffer, "u1", safe + 1, 0).get()
    topic_starts = counts + width
    topic_ends = topic_starts + np.where(magic == MAGIC_V2, high << 8 | low, high)
    sound &= topic_ends + 2 <= ends
    safe = np.where(sound, topic_ends, starts)
    properties_starts = topic_ends + 2
    lengths = FieldColumn(buffer, ">u2", safe, 0).get()
    sound &= (properties_starts + lengths == ends) & (lengths <= 0x7FFF)
    places = RecordPlaces(
        buffer=buffer,
        headers=header,
        starts=starts,
        ends=ends,
        body_starts=body_starts,
        body_ends=counts,
        topic_starts=topic_starts,
        topic_ends=topic_ends,
        properties_starts=properties_starts,
        born_shift=born_shift,
    )
    return places if bool(sound.all()) else places.chosen(np.flatnonzero(sound)), sound


def checksum_faults(places: RecordPlaces) -> NDArray[np.bool_]:
    """Which records do not match their own checksum, or without one that of their body.

    The checksum of a record covers its body, too. A record without one is judged by its body, and
    by the last byte of its properties in each disk sector that may have held the checksum: power
    loss leaves zero there.
    """
    faults = np.zeros(len(places.starts), np.bool_)
    if not len(faults):
        return faults
    buffer = places.buffer
    reserved = places.ends - places.properties_starts >= CRC_PROPERTY_BYTES
    safe = np.where(reserved, places.ends - CRC_PROPERTY_BYTES, places.starts)
    prefixes = FieldColumn(buffer, _PREFIX, safe, 0).get()
    likeness = _likeness(prefixes)
    # A name that is nearly that of the checksum is one with a flipped bit: taken for a record
    # without a checksum it would pass.
    faults |= reserved & (likeness >= _NEARLY) & (likeness < len(CRC_PROPERTY_PREFIX))
    reserved &= likeness == len(CRC_PROPERTY_PREFIX)
    whole, bodies = np.flatnonzero(reserved), np.flatnonzero(~reserved)
    if len(whole):
        covered = places.ends[whole] - CRC_PROPERTY_BYTES
        sums = range_crcs(buffer, places.starts[whole], covered) & np.uint32(CRC_MASK)
        digits = checksum_digits(sums)
        kept = FieldColumn(buffer, digits.dtype, covered + len(CRC_PROPERTY_PREFIX), 0).get()
        last = FieldColumn(buffer, "u1", places.ends[whole] - 1, 0).get()
        faults[whole] = (kept != digits) | (last != _VALUE_END)
    if len(bodies):
        sums = range_crcs(buffer, places.body_starts[bodies], places.body_ends[bodies])
        kept = places.headers["body_crc"][bodies]
        faults[bodies] |= (kept != sums & np.uint32(CRC_MASK)) | _unwritten(places, bodies)
    return faults


def _unwritten(places: RecordPlaces, rows: Int64s) -> NDArray[np.bool_]:
    """The records that end with zeros, or have zeros at the end of the sector before their end.

    The checksum may be spread over both, so either part can be lost without the other.
    """
    ends, sizes = places.ends[rows], places.ends[rows] - places.starts[rows]
    next_offsets = places.front("commit_log_offset")[rows] + sizes
    sector_ends = ends - ((next_offsets - 1) % DISK_SECTOR_BYTES + 1)
    found = np.zeros(len(rows), np.bool_)
    for places_behind, first in (
        (ends, places.properties_starts[rows]),
        (sector_ends, np.maximum(places.properties_starts[rows], ends - CRC_PROPERTY_BYTES)),
    ):
        there = places_behind > first
        # A place that does not exist is replaced by a readable one.
        octets = FieldColumn(places.buffer, "u1", np.where(there, places_behind, ends) - 1, 0)
        found |= there & (octets.get() == 0)
    return found


def _likeness(prefixes: NDArray[np.void]) -> NDArray[np.int64]:
    """Number of bytes of each that equal those of the checksum's name."""
    as_bytes = prefixes.view(np.uint8).reshape(len(prefixes), len(CRC_PROPERTY_PREFIX))
    likeness: NDArray[np.int64] = np.count_nonzero(as_bytes == _PREFIX_BYTES, axis=1)
    return likeness


def misplaced(places: RecordPlaces, begin: int) -> NDArray[np.bool_]:
    """The records that were written for another place: old bytes that have returned.

    Args:
        places: The records.
        begin: Commit-log offset of the buffer's first byte.
    """
    moved: NDArray[np.bool_] = places.front("commit_log_offset") != places.starts + begin
    return moved
