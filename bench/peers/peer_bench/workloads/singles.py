"""Single sends, each awaited: one at a time, 64 and 1,024 at a time."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOADS: Final = (
    Workload(
        key="singles-64",
        title="single sends, 64 in flight, 1 KiB",
        load=Load("singles", "", 150_000, 1024, in_flight=64),
        try_count=20_000,
    ),
    Workload(
        key="singles-1024",
        title="single sends, 1,024 in flight, 1 KiB",
        load=Load("singles", "", 300_000, 1024, in_flight=1024),
        try_count=30_000,
    ),
    Workload(
        key="singles-1",
        title="single sends, one at a time, 1 KiB",
        load=Load("singles", "", 10_000, 1024),
        try_count=2_000,
    ),
)
