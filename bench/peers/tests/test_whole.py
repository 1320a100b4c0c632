"""Every work with real processes, few messages, and ourselves on both sides."""

from functools import partial

import pytest
from peer_bench.command import run_bout
from peer_bench.contenders import our_failovers, ours
from peer_bench.peers import Part, Peer, Target
from peer_bench.plan import Bout
from peer_bench.run import TINY
from peer_bench.workloads import WORKLOADS

# The CPU of so many is some ticks of the clock that tells it.
FEW = TINY._replace(count_max=20_000, leg_s=0.5, schedule_s=0.3)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_a_work_gives_its_rows_and_loses_nothing(workload):
    part = Part(consumed=dict.fromkeys(workload.consuming, Target()))
    running = our_failovers.running if workload.key == "failover" else ours.running
    again = partial(running, name="we again")
    peer = Peer("us", again, {workload.key: part}, ours=running)
    rows, run = run_bout(Bout(peer, workload), FEW)
    consumed = len(workload.consuming) * len(workload.received)
    assert len(rows) == len(workload.sent) + consumed
    for row in rows:
        row.check()
        assert (row.lost, row.against) == (0, "we again")
    assert {side["side"] for side in run["sides"]} == {"ours", "theirs"}
    assert set(run["contenders"]) == {"ArianeMQ", "we again"}
