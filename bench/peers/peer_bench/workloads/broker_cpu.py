"""What a broker does for a message: CPU time of its process, of messages that come in batches."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import SERVER_CPU
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="broker-cpu",
    title="broker CPU for a 1 KiB message in batches",
    load=Load("batches", "", 500_000, 1024, in_flight=8, batch=1000),
    try_count=50_000,
    sent=(SERVER_CPU,),
)
