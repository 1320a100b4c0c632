from dataclasses import replace

import pytest
from peer_bench.bodies import expected_digest
from peer_bench.contender import lost_of
from peer_bench.loads import Leg, Load, Usage
from peer_bench.peers import Part, Target
from peer_bench.readings import ACKNOWLEDGED, PERCENTILES, READY, SERVER_CPU
from peer_bench.run import WHOLE, Duel
from peer_bench.workloads import Workload

WORKLOAD = Workload(
    key="batches",
    title="sending",
    load=Load("batches", "", 5000, 64, in_flight=8),
    try_count=10,
    consuming={"listener": "listening", "chunks": "fetching"},
)
SCHEDULE = Workload(
    key="latency", title="late", load=Load("singles", "", 0, 64, rate=1000), sent=PERCENTILES
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
        count = load.count - self._failures
        server = Usage(cpu_s=count / 1e6)
        seconds = next(self._seconds)
        return Leg(count, seconds, failures=self._failures, server=server, ready_s=2 * seconds)

    def consume(self, load):
        self.asked.append(("consume", load))
        return Leg(load.count - self._lost, next(self._seconds), lost=self._lost)

    def exchange(self, load):
        self.asked.append(("exchange", load))
        milliseconds = next(self._seconds)
        notes = {reading.name: milliseconds for reading in PERCENTILES}
        return Leg(load.count, 1, lost=self._lost, failures=self._failures, notes=notes)


def duel(ours, theirs, part, workload=WORKLOAD, **extent):
    return Duel(ours, theirs, part, workload, WHOLE._replace(**{"pairs": 2, **extent}))


def test_both_run_in_turn_on_topics_of_their_own_and_every_topic_is_consumed():
    ours, theirs = Scripted("us", [1, 2, 1, 2]), Scripted("them", [2, 2, 4, 8])
    part = Part(Target(1, 2), in_flight=3, consumed={"listener": Target(3, 4)})
    sent, heard = duel(ours, theirs, part).measure()
    row = sent.row(ours, theirs)
    assert (row.work, row.ratio, row.floor, row.goal, row.lost) == ("sending", 3, 1, 2, 0)
    assert row.versions == {"us": "1", "them": "1"}
    assert heard.row(ours, theirs).ratio == 2.5
    topics = [load.topic for _, load in ours.asked + theirs.asked]
    assert sorted(topics) == sorted([f"bench-{n}" for n in (1, 2, 3, 4)] * 2)
    assert {load.in_flight for what, load in theirs.asked if what == "produce"} == {3}
    assert [side["side"] for side in sent.sides()] == ["ours", "theirs"]


def test_what_is_not_measured_is_consumed_and_compared_all_the_same():
    ours = Scripted("us", [1, 1] * 2, lost=3, failures=2)
    theirs = Scripted("them", [1] * 2)
    (sent,) = duel(ours, theirs, Part(consume=None)).measure()
    assert sent.row(ours, theirs).lost == 2 * (3 + 2)
    assert [what for what, _ in theirs.asked] == ["produce"] * 2


@pytest.mark.parametrize(
    ("seconds", "count"), [(0.001, 5000), (0.006, 2000), (60, 1000)], ids=["all", "some", "few"]
)
def test_a_leg_has_as_many_messages_as_the_slower_side_manages(seconds, count):
    # The warm-up sends 10: what they take tells what fits into 1.5 s.
    ours = Scripted("us", [seconds / 1000] * 6)
    theirs = Scripted("them", [seconds, seconds * 1.25, *[1] * 4])
    fight = duel(ours, theirs, Part(), pairs=1)
    fight.warm_up(0, 4.0)
    fight.measure()
    assert {load.count for _, load in ours.asked[2:] + theirs.asked[2:]} == {count}


def test_a_leg_that_lasts_is_as_long_for_the_faster_side_and_told_until_all_can_be_consumed():
    workload = replace(
        WORKLOAD,
        load=replace(WORKLOAD.load, count=50_000_000),
        sent=(READY, ACKNOWLEDGED),
        consuming={},
        sustained=True,
    )
    # Ten messages: 0.001 s of the faster side are 125,000 in 12.5 s.
    ours = Scripted("us", [0.001, 1, *[10, 1] * 3])
    theirs = Scripted("them", [0.005, *[20] * 3])
    fight = duel(ours, theirs, Part(Target(1, 2), consume=None), workload, pairs=5)
    fight.warm_up(0, 4.0)
    ready, acknowledged = fight.measure()
    assert {load.count for _, load in ours.asked[2:] + theirs.asked[1:]} == {125_000}
    rows = [each.row(ours, theirs) for each in (ready, acknowledged)]
    assert [(row.ours, row.ratio, row.pairs) for row in rows] == [(6250, 2, 3), (12_500, 2, 3)]
    assert [row.floor for row in rows] == [1, None]
    assert [row.work for row in rows] == [
        "sending, until all can be consumed",
        "sending, until all is acknowledged",
    ]


def test_topics_that_last_are_the_same_in_all_legs_and_their_first_round_tells_no_pace():
    workload = replace(WORKLOAD, load=replace(WORKLOAD.load, topics=3, group="lasting"))
    # Of 10 messages: the first round takes 100 s, the next one 0.01 s, so that 1.5 s are 1500.
    ours = Scripted("us", [100, 100, 0.01, 0.01, *[1] * 4])
    theirs = Scripted("them", [100, 100, 0.01, 0.01, *[1] * 4])
    fight = duel(ours, theirs, Part(), workload)
    fight.warm_up(0, 4.0)
    fight.measure()
    loads = [load for _, load in ours.asked + theirs.asked]
    assert {(load.topic, load.group) for load in loads} == {("bench-0", "lasting")}
    assert [load.count for _, load in ours.asked] == [10] * 4 + [1000] * 4


def test_who_is_asked_for_its_pace_alone_sends_a_share():
    ours = Scripted("us", [0.001] * 4)
    theirs = Scripted("them", [0.02, 1])
    fight = duel(ours, theirs, Part(share=0.1, consume=None), pairs=1)
    fight.warm_up(0, 4.0)
    fight.measure()
    # It took 0.02 s for 1 message instead of our 10: 1.5 s are 750 of ours.
    assert [load.count for _, load in theirs.asked] == [1, 100]
    assert {load.count for _, load in ours.asked[2:]} == {1000}


def test_warming_up_goes_on_for_its_time_and_at_least_once():
    ours, theirs = Scripted("us", [1] * 2), Scripted("them", [1] * 2)
    duel(ours, theirs, Part()).warm_up(0, 4.0)
    assert [what for what, _ in ours.asked] == ["produce", "consume"]


def test_a_schedule_gives_a_row_for_each_percentile_and_less_is_better():
    ours, theirs = Scripted("us", [2, 4], lost=1, failures=2), Scripted("them", [4, 4])
    measured = duel(ours, theirs, Part(Target(0.5, 1)), SCHEDULE, schedule_s=3).measure()
    rows = [each.row(ours, theirs) for each in measured]
    assert [row.work for row in rows] == ["late, p50", "late, p99", "late, p99.9", "late, max"]
    assert [row.floor for row in rows] == [None, 0.5, None, None]
    assert {(row.unit, row.ratio, row.lost) for row in rows} == {("ms", 1.5, 6)}
    _, load = ours.asked[0]
    assert (load.count, load.warm_up_count) == (4000, 1000)


def test_the_cpu_of_a_message_is_read_from_the_servers():
    workload = replace(WORKLOAD, sent=(SERVER_CPU,))
    ours, theirs = Scripted("us", [1] * 4), Scripted("them", [1] * 2)
    (measured,) = duel(ours, theirs, Part(Target(1, 3), consume=None), workload).measure()
    row = measured.row(ours, theirs)
    assert (row.ours, row.unit, row.ratio) == (1, "us", 1)


def test_what_only_fills_a_topic_gives_no_row_and_its_losses_are_told():
    workload = replace(WORKLOAD, sent=())
    ours, theirs = Scripted("us", [1, 1] * 2, failures=2), Scripted("them", [1, 1] * 2)
    part = Part(consumed={"listener": Target()})
    (heard,) = duel(ours, theirs, part, workload).measure()
    assert heard.row(ours, theirs).work == "listening"
    assert heard.lost == 4


def test_a_leg_that_lacks_messages_or_has_others_is_told():
    load = Load("chunks", "t", 50, 64)
    whole = Leg(50, 1, digest=expected_digest(64, 50))
    assert lost_of(whole, load) == 0
    assert lost_of(replace(whole, count=47), load) == 3
    assert lost_of(replace(whole, count=51), load) == 1
    assert lost_of(replace(whole, digest=1), load) == 1
    assert lost_of(replace(whole, digest=None), load) == 0


def test_each_group_gets_all():
    load = Load("listener", "t", 50, 64, groups=4)
    digest = 4 * expected_digest(64, 50) % (1 << 64)
    assert lost_of(Leg(200, 1, digest=digest), load) == 0
    assert lost_of(Leg(199, 1, digest=digest), load) == 1
    assert lost_of(Leg(200, 1, digest=digest + 1), load) == 1
