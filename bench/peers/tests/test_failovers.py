from peer_bench.contenders.failovers import TOPIC, Failovers
from peer_bench.loads import Load


class Recorded:
    """A driver and brokers that only note what is asked of them."""

    def __init__(self):
        self.steps = []

    def ask(self, what, **words):
        assert words["topic"] == TOPIC
        self.steps.append(what)

    def wait_in_sync(self):
        self.steps.append("in sync")

    def kill_primary(self):
        self.steps.append("kill")

    def restart_killed(self):
        self.steps.append("restart")


def test_a_leg_is_one_kill_between_two_messages():
    recorded = Recorded()
    failovers = Failovers("us", recorded, recorded, settings={}, versions={})
    leg = failovers.exchange(Load("singles", "", 1, 1024))
    assert recorded.steps == [
        "in sync",
        "send_until_stored",
        "kill",
        "send_until_stored",
        "restart",
    ]
    assert leg.count == 1
    assert 0 < leg.seconds < 1
