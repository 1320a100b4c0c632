"""Records with IPv6 hosts: twelve bytes more for each, for which the block has no room.

::

    in the block      | ... | born ip 4 | port | stored at | store ip 4 | port | ...
    in the log        | ... | born ip 16                | port | stored at | store ip 16 ...

A producer does not know which addresses the broker will store, so blocks have room for IPv4. If a
host is IPv6, the headers are made anew by column, and joined with the rest of the records: this
costs one C call for each record, where the usual way has none, and a checksum for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordBlock, SystemFlag
from ariane_record.checksums.checksum import range_crcs
from ariane_record.layout import CRC_PROPERTY_BYTES, HEADER, HEADER_BYTES, IPV6_EXTRA_BYTES
from ariane_storage.errors import BlockRejected
from ariane_storage.log.records.fields import Int64s
from ariane_storage.writing.append import OwnedFields, fill_headers, is_ipv6, write_checksums
from ariane_storage.writing.block_check import CheckedBlock

_HOSTS: Final = ("born_ip", "store_ip")


def _wide_header(*, born_ipv6: bool, store_ipv6: bool) -> np.dtype[Any]:
    wide = {"born_ip": born_ipv6, "store_ip": store_ipv6}
    names = HEADER.names or ()
    return np.dtype([(name, "V16" if wide.get(name) else HEADER[name]) for name in names])


_HEADERS: Final = {
    (born_ipv6, store_ipv6): _wide_header(born_ipv6=born_ipv6, store_ipv6=store_ipv6)
    for born_ipv6 in (False, True)
    for store_ipv6 in (False, True)
}


@dataclass(frozen=True, slots=True)
class WideRecords:
    """A valid block whose records are written wider than in the block.

    Attributes:
        block: The block.
        checked: The places of its records.
        starts: Byte position of each wide record, relative to the first.
        sizes: Bytes of each wide record.
        header: Their header.
    """

    block: RecordBlock
    checked: CheckedBlock
    starts: Int64s
    sizes: NDArray[np.int32]
    header: np.dtype[Any]

    @classmethod
    def of(
        cls, block: RecordBlock, checked: CheckedBlock, owned: OwnedFields, block_bytes_max: int
    ) -> WideRecords:
        """Make the records of a block wide enough for two hosts.

        Raises:
            BlockRejected: The wide block does not fit into a segment.
        """
        header = _HEADERS[is_ipv6(owned.born_host), is_ipv6(owned.store_host)]
        extra = header.itemsize - HEADER_BYTES
        size_bytes = len(block.records) + extra * block.count
        if size_bytes > block_bytes_max:
            reason = f"{size_bytes} bytes with IPv6 hosts; a segment takes {block_bytes_max}"
            raise BlockRejected(reason)
        starts = checked.starts + np.arange(0, extra * block.count, extra)
        return cls(block, checked, starts, block.sizes + np.int32(extra), header)

    @property
    def size_bytes(self) -> int:
        """The bytes of all records."""
        return int(self.starts[-1]) + int(self.sizes[-1])

    def place(self, view: memoryview, position: int, owned: OwnedFields) -> None:
        """Write the records and their owned fields; see ``append.PackedRecords``."""
        checked = self.checked
        headers = self._headers(owned).view(f"V{self.header.itemsize}").tolist()
        edges = map(slice, (checked.starts + HEADER_BYTES).tolist(), checked.ends.tolist())
        rests = map(memoryview(self.block.records).__getitem__, edges)
        woven = b"".join(chain.from_iterable(zip(headers, rests, strict=True)))
        view[position : position + len(woven)] = woven
        if checked.has_checksums:
            starts = self.starts + position
            ends = starts + self.sizes
            stride = int(self.sizes[-1]) if checked.stride else 0
            sums = range_crcs(view, starts, ends - CRC_PROPERTY_BYTES)
            write_checksums(view, ends, stride, sums)

    def _headers(self, owned: OwnedFields) -> NDArray[np.void]:
        narrow = self.checked.headers
        headers = np.zeros(len(narrow), self.header)
        for name in HEADER.names or ():
            if name not in _HOSTS:
                headers[name] = narrow[name]
        headers["size"] = self.sizes
        flags = SystemFlag.BORN_HOST_IPV6 * is_ipv6(owned.born_host)
        flags |= SystemFlag.STORE_HOST_IPV6 * is_ipv6(owned.store_host)
        headers["system_flag"] |= int(flags)
        first = owned.first_queue_offset
        queue_offsets = np.arange(first, first + len(narrow))
        fill_headers(headers, owned, queue_offsets, self.starts + owned.first_commit_log_offset)
        return headers


assert _HEADERS[True, True].itemsize == HEADER_BYTES + 2 * IPV6_EXTRA_BYTES  # noqa: S101 - layout.
