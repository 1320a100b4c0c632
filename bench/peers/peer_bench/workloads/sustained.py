"""Sending that lasts: legs of ten seconds and more, until the last message can be consumed.

A burst is answered out of memory: what a server does with its messages afterwards costs it
nothing yet. So these legs are long, and their clock stops twice: at the last acknowledgement, and
when all that was acknowledged can be consumed. A server that acknowledges faster than it makes
messages ready is as fast as the second clock says, for as long as it is asked for more.
"""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import ACKNOWLEDGED, READY
from peer_bench.workloads.workload import Workload

_COUNT_MAX: Final = 40_000_000

WORKLOADS: Final = (
    Workload(
        key="sustained-batches",
        title="sustained: explicit batches of 1,000 objects, 1 KiB",
        load=Load("batches", "", _COUNT_MAX, 1024, in_flight=8, batch=1000, until_ready=True),
        try_count=1_000_000,
        sent=(READY, ACKNOWLEDGED),
        sustained=True,
    ),
    Workload(
        key="sustained-batches-128",
        title="sustained: explicit batches of 1,000 objects, 128 B",
        load=Load("batches", "", _COUNT_MAX, 128, in_flight=8, batch=1000, until_ready=True),
        try_count=1_000_000,
        sent=(READY, ACKNOWLEDGED),
        sustained=True,
    ),
    Workload(
        key="sustained-columns",
        title="sustained: columns of 128 B",
        load=Load("columns", "", _COUNT_MAX, 128, in_flight=4, batch=1000, until_ready=True),
        try_count=1_000_000,
        sent=(READY, ACKNOWLEDGED),
        sustained=True,
    ),
)
