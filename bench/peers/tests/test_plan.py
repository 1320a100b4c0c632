from peer_bench.command import LEG_SHARE_MIN, WHOLE_S_MAX
from peer_bench.peers import NOBODY_SAID
from peer_bench.plan import Forecast, bouts_of
from peer_bench.registry import PEERS
from peer_bench.run import QUICK, WHOLE
from peer_bench.workloads import WORKLOADS


def keys(**chosen):
    return [bout.key for bout in bouts_of(PEERS, **chosen)]


def test_everything_is_run_once_and_fits_into_its_time():
    every = bouts_of(PEERS)
    assert len({bout.key for bout in every}) == len(every)
    assert {bout.workload.key for bout in every} == {workload.key for workload in WORKLOADS}
    assert {bout.peer.key for bout in every} == {peer.key for peer in PEERS}
    shortest = WHOLE._replace(leg_s=WHOLE.leg_s * LEG_SHARE_MIN)
    assert sum(bout.expected_s(shortest) for bout in every) < WHOLE_S_MAX
    assert sum(bout.expected_s(QUICK) for bout in bouts_of(PEERS, quick=True)) < 5 * 60


def test_peers_and_works_are_chosen_by_their_names():
    assert keys(only=["nats"]) == [
        ("nats", "batches"),
        ("nats", "singles-64"),
        ("nats", "topics-peers"),
    ]
    assert keys(only=["nats", "batches"]) == [("nats", "batches")]
    assert {peer for peer, _ in keys(only=["latency"])} == {"rocketmq", "kafka-java"}


def test_many_topics_stand_beside_as_many_of_every_peer_that_has_them_and_of_nobody_in_a_hurry():
    beside = bouts_of(PEERS, only=["topics-peers"])
    keys = [bout.peer.key for bout in beside]
    assert keys == ["rocketmq", "aiokafka", "nats", "nats-one-stream"]
    for bout in beside:
        load = bout.part.load_from(bout.workload.load)
        assert (load.topics, load.shape, load.body_bytes) == (256, "singles", 1024)
        assert bout.part.produced == NOBODY_SAID
        assert bout.part.consume is not None
    assert not bouts_of(PEERS, quick=True, only=["topics-peers"])


def test_what_is_left_is_what_it_took_before_or_what_is_expected():
    first, second = bouts_of(PEERS, only=["nats", "batches", "singles-64"])
    runs = {"nats": {"took_s": {"batches": {"5": 500.0, "2": 9.0}}}}
    forecast = Forecast([first, second], WHOLE, runs)
    assert forecast.left_s == 500 + second.expected_s(WHOLE)
    forecast.took(first, 1060.0)
    assert forecast.left_s == 2 * second.expected_s(WHOLE)
    forecast.drop(second.peer)
    assert forecast.left_s == 0
