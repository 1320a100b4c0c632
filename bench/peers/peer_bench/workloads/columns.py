"""Columns: Arrow tables go in, and record batches come out.

Tables of 256 and of 1,024 rows of 1 KiB are batches of 256 KiB and 1 MiB that are there before they
are sent: what sending them costs is beside what the same bytes cost as bare gRPC calls.
"""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOADS: Final = (
    Workload(
        key="columns",
        title="burst: columns of 128 B",
        load=Load("columns", "", 2_000_000, 128, in_flight=4, batch=1000),
        try_count=200_000,
        consuming={"chunks": "catch-up consuming, columns, 128 B"},
    ),
    Workload(
        key="columns-256k",
        title="burst: columns of 1 KiB, tables of 256 KiB",
        load=Load("columns", "", 600_000, 1024, in_flight=4, batch=256, rows=256),
        try_count=50_000,
    ),
    Workload(
        key="columns-1m",
        title="burst: columns of 1 KiB, tables of 1 MiB",
        load=Load("columns", "", 600_000, 1024, in_flight=4, batch=1024, rows=1024),
        try_count=50_000,
    ),
)
