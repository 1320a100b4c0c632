"""Records with IPv6 hosts: twelve bytes more for each, for which the table has no room.

::

    in the table      | ... | born ip 4 | port | stored at | store ip 4 | port | ...
    in the log        | ... | born ip 16                | port | stored at | store ip 16 ...

A producer does not know which addresses the broker will store, so tables have room for IPv4. If a
host is IPv6, the headers are made anew by column, and joined with the rest of the records, before
they are written as all others: this costs one C call for each record, where the usual way has none,
and a checksum for each.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordTable, SystemFlag
from ariane_record.layout import HEADER, HEADER_BYTES, IPV6_EXTRA_BYTES
from ariane_storage.errors import BlockRejected
from ariane_storage.writing.append import OwnedFields, is_ipv6, packed_host
from ariane_storage.writing.packed_records import PackedRecords
from ariane_storage.writing.table_check import CheckedTable

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


def wide_records(
    table: RecordTable, checked: CheckedTable, owned: OwnedFields, table_bytes_max: int
) -> PackedRecords:
    """Make the records of a table wide enough for two hosts, and fill in these.

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
        if name not in _HOSTS:
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


assert _HEADERS[True, True].itemsize == HEADER_BYTES + 2 * IPV6_EXTRA_BYTES  # noqa: S101 - layout.
