from dataclasses import replace

from peer_bench.bodies import expected_digest
from peer_bench.contender import lost_of
from peer_bench.loads import Leg, Load
from peer_bench.peers import Part, Peer, Target
from peer_bench.run import Duel
from peer_bench.workloads import Workload

WORKLOAD = Workload(
    key="batches",
    title="sending",
    load=Load("batches", "", 100, 64, in_flight=8),
    count_quick=10,
    consuming={"listener": "listening", "chunks": "fetching"},
)


class Scripted:
    """A contender whose legs take as long as it is told."""

    def __init__(self, name, seconds, *, lost=0, failures=0):
        self.name, self.settings, self.versions = name, {}, {name: "1"}
        self.asked = []
        self._seconds = iter(seconds)
        self._lost, self._failures = lost, failures

    def produce(self, load):
        self.asked.append(("produce", load))
        return Leg(load.count - self._failures, next(self._seconds), failures=self._failures)

    def consume(self, load):
        self.asked.append(("consume", load))
        return Leg(load.count - self._lost, next(self._seconds), lost=self._lost)


def duel(ours, theirs, part, **options):
    peer = Peer("queue", lambda _: None, {"batches": part})
    return Duel(ours, theirs, peer, **{"pairs": 2, "quick": False, **options})


def test_both_run_in_turn_on_topics_of_their_own_and_every_topic_is_consumed():
    ours, theirs = Scripted("us", [1, 2, 1, 2]), Scripted("them", [2, 2, 4, 8])
    part = Part(Target(1, 2), in_flight=3, consumed={"listener": Target(3, 4)})
    sent, heard = duel(ours, theirs, part).measure(WORKLOAD)
    row = sent.row(ours, theirs)
    assert (row.work, row.ratio, row.floor, row.goal, row.lost) == ("sending", 3, 1, 2, 0)
    assert row.versions == {"us": "1", "them": "1"}
    assert heard.row(ours, theirs).ratio == 2.5
    topics = [load.topic for _, load in ours.asked + theirs.asked]
    assert sorted(topics) == sorted([f"bench-{n}" for n in (1, 2, 3, 4)] * 2)
    assert {load.in_flight for what, load in theirs.asked if what == "produce"} == {3}
    assert len(list(sent.legs())) == 4


def test_what_is_not_measured_is_consumed_and_compared_all_the_same():
    ours = Scripted("us", [1, 1] * 2, lost=3, failures=2)
    theirs = Scripted("them", [1] * 2)
    (sent,) = duel(ours, theirs, Part(consume=None)).measure(WORKLOAD)
    assert sent.row(ours, theirs).lost == 2 * (3 + 2)
    assert [what for what, _ in theirs.asked] == ["produce"] * 2


def test_with_little_time_there_are_fewer_messages():
    ours, theirs = Scripted("us", [1, 1]), Scripted("them", [1, 1])
    duel(ours, theirs, Part(), pairs=1, quick=True).measure(WORKLOAD)
    assert {load.count for _, load in ours.asked} == {10}


def test_warming_up_goes_on_for_its_time_and_at_least_once():
    ours, theirs = Scripted("us", [1] * 2), Scripted("them", [1] * 2)
    duel(ours, theirs, Part()).warm_up(WORKLOAD, 0)
    assert [what for what, _ in ours.asked] == ["produce", "consume"]


def test_a_leg_that_lacks_messages_or_has_others_is_told():
    load = Load("chunks", "t", 50, 64)
    whole = Leg(50, 1, digest=expected_digest(64, 50))
    assert lost_of(whole, load) == 0
    assert lost_of(replace(whole, count=47), load) == 3
    assert lost_of(replace(whole, count=51), load) == 1
    assert lost_of(replace(whole, digest=1), load) == 1
    assert lost_of(replace(whole, digest=None), load) == 0
