"""End to end at a fixed rate: from when a message was due to be sent to the listener's call.

The same messages tell how long after that each was acknowledged. An open loop: the schedule is
fixed beforehand, the sender waits for no answer, and a message that leaves late counts from when it
was due.
"""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import ACKNOWLEDGEMENTS, PERCENTILES
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="latency",
    title="end to end at 5,000 messages a second, 1 KiB",
    load=Load("singles", "", 0, 1024, rate=5000),
    sent=(*PERCENTILES, *ACKNOWLEDGEMENTS),
)
