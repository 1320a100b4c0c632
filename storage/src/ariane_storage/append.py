"""Placing a checked block in a segment: one copy, then the fields that the broker owns, by column.

What the broker fills in: queue id, queue offset, commit-log offset, born host, store timestamp and
store host, and at the very end the checksum of each record over all of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

import numpy as np

from ariane_record import RecordBlock
from ariane_record.layout import (
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CommitLogOffset,
    Host,
    QueueOffset,
)
from ariane_storage.block_check import CheckedBlock, checksums
from ariane_storage.fields import FieldColumn, Int64s, checksum_digits, headers


@dataclass(frozen=True, slots=True)
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
class OwnedFields:
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


def place_block(
    view: memoryview, position: int, block: RecordBlock, checked: CheckedBlock, owned: OwnedFields
) -> None:
    """Write a block and its owned fields.

    Args:
        view: The segment, writable.
        position: Where in it the block starts; there is room for all of it.
        block: The records.
        checked: Where they lie in the block.
        owned: What to fill in.
    """
    view[position : position + len(block.records)] = block.records
    starts = checked.starts + position
    header = headers(view, starts, checked.stride)
    header.set_field("queue_id", owned.queue_id)
    count = len(starts)
    first = owned.first_queue_offset
    header.set_field("queue_offset", np.arange(first, first + count))
    header.set_field("commit_log_offset", checked.starts + owned.first_commit_log_offset)
    born_ip, born_port = ipv4_number(owned.born_host)
    store_ip, store_port = ipv4_number(owned.store_host)
    header.set_field("born_ip", born_ip)
    header.set_field("born_port", born_port)
    header.set_field("store_timestamp", owned.store_timestamp_ms)
    header.set_field("store_ip", store_ip)
    header.set_field("store_port", store_port)
    if checked.has_checksums:
        ends = checked.ends + position
        sums = checksums(view, starts, ends - CRC_PROPERTY_BYTES, checked.stride)
        digits = checksum_digits(sums & np.uint32(CRC_MASK))
        places = ends - (CRC_DIGITS + 1)
        FieldColumn(view, digits.dtype, places, checked.stride).set(digits)


@lru_cache(maxsize=4096)
def ipv4_number(host: Host) -> tuple[int, int]:
    """A host as the four bytes and the port that a record has room for.

    A block is encoded with room for IPv4 hosts. An IPv6 address that stands for an IPv4 one is
    written as that; any other leaves the address empty, and the port.
    """
    address = ip_address(host[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return 0, host[1]
        address = address.ipv4_mapped
    return int(address), host[1]
