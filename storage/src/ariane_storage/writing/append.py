"""Making a checked block ready for its segment: one copy, then what the broker owns, by column.

What the broker fills in: queue id, queue offset, commit-log offset, born host, store timestamp and
store host, and at the very end the checksum of each record over all of that.
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
"""Born host, store timestamp and store host, which lie side by side."""

_pack_ipv4_header = HEADER_STRUCTS[False, False].pack


# Never changed once made; not frozen, for that takes more than twice as long to make.
@dataclass(slots=True, eq=False)
class Appended:
    """Where a block went.

    Attributes:
        first_queue_offset: Queue offset of its first record; the others follow densely.
        count: Records.
        first_commit_log_offset: Where its first record starts.
        next_commit_log_offset: Where its last record ends: what must be flushed for it to be safe.
        store_timestamp_ms: When it was stored, the same for all.
        commit_log_offsets: Where each record starts.
    """

    first_queue_offset: QueueOffset
    count: int
    first_commit_log_offset: CommitLogOffset
    next_commit_log_offset: CommitLogOffset
    store_timestamp_ms: int
    commit_log_offsets: Int64s


@dataclass(frozen=True, slots=True)
class AppendedTable:
    """Where blocks went that were appended at once, by column.

    Attributes:
        first_queue_offsets: Queue offset of the first record of each: int64[blocks].
        counts: Records of each: int64[blocks].
        commit_log_edges: Where each starts, and where the last one ends: int64[blocks + 1].
        store_timestamp_ms: When they were stored, the same for all.
        commit_log_offsets: Where each record starts, block after block: int64[records].
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
        """Where one of them went."""
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
    """What the broker writes into each record of a block.

    Attributes:
        queue_id: Number of the queue within its topic.
        first_queue_offset: Queue offset of the first record.
        first_commit_log_offset: Commit-log offset of the first record.
        born_host: Where the producer was seen.
        store_host: Where this broker is.
        store_timestamp_ms: Now, in milliseconds.
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
        """The same at another place."""
        queue_id, _, _, born_host, store_host, stamp = self
        first = first_queue_offset, first_commit_log_offset
        return OwnedFields(queue_id, *first, born_host, store_host, stamp)

    def constant_header(self) -> bytes:
        """A header with what is the same for all records; zeros elsewhere. For IPv4 hosts."""
        born_ip, store_ip = packed_host(self.born_host), packed_host(self.store_host)
        hosts = (born_ip, self.born_host[1], self.store_timestamp_ms, store_ip, self.store_host[1])
        return _pack_ipv4_header(0, 0, 0, self.queue_id, 0, 0, 0, 0, 0, *hosts, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PackedRecords:
    """A sound block that is written as it came, for IPv4 hosts.

    Attributes:
        block: The records.
        checked: Where they lie in the block; its headers are filled in.
    """

    block: RecordBlock
    checked: CheckedBlock

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return len(self.block.records)

    @property
    def starts(self) -> Int64s:
        """Where each record starts, behind the first."""
        return self.checked.starts

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Bytes of each record."""
        return self.block.sizes

    def place(self, view: memoryview, position: int, owned: OwnedFields) -> None:
        """Put together the records and their owned fields.

        Args:
            view: Where to: memory that begins with a sector of the disk.
            position: Where in it the block starts; there is room for all of it.
            owned: What to fill in.

        Raises:
            BlockRejected: The checksum of a record is not the one that came along.
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
    """Write the digits of the checksums of records that end at some places."""
    digits = checksum_digits(sums & np.uint32(CRC_MASK))
    FieldColumn(view, digits.dtype, ends - (CRC_DIGITS + 1), stride).set(digits)


def fill_ipv4_headers(
    headers: NDArray[np.void],
    owned: OwnedFields,
    queue_offsets: Int64s,
    commit_log_offsets: Int64s,
) -> None:
    """``fill_headers`` for IPv4 hosts: both and the time between them in one go."""
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
    """Fill in what the broker owns, in headers of any host families."""
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

    An IPv6 address that stands for an IPv4 one is stored as that.
    """
    address = ip_address(host[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


def is_ipv6(host: Host) -> bool:
    """Whether the address of a host takes 16 bytes."""
    return len(packed_host(host)) != _IPV4_BYTES
