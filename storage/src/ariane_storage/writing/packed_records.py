"""Writing a checked table by column: one copy into memory, then the broker's fields.

The broker fills in queue id, queue offset, commit-log offset, born host, store timestamp and store
host, and finally the checksum of each record over all of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable, SystemFlag
from ariane_record.checksums.checksum import range_crcs
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HEADER,
    HEADER_BYTES,
    ByteBuffer,
)
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import (
    FIELD_STARTS,
    FieldColumn,
    Int64s,
    checksum_digits,
)
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES, encoded_entries
from ariane_storage.writing.append import (
    HOSTS_END,
    HOSTS_START,
    IPV4_FIELD_BYTES,
    Placed,
    Places,
    constant_header,
)
from ariane_storage.writing.record_crcs import check_crcs_of, final_crcs, like_holes

_HOSTS: Final = np.dtype((np.void, HOSTS_END - HOSTS_START))


@dataclass(frozen=True, slots=True)
class PackedRecords:
    """Valid records, ready to be written."""

    table: RecordTable
    """The table that came."""
    records: ByteBuffer
    """The records to write, back to back."""
    starts: Int64s
    """The start of each in them."""
    ends: Int64s
    """The end of each."""
    stride: int
    """The common size of all records except the first, which has the sequence of its batch and may
    be longer; 0 if sizes differ."""
    headers: NDArray[np.void]
    """The header of each, of the families of its hosts: a copy, to be filled in."""
    sums: NDArray[np.uint32] | None
    """As ``trusted_sums``, where they are those of these records."""

    def place(self, view: memoryview, position: int, hosts: bytes, places: Places) -> Placed:
        """Write the records with the broker's fields.

        Args:
            view: The target: memory that begins with a sector of the disk.
            position: The start of the records in it; there is enough room.
            hosts: Born host, store timestamp and store host.
            places: Where the records go.

        Raises:
            BlockRejected: The checksum of a record differs from the producer's.
        """
        starts, ends, stride = self.starts, self.ends, self.stride
        view[position : position + len(self.records)] = self.records
        queue_offsets = self._queue_offsets(places.first_queue_offsets)
        offsets = starts + places.commit_log_offset
        headers = self.headers
        headers["queue_id"] = self._queue_ids(places.queue_ids)
        headers["queue_offset"] = queue_offsets
        headers["commit_log_offset"] = offsets
        if headers.dtype.itemsize == HEADER_BYTES:  # Wide ones have their hosts already.
            raw = np.ndarray((len(headers),), _HOSTS, headers.data, HOSTS_START, headers.strides)
            raw[...] = np.frombuffer(hosts, _HOSTS)
        raw = headers.view(f"V{headers.dtype.itemsize}")
        FieldColumn(view, raw.dtype, starts + position, stride).set(raw)
        if self.sums is not None:
            size = len(self.records)
            doubtful = like_holes(view, position, size, starts)
            check_crcs_of(self.table.records, self.sums, starts, ends, doubtful)
        sums = self._final_sums(view, position, hosts, places, queue_offsets)
        digits = checksum_digits(sums & np.uint32(CRC_MASK))
        FieldColumn(view, digits.dtype, ends + (position - CRC_DIGITS - 1), stride).set(digits)
        return self._placed(offsets, places)

    def _final_sums(
        self,
        view: memoryview,
        position: int,
        hosts: bytes,
        places: Places,
        queue_offsets: Int64s,
    ) -> NDArray[np.uint32]:
        """The checksum of each record as it is written now."""
        starts, ends = self.starts, self.ends
        if self.sums is None:
            covered_ends = ends + (position - CRC_PROPERTY_BYTES)
            return range_crcs(view, starts + position, covered_ends)
        return final_crcs(
            self.sums,
            covered=(self.stride or ends - starts) - CRC_PROPERTY_BYTES,
            covered_of_first=int(ends[0]) - CRC_PROPERTY_BYTES,
            constant=constant_header(places.queue_ids[0], hosts),
            queue_offsets=queue_offsets,
            commit_log_offsets=starts + places.commit_log_offset,
        )

    def _placed(self, offsets: Int64s, places: Places) -> Placed:
        begin, table = places.commit_log_offset, self.table
        codes = table.tag_codes if places.other_codes is None else places.other_codes
        encoded = encoded_entries(offsets, self.ends - self.starts, codes)
        if len(table) == 1:
            return Placed(offsets, (begin, begin + len(self.records)), (encoded,))
        behind = np.cumsum(table.counts)
        edges = [begin, *(self.ends[behind - 1] + begin).tolist()]
        cuts = [0, *(behind * ENTRY_BYTES).tolist()]
        return Placed(offsets, edges, [encoded[a:b] for a, b in pairwise(cuts)])

    def _queue_offsets(self, firsts: Sequence[int]) -> Int64s:
        if len(firsts) == 1:
            return np.arange(firsts[0], firsts[0] + len(self.starts))
        counts = np.array(self.table.counts, np.int64)
        before_rows = np.array(firsts, np.int64) - (np.cumsum(counts) - counts)
        offsets: Int64s = np.arange(len(self.starts)) + before_rows.repeat(counts)
        return offsets

    def _queue_ids(self, queue_ids: Sequence[int]) -> Int64s | int:
        if len(queue_ids) == 1:
            return queue_ids[0]
        return np.array(queue_ids, np.int64).repeat(self.table.counts)


def wide_records(
    narrow: PackedRecords, born_field: bytes, hosts: bytes, table_bytes_max: int
) -> PackedRecords:
    """Make the records of a table wide enough for hosts with IPv6, and fill in the hosts.

    ::

        in the table   | ... | born ip 4 | port | stored at | store ip 4 | port | ...
        in the log     | ... | born ip 16                | port | stored at | store ip 16 ...

    A producer does not know which addresses the broker will store, so tables have room for IPv4;
    IPv6 takes twelve bytes more for each host. The headers are made anew by column, and joined with
    the rest of the records, before these are written as all others: this costs one C call for each
    record, where the usual way has none, and a checksum for each.

    Args:
        narrow: The records.
        born_field: Address and port of the born host.
        hosts: Born host, store timestamp and store host.
        table_bytes_max: The most bytes that a segment takes.

    Raises:
        BlockRejected: The wide records do not fit into a segment.
    """
    extra, of_born = len(hosts) - (HOSTS_END - HOSTS_START), len(born_field) - IPV4_FIELD_BYTES
    flags = int(SystemFlag.BORN_HOST_IPV6 * bool(of_born))
    flags |= int(SystemFlag.STORE_HOST_IPV6 * (extra > of_born))
    table = narrow.table
    size_bytes = len(narrow.records) + extra * table.count
    if size_bytes > table_bytes_max:
        reason = f"{size_bytes} bytes with IPv6 hosts; a segment takes {table_bytes_max}"
        raise BlockRejected(reason)
    longer = np.arange(0, extra * table.count, extra)
    narrow.headers["size"] = table.sizes + np.int32(extra)
    narrow.headers["system_flag"] |= flags
    headers = np.zeros(table.count, _wide_header(extra))
    for name in headers.dtype.names or ():
        headers[name] = np.void(hosts) if name == "hosts" else narrow.headers[name]
    edges = map(slice, (narrow.starts + HEADER_BYTES).tolist(), narrow.ends.tolist())
    rests = map(memoryview(narrow.records).__getitem__, edges)
    pieces = zip(headers.view(f"V{headers.dtype.itemsize}").tolist(), rests, strict=True)
    return replace(
        narrow,
        records=b"".join(chain.from_iterable(pieces)),
        starts=narrow.starts + longer,
        ends=narrow.ends + longer + extra,
        stride=narrow.stride and narrow.stride + extra,
        headers=headers,
        sums=None,
    )


def _wide_header(extra: int) -> np.dtype[Any]:
    """The header of a record with so many bytes more for its hosts."""
    hosts = ("hosts", f"V{HOSTS_END - HOSTS_START + extra}")
    before = [(n, HEADER[n]) for n, start in FIELD_STARTS.items() if start < HOSTS_START]
    behind = [(n, HEADER[n]) for n, start in FIELD_STARTS.items() if start >= HOSTS_END]
    return np.dtype([*before, hosts, *behind])
