"""All workloads, in the order in which they are run and shown."""

from __future__ import annotations

from typing import Final

from peer_bench.workloads import batches, columns, singles
from peer_bench.workloads.workload import Workload

WORKLOADS: Final[tuple[Workload, ...]] = (
    batches.WORKLOAD,
    columns.WORKLOAD,
    *singles.WORKLOADS,
)
