"""What an append needs to know, and what it tells: the broker's fields, and the places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import Final, NamedTuple, Self

import numpy as np

from ariane_record.layout import HEADER_BYTES, CommitLogOffset, Host, QueueOffset
from ariane_storage.log.records.fields import FIELD_STARTS, Int64s

HOSTS_START: Final = FIELD_STARTS["born_ip"]
HOSTS_END: Final = FIELD_STARTS["attempts"]
"""Between them: born host, store timestamp and store host."""

_IPV4_BYTES: Final = 4
_pack_hosts = Struct(">4siq4si").pack
_BEFORE_QUEUE_ID: Final = FIELD_STARTS["queue_id"]
_pack_queue_id = Struct(f">{_BEFORE_QUEUE_ID}xi{HOSTS_START - _BEFORE_QUEUE_ID - 4}x").pack


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True, eq=False)
class Appended:
    """The places of an appended table: of b rows, of n records in all."""

    first_queue_offsets: Sequence[int]
    """Queue offset of the first record of each row; the others follow densely."""
    counts: Sequence[int]
    """The number of records of each row."""
    edges: Sequence[int]
    """Commit-log offset of each row, and the end of the last: b + 1."""
    store_timestamp_ms: int
    """When it was stored, the same for all."""
    starts: Sequence[int] | Int64s
    """The start of each record, ascending: n."""

    @classmethod
    def of_row(
        cls,
        first_queue_offset: int,
        edges: tuple[int, int],
        store_timestamp_ms: int,
        starts: Sequence[int] | Int64s,
    ) -> Self:
        """The places of a table of one row."""
        return cls((first_queue_offset,), (len(starts),), edges, store_timestamp_ms, starts)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.counts)

    @property
    def first_queue_offset(self) -> QueueOffset:
        """Queue offset of the first record of the first row."""
        return QueueOffset(self.first_queue_offsets[0])

    @property
    def count(self) -> int:
        """The number of all records."""
        return len(self.starts)

    @property
    def first_commit_log_offset(self) -> CommitLogOffset:
        """The start of the first record."""
        return CommitLogOffset(self.edges[0])

    @property
    def next_commit_log_offset(self) -> CommitLogOffset:
        """The end of the last record, up to which the log must be flushed."""
        return CommitLogOffset(self.edges[-1])

    @property
    def commit_log_offsets(self) -> Int64s:
        """The start of each record: int64[n]."""
        return np.asarray(self.starts, np.int64)


class OwnedFields(NamedTuple):
    """The fields that the broker writes into each record of a table, beside its places."""

    born_host: Host
    """The address of the producer, as the broker sees it."""
    store_host: Host
    """The address of this broker."""
    store_timestamp_ms: int
    """The present time, in milliseconds."""

    @property
    def has_ipv6_host(self) -> bool:
        """Whether records must be made wider for a host."""
        return is_ipv6(self.born_host) or is_ipv6(self.store_host)

    def hosts(self) -> bytes:
        """Born host, store timestamp and store host, which are contiguous. For IPv4 hosts."""
        born_ip, store_ip = packed_host(self.born_host), packed_host(self.store_host)
        stamp = self.store_timestamp_ms
        return _pack_hosts(born_ip, self.born_host[1], stamp, store_ip, self.store_host[1])

    def constant_header(self, queue_id: int) -> bytes:
        """A header with the fields that all records of a row share, and zeros elsewhere."""
        return _pack_queue_id(queue_id) + self.hosts() + bytes(HEADER_BYTES - HOSTS_END)


class Places(NamedTuple):
    """Where a table goes."""

    commit_log_offset: int
    """The start of its first record."""
    queue_ids: Sequence[int]
    """The queue of each row."""
    first_queue_offsets: Sequence[int]
    """Queue offset of the first record of each row."""


@lru_cache(maxsize=4096)
def packed_host(host: Host) -> bytes:
    """The address of a host as it is stored: 4 bytes, or 16 for IPv6.

    An IPv4-mapped IPv6 address is stored as IPv4.
    """
    address = ip_address(host[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


@lru_cache(maxsize=4096)
def is_ipv6(host: Host) -> bool:
    """Whether the address of a host takes 16 bytes."""
    return len(packed_host(host)) != _IPV4_BYTES
