"""Preparing a checked block for its segment: one copy, then the broker's fields by column.

The broker fills in queue id, queue offset, commit-log offset, born host, store timestamp and store
host, and finally the checksum of each record over all of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordBlock
from ariane_record.checksums.checksum import range_crcs
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HEADER_BYTES,
    HEADER_STRUCTS,
    CommitLogOffset,
    Host,
    QueueOffset,
)
from ariane_storage.log.records.fields import FIELD_STARTS, FieldColumn, Int64s, checksum_digits
from ariane_storage.writing.block_check import CheckedBlock
from ariane_storage.writing.record_crcs import check_crcs_of, final_crcs, like_holes

_RAW_HEADER: Final = np.dtype((np.void, HEADER_BYTES))
_IPV4_BYTES: Final = 4
_HOSTS_START: Final = FIELD_STARTS["born_ip"]
_HOSTS_END: Final = FIELD_STARTS["attempts"]
_HOSTS: Final = np.dtype((np.void, _HOSTS_END - _HOSTS_START))
"""Born host, store timestamp and store host, which are contiguous."""

_pack_ipv4_header = HEADER_STRUCTS[False, False].pack


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True, eq=False)
class Appended:
    """The place of an appended block.

    Attributes:
        first_queue_offset: Queue offset of its first record; the others follow densely.
        count: The number of records.
        first_commit_log_offset: The start of its first record.
        next_commit_log_offset: The end of its last record, up to which the log must be flushed.
        store_timestamp_ms: When it was stored, the same for all.
        commit_log_offsets: The start of each record.
    """

    first_queue_offset: QueueOffset
    count: int
    first_commit_log_offset: CommitLogOffset
    next_commit_log_offset: CommitLogOffset
    store_timestamp_ms: int
    commit_log_offsets: Int64s


@dataclass(frozen=True, slots=True)
class AppendedTable:
    """The places of blocks that were appended together, by column.

    Attributes:
        first_queue_offsets: Queue offset of the first record of each: int64[blocks].
        counts: Records of each: int64[blocks].
        commit_log_edges: The start of each block, and the end of the last: int64[blocks + 1].
        store_timestamp_ms: When they were stored, the same for all.
        commit_log_offsets: The start of each record, block after block: int64[records].
    """

    first_queue_offsets: Int64s
    counts: Int64s
    commit_log_edges: Int64s
    store_timestamp_ms: int
    commit_log_offsets: Int64s

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.counts)

    def block(self, row: int) -> Appended:
        """The place of one of them."""
        begin, end = self.commit_log_edges[row : row + 2].tolist()
        first, behind = np.searchsorted(self.commit_log_offsets, (begin, end)).tolist()
        return Appended(
            first_queue_offset=QueueOffset(int(self.first_queue_offsets[row])),
            count=int(self.counts[row]),
            first_commit_log_offset=CommitLogOffset(begin),
            next_commit_log_offset=CommitLogOffset(end),
            store_timestamp_ms=self.store_timestamp_ms,
            commit_log_offsets=self.commit_log_offsets[first:behind],
        )


class OwnedFields(NamedTuple):
    """The fields that the broker writes into each record of a block.

    Attributes:
        queue_id: Number of the queue within its topic.
        first_queue_offset: Queue offset of the first record.
        first_commit_log_offset: Commit-log offset of the first record.
        born_host: The address of the producer, as the broker sees it.
        store_host: The address of this broker.
        store_timestamp_ms: The present time, in milliseconds.
    """

    queue_id: int
    first_queue_offset: int
    first_commit_log_offset: int
    born_host: Host
    store_host: Host
    store_timestamp_ms: int

    @property
    def has_ipv6_host(self) -> bool:
        """Whether records must be made wider for a host."""
        return is_ipv6(self.born_host) or is_ipv6(self.store_host)

    def at(self, first_queue_offset: int, first_commit_log_offset: int) -> OwnedFields:
        """The same fields for another place."""
        queue_id, _, _, born_host, store_host, stamp = self
        first = first_queue_offset, first_commit_log_offset
        return OwnedFields(queue_id, *first, born_host, store_host, stamp)

    def constant_header(self) -> bytes:
        """A header with the fields that all records share, and zeros elsewhere. For IPv4 hosts."""
        born_ip, store_ip = packed_host(self.born_host), packed_host(self.store_host)
        hosts = (born_ip, self.born_host[1], self.store_timestamp_ms, store_ip, self.store_host[1])
        return _pack_ipv4_header(0, 0, 0, self.queue_id, 0, 0, 0, 0, 0, *hosts, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PackedRecords:
    """A valid block that is written without a change of sizes, for IPv4 hosts.

    Attributes:
        block: The records.
        checked: Their places in the block, and the headers to fill in.
    """

    block: RecordBlock
    checked: CheckedBlock

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
        return len(self.block.records)

    @property
    def starts(self) -> Int64s:
        """The start of each record, relative to the first."""
        return self.checked.starts

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Bytes of each record."""
        return self.block.sizes

    def place(self, view: memoryview, position: int, owned: OwnedFields) -> None:
        """Write the records with their owned fields.

        Args:
            view: The target: memory that begins with a sector of the disk.
            position: The start of the block in it; there is enough room.
            owned: The fields to fill in.

        Raises:
            BlockRejected: The checksum of a record differs from the producer's.
        """
        block, checked = self.block, self.checked
        starts, ends, stride = checked.starts, checked.ends, checked.stride
        begin, first = owned.first_commit_log_offset, owned.first_queue_offset
        size = len(block.records)
        view[position : position + size] = block.records
        queue_offsets = np.arange(first, first + len(starts))
        fill_ipv4_headers(checked.headers, owned, queue_offsets, starts + begin)
        raw = checked.headers.view(_RAW_HEADER)
        FieldColumn(view, _RAW_HEADER, starts + position, stride).set(raw)
        if block.record_crcs is not None:
            check_crcs_of(block, starts, ends, like_holes(view, position, size, starts))
        if not checked.has_checksums:
            return
        if block.record_crcs is None:
            covered_ends = ends + (position - CRC_PROPERTY_BYTES)
            sums = range_crcs(view, starts + position, covered_ends)
        else:
            sums = final_crcs(
                block.record_crcs,
                covered=(stride or ends - starts) - CRC_PROPERTY_BYTES,
                covered_of_first=int(ends[0]) - CRC_PROPERTY_BYTES,
                constant=owned.constant_header(),
                queue_offsets=queue_offsets,
                commit_log_offsets=starts + begin,
            )
        write_checksums(view, ends + position, stride, sums)


def write_checksums(view: memoryview, ends: Int64s, stride: int, sums: NDArray[np.uint32]) -> None:
    """Write the digits of the checksums of records that end at ``ends``."""
    digits = checksum_digits(sums & np.uint32(CRC_MASK))
    FieldColumn(view, digits.dtype, ends - (CRC_DIGITS + 1), stride).set(digits)


def fill_ipv4_headers(
    headers: NDArray[np.void],
    owned: OwnedFields,
    queue_offsets: Int64s,
    commit_log_offsets: Int64s,
) -> None:
    """``fill_headers`` for IPv4 hosts: both and the time between them in one step."""
    hosts = owned.constant_header()[_HOSTS_START:_HOSTS_END]
    places = np.ndarray((len(headers),), _HOSTS, headers.data, _HOSTS_START, headers.strides)
    places[...] = np.frombuffer(hosts, _HOSTS)
    headers["queue_id"] = owned.queue_id
    headers["queue_offset"] = queue_offsets
    headers["commit_log_offset"] = commit_log_offsets


def fill_headers(
    headers: NDArray[np.void],
    owned: OwnedFields,
    queue_offsets: Int64s,
    commit_log_offsets: Int64s,
) -> None:
    """Fill in the broker's fields, in headers of any host families."""
    headers["queue_id"] = owned.queue_id
    headers["queue_offset"] = queue_offsets
    headers["commit_log_offset"] = commit_log_offsets
    for name, host in (("born", owned.born_host), ("store", owned.store_host)):
        address = packed_host(host)
        ipv6 = is_ipv6(host)
        headers[f"{name}_ip"] = np.void(address) if ipv6 else int.from_bytes(address, "big")
        headers[f"{name}_port"] = host[1]
    headers["store_timestamp"] = owned.store_timestamp_ms


@lru_cache(maxsize=4096)
def packed_host(host: Host) -> bytes:
    """The address of a host as it is stored: 4 bytes, or 16 for IPv6.

    An IPv4-mapped IPv6 address is stored as IPv4.
    """
    address = ip_address(host[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


def is_ipv6(host: Host) -> bool:
    """Whether the address of a host takes 16 bytes."""
    return len(packed_host(host)) != _IPV4_BYTES
