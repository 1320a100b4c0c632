"""When a member takes over queues of members that a broker does not know yet."""

from types import SimpleNamespace

from ariane_sdk.consumer.group.handovers import REJOIN_S, Handovers

HANDOVER_S = 1.5


def test_the_first_member_at_a_new_primary_waits_for_the_others():
    now_s = 100.0
    handovers = Handovers(HANDOVER_S, SimpleNamespace(monotonic_s=lambda: now_s))
    handovers.accepted("broker-a")
    assert handovers.wait_s([1]) == 0.0, "it begins alone"
    assert handovers.wait_s([2, 1]) == HANDOVER_S, "another one joins"
    handovers.accepted("broker-a")
    now_s += 1.0
    assert handovers.wait_s([1, 1]) == REJOIN_S - 1.0, "the other one is not back yet"
    handovers.accepted("broker-a")
    assert handovers.left_s() == REJOIN_S, "the broker was away once more"
    now_s += 1.0
    assert handovers.wait_s([2, 1]) == REJOIN_S - 1.0
    now_s += REJOIN_S
    assert handovers.left_s() == 0.0
    assert handovers.wait_s([2, 1]) == HANDOVER_S
    assert handovers.wait_s([1, 1]) == 0.0, "the other one has left"


def test_a_member_that_is_always_alone_waits_for_nobody():
    handovers = Handovers(HANDOVER_S, SimpleNamespace(monotonic_s=lambda: 0.0))
    for _ in range(2):
        handovers.accepted("broker-a")
        assert handovers.wait_s([1]) == 0.0
