"""What an append needs to know, and what it tells: hosts, and places."""

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

_PORT_BYTES: Final = 4
IPV4_FIELD_BYTES: Final = 4 + _PORT_BYTES
"""Bytes of a host with an address of IPv4."""

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


class Places(NamedTuple):
    """Where a table goes."""

    commit_log_offset: int
    """The start of its first record."""
    queue_ids: Sequence[int]
    """The queue of each row."""
    first_queue_offsets: Sequence[int]
    """Queue offset of the first record of each row."""
    other_codes: Int64s | int | None = None
    """What the queue of a table of one row has in the place of the codes of tags, for each record
    or for all; None: it has those."""


class Placed(NamedTuple):
    """What is known of a table that is in its place."""

    starts: Sequence[int] | Int64s
    """The start of each record in the log."""
    edges: Sequence[int]
    """The start of each row in the log, and the end of the last."""
    entries: Sequence[bytes]
    """The entries of each row in its consume queue."""


def constant_header(queue_id: int, hosts: bytes) -> bytes:
    """A header with the fields that all records of a row share, and zeros elsewhere.

    Args:
        queue_id: The queue of the row.
        hosts: Born host, store timestamp and store host.
    """
    return _pack_queue_id(queue_id) + hosts + bytes(HEADER_BYTES - HOSTS_END)


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
def host_field(host: Host) -> bytes:
    """The address and the port of a host as a record has them."""
    return packed_host(host) + host[1].to_bytes(_PORT_BYTES, "big", signed=True)
