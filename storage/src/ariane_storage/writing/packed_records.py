"""Writing a checked table by column: one copy into memory, then the broker's fields.

The broker fills in queue id, queue offset, commit-log offset, born host, store timestamp and store
host, and finally the checksum of each record over all of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
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
    IPV6_EXTRA_BYTES,
    ByteBuffer,
)
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import FieldColumn, Int64s, checksum_digits
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES, encoded_entries
from ariane_storage.writing.append import (
    HOSTS_END,
    HOSTS_START,
    OwnedFields,
    Places,
    is_ipv6,
    packed_host,
)
from ariane_storage.writing.record_crcs import check_crcs_of, final_crcs, like_holes, trusted_sums
from ariane_storage.writing.table_check import CheckedTable

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
    """As ``CheckedTable``."""
    headers: NDArray[np.void]
    """The header of each, of the families of its hosts, to be filled in."""
    has_checksums: bool
    """Whether every record ends with room for its checksum."""
    sums: NDArray[np.uint32] | None
    """As ``trusted_sums``, where they are those of these records."""

    @classmethod
    def of(cls, table: RecordTable, checked: CheckedTable) -> PackedRecords:
        """Records that are written in the sizes in which they came, for IPv4 hosts."""
        return cls(
            table,
            table.records,
            checked.starts,
            checked.ends,
            checked.stride,
            checked.headers,
            checked.has_checksums,
            trusted_sums(table),
        )

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
        return len(self.records)

    def place(self, view: memoryview, position: int, owned: OwnedFields, places: Places) -> None:
        """Write the records with their owned fields.

        Args:
            view: The target: memory that begins with a sector of the disk.
            position: The start of the records in it; there is enough room.
            owned: The fields to fill in.
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
        if (
            headers.dtype.itemsize == HEADER_BYTES
        ):  # Of wide records the hosts are filled in already.
            hosts = np.ndarray((len(headers),), _HOSTS, headers.data, HOSTS_START, headers.strides)
            hosts[...] = np.frombuffer(owned.hosts(), _HOSTS)
        raw = headers.view(f"V{headers.dtype.itemsize}")
        FieldColumn(view, raw.dtype, starts + position, stride).set(raw)
        if self.sums is not None:
            size = len(self.records)
            doubtful = like_holes(view, position, size, starts)
            check_crcs_of(self.table.records, self.sums, starts, ends, doubtful)
        if not self.has_checksums:
            return
        if self.sums is None:
            covered_ends = ends + (position - CRC_PROPERTY_BYTES)
            sums = range_crcs(view, starts + position, covered_ends)
        else:
            sums = final_crcs(
                self.sums,
                covered=(stride or ends - starts) - CRC_PROPERTY_BYTES,
                covered_of_first=int(ends[0]) - CRC_PROPERTY_BYTES,
                constant=owned.constant_header(places.queue_ids[0]),
                queue_offsets=queue_offsets,
                commit_log_offsets=offsets,
            )
        digits = checksum_digits(sums & np.uint32(CRC_MASK))
        digit_places = ends + (position - CRC_DIGITS - 1)
        FieldColumn(view, digits.dtype, digit_places, stride).set(digits)

    def offsets(self, commit_log_offset: int) -> Int64s:
        """The start of each record in the log, if that of the first is this one."""
        return self.starts + commit_log_offset

    def edges(self, commit_log_offset: int) -> Sequence[int]:
        """The start of each row in the log, and the end of the last."""
        if len(self.table) == 1:
            return commit_log_offset, commit_log_offset + len(self.records)
        ends = self.ends[np.cumsum(self.table.counts) - 1] + commit_log_offset
        return [commit_log_offset, *ends.tolist()]

    def entries(self, commit_log_offset: int, tag_codes: Int64s | int | None) -> Sequence[bytes]:
        """The entries of each row in its consume queue; ``tag_codes``: others than the table's."""
        table = self.table
        codes = table.tag_codes if tag_codes is None else tag_codes
        encoded = encoded_entries(self.offsets(commit_log_offset), self.ends - self.starts, codes)
        if len(table) == 1:
            return (encoded,)
        ends = (np.cumsum(table.counts) * ENTRY_BYTES).tolist()
        return list(map(encoded.__getitem__, map(slice, [0, *ends[:-1]], ends)))

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


_HOST_FIELDS: Final = ("born_ip", "store_ip")


def _wide_header(*, born_ipv6: bool, store_ipv6: bool) -> np.dtype[Any]:
    wide = {"born_ip": born_ipv6, "store_ip": store_ipv6}
    names = HEADER.names or ()
    return np.dtype([(name, "V16" if wide.get(name) else HEADER[name]) for name in names])


_HEADERS: Final = {
    (born_ipv6, store_ipv6): _wide_header(born_ipv6=born_ipv6, store_ipv6=store_ipv6)
    for born_ipv6 in (False, True)
    for store_ipv6 in (False, True)
}


assert _HEADERS[True, True].itemsize == HEADER_BYTES + 2 * IPV6_EXTRA_BYTES  # noqa: S101 - layout.


def wide_records(
    table: RecordTable, checked: CheckedTable, owned: OwnedFields, table_bytes_max: int
) -> PackedRecords:
    """Make the records of a table wide enough for hosts with IPv6, and fill in the hosts.

    ::

        in the table   | ... | born ip 4 | port | stored at | store ip 4 | port | ...
        in the log     | ... | born ip 16                | port | stored at | store ip 16 ...

    A producer does not know which addresses the broker will store, so tables have room for IPv4;
    IPv6 takes twelve bytes more for each host. The headers are made anew by column, and joined with
    the rest of the records, before these are written as all others: this costs one C call for each
    record, where the usual way has none, and a checksum for each.

    Raises:
        BlockRejected: The wide records do not fit into a segment.
    """
    header = _HEADERS[is_ipv6(owned.born_host), is_ipv6(owned.store_host)]
    extra = header.itemsize - HEADER_BYTES
    size_bytes = len(table.records) + extra * table.count
    if size_bytes > table_bytes_max:
        reason = f"{size_bytes} bytes with IPv6 hosts; a segment takes {table_bytes_max}"
        raise BlockRejected(reason)
    longer = np.arange(0, extra * table.count, extra)
    headers = _wide_headers(checked.headers, header, owned)
    headers["size"] = table.sizes + np.int32(extra)
    edges = map(slice, (checked.starts + HEADER_BYTES).tolist(), checked.ends.tolist())
    rests = map(memoryview(table.records).__getitem__, edges)
    pieces = zip(headers.view(f"V{header.itemsize}").tolist(), rests, strict=True)
    return PackedRecords(
        table=table,
        records=b"".join(chain.from_iterable(pieces)),
        starts=checked.starts + longer,
        ends=checked.ends + longer + extra,
        stride=checked.stride and checked.stride + extra,
        headers=headers,
        has_checksums=checked.has_checksums,
        sums=None,
    )


def _wide_headers(
    narrow: NDArray[np.void], header: np.dtype[Any], owned: OwnedFields
) -> NDArray[np.void]:
    headers = np.zeros(len(narrow), header)
    for name in HEADER.names or ():
        if name not in _HOST_FIELDS:
            headers[name] = narrow[name]
    for name, host, flag in (
        ("born", owned.born_host, SystemFlag.BORN_HOST_IPV6),
        ("store", owned.store_host, SystemFlag.STORE_HOST_IPV6),
    ):
        address = packed_host(host)
        ipv6 = is_ipv6(host)
        headers[f"{name}_ip"] = np.void(address) if ipv6 else int.from_bytes(address, "big")
        headers[f"{name}_port"] = host[1]
        headers["system_flag"] |= int(flag * ipv6)
    headers["store_timestamp"] = owned.store_timestamp_ms
    return headers
