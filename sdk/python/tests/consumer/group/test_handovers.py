"""When a member takes over queues of members that a broker does not know yet."""

from types import SimpleNamespace

from ariane_sdk.consumer.group.handovers import REJOIN_S, Handovers

HANDOVER_S = 1.5
HERE, OTHER = "broker-a", "broker-b"


class Times:
    """A clock, and which brokers are there."""

    def __init__(self):
        self.now_s, self.attached = 100.0, {HERE, OTHER}
        clock = SimpleNamespace(monotonic_s=lambda: self.now_s)
        self.handovers = Handovers(HANDOVER_S, clock, is_attached=self.attached.__contains__)
        for each in (HERE, OTHER):
            self.handovers.accepted(each, 0.0)


def test_the_first_member_at_a_new_primary_waits_for_the_others():
    times = Times()
    handovers = times.handovers
    assert handovers.wait_s([1]) == 0.0, "it begins alone"
    assert handovers.wait_s([2, 1]) == HANDOVER_S, "another one joins"
    assert handovers.left_s(HERE) == 0.0
    times.attached.remove(HERE)
    assert handovers.left_s(HERE) == REJOIN_S, "it is away, and so are the others"
    times.attached.add(HERE)
    handovers.accepted(HERE, 0.0)
    times.now_s += 1.0
    assert handovers.left_s(HERE) == REJOIN_S - 1.0, "the other one is not back yet"
    assert handovers.left_s(OTHER) == 0.0
    handovers.accepted(HERE, 0.0)
    assert handovers.left_s(HERE) == REJOIN_S, "the broker was away once more"
    times.now_s += REJOIN_S
    assert handovers.left_s(HERE) == 0.0
    assert handovers.wait_s([2, 1]) == HANDOVER_S
    assert handovers.wait_s([1, 1]) == 0.0, "the other one has left"


def test_a_member_that_is_always_alone_waits_for_nobody():
    times = Times()
    handovers = times.handovers
    for _ in range(2):
        handovers.accepted(HERE, 0.0)
        assert handovers.wait_s([1]) == 0.0
        assert handovers.left_s(HERE) == 0.0


def test_a_member_that_is_new_waits_as_long_as_a_new_primary_says():
    times = Times()
    handovers = times.handovers
    handovers.accepted(HERE, 3.0)
    assert handovers.wait_s([1]) == 0.0
    assert (handovers.left_s(HERE), handovers.left_s(OTHER)) == (3.0, 0.0)
    times.now_s += 3.0
    assert handovers.left_s(HERE) == 0.0
