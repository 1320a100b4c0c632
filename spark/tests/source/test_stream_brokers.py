"""A streaming query whose queues grow, and whose brokers come and go, while it asks about them."""

import json
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ariane.namesrv.v1.maintenance_service_pb2 import WipeWritePermissionRequest
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from ariane_sdk import Message
from ariane_sdk.errors import RouteNotFound
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.errors import DataLost
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.left_brokers import RETURN_S_MAX
from ariane_spark.source.stream_reader import ArianeStreamReader
from ariane_testkit.small_store import SMALL_STORE
from ariane_wire import blocking

ALL = ReadAllAvailable()


def offsets(**by_broker):
    return {"orders": {name.replace("_", "-"): {"0": at} for name, at in by_broker.items()}}


def through_spark(positions):
    """Positions as they come back from the checkpoint."""
    return json.loads(json.dumps(positions))


BUSY = [
    {"startingTimestamp": "9999"},
    {"startingOffsetsByTimestamp": '{"orders/broker-a/0": 9999}'},
    {"group": "live"},
]
"""Starts that are asked for after the ends of queues, and beyond them by then."""


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("given", BUSY)
def test_a_queue_that_grows_while_its_start_is_looked_for_is_no_loss(
    cluster, growing, reader_with, given, available_now
):
    growing("orders", "broker-a", 0, 10)
    reader = reader_with(offsetCacheMs="500", **given)
    if available_now:
        reader.prepareForTriggerAvailableNow()

    start = through_spark(reader.initialOffset())

    assert start == offsets(broker_a=12)
    assert reader.latestOffset(start, ALL) is start
    with pytest.raises(DataLost, match="read from 99 on, but ends at 12"):
        reader_with(startingOffsets=json.dumps(offsets(broker_a=99))).initialOffset()


def test_a_run_that_ends_has_its_start_before_its_end(cluster, reader_with, caplog):
    """Spark has it prepared first, and asks for the start later, maybe much later."""
    cluster.add("orders", "broker-a", 0, 10)
    cluster.uncertain = frozenset({"orders"})

    def sleep(_seconds):
        cluster.add("orders", "broker-a", 0, 5)
        cluster.add("orders", "broker-b", 0, 7)
        cluster.uncertain = frozenset()

    reader = reader_with(sleep=sleep)
    reader.prepareForTriggerAvailableNow()
    assert "brokers of orders may be missing" in caplog.text

    start = through_spark(reader.initialOffset())

    assert start == offsets(broker_a=15, broker_b=7)
    assert reader.latestOffset(start, ALL) is start


def test_a_queue_whose_broker_left_just_now_is_waited_for(cluster, clock, reader_with, caplog):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.away["orders"] = frozenset({"broker-b"})
    reader = reader_with()
    end = through_spark(offsets(broker_a=5, broker_b=7))

    assert reader.latestOffset(through_spark(offsets(broker_a=1, broker_b=7)), ALL) == end
    clock.now += RETURN_S_MAX - 1
    assert reader.latestOffset(end, ALL) is end
    assert caplog.text.count("broker broker-b, with queues of orders, left") == 1
    queue = cluster.add("orders", "broker-b", 0, 7)
    assert reader.latestOffset(end, ALL) is end
    del cluster.queues[queue]
    clock.now += 2
    assert reader.latestOffset(end, ALL) is end  # It left again.
    clock.now += RETURN_S_MAX
    with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
        reader.latestOffset(end, ALL)


def test_who_is_away_is_asked_for_once_with_the_ends_of_queues(cluster, clock, reader_with):
    """Name servers are not to hear of a deleted topic for each of its queues in each idle look."""
    start = {"orders": {f"broker-{name}": {str(n): 7 for n in range(8)} for name in "ab"}}
    cluster.add("refunds", "broker-a", 0, 5)
    asked = []

    def away_brokers(topic):
        asked.append(topic)
        raise RouteNotFound(f"no broker carries {topic}")

    cluster.away_brokers = away_brokers
    given = {"topic": None, "topics": "orders,refunds", "offsetCacheMs": "500"}
    reader = reader_with(failOnDataLoss="false", **given)

    end = through_spark(reader.latestOffset(through_spark(start), ALL))
    assert end["refunds"]["broker-a"]["0"] == 5
    for _ in range(10):
        assert reader.latestOffset(end, ALL) is end
    assert asked == ["orders"]
    clock.now += 0.5
    assert reader.latestOffset(end, ALL) is end
    assert asked == ["orders"] * 2


def test_a_run_that_ends_does_not_leave_out_a_broker_that_left(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.away["orders"] = frozenset({"broker-b"})
    reader = reader_with()
    reader.prepareForTriggerAvailableNow()

    with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
        reader.latestOffset(through_spark(offsets(broker_a=1, broker_b=7)), ALL)


@pytest.fixture
def drained(cluster):
    """A queue that takes no more messages, beside one that does."""
    cluster.add("orders", "broker-a", 0, 5)
    queue = cluster.add("orders", "broker-b", 0, 7)
    cluster.closed.add(queue)
    return queue


DONE = {"orders": {"broker-a": {"0": 5}, "broker-b": {"0": 7, "done": [0]}}}


@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_queue_of_a_drained_broker_that_was_read_to_its_end_is_no_loss(
    cluster, drained, reader_with, available_now, restarted
):
    reader = reader_with()
    end = through_spark(reader.latestOffset(through_spark(offsets(broker_a=1, broker_b=1)), ALL))
    assert end == DONE
    assert reader.latestOffset(end, ALL) is end
    del cluster.queues[drained]
    cluster.add("orders", "broker-a", 0, 1)

    if restarted:
        reader = reader_with()
    if available_now:
        reader.prepareForTriggerAvailableNow()

    after = through_spark(reader.latestOffset(end, ALL))
    assert after == {"orders": {"broker-a": {"0": 6}, "broker-b": {"0": 7, "done": [0]}}}
    partitions = reader.partitions(end, after)
    assert [(part.begin, part.end) for each in partitions for part in each.ranges] == [(5, 6)]
    assert reader.latestOffset(after, ALL) is after


def test_a_query_that_starts_at_the_end_of_a_drained_broker_is_done_with_it(drained, reader_with):
    reader = reader_with(startingOffsets="latest")

    start = through_spark(reader.initialOffset())

    assert start == DONE
    assert reader.latestOffset(start, ALL) is start


def test_what_is_left_at_a_drained_broker_is_a_loss_with_it(cluster, clock, drained, reader_with):
    """It may be drained for a restart: a stream that has seen it waits."""
    reader = reader_with()
    start = through_spark(offsets(broker_a=5, broker_b=1))
    end = through_spark(reader.latestOffset(start, ReadMaxRows(4)))
    assert end == offsets(broker_a=5, broker_b=5)
    del cluster.queues[drained]

    assert reader.latestOffset(end, ALL) is end
    clock.now += RETURN_S_MAX + 1
    for each in (reader, reader_with()):
        with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
            each.latestOffset(end, ALL)


def test_a_broker_that_takes_messages_again_is_done_with_no_more(cluster, drained, reader_with):
    reader = reader_with()
    cluster.closed.clear()

    end = through_spark(reader.latestOffset(DONE, ALL))

    assert end == offsets(broker_a=5, broker_b=7)
    assert reader.latestOffset(end, ALL) is end
    del cluster.queues[drained]
    with pytest.raises(DataLost):
        reader.latestOffset(end, ALL)


def test_a_broker_that_left_undrained_may_have_got_messages_since(cluster, drained, reader_with):
    """As one that was full when the stream last looked."""
    del cluster.queues[drained]
    cluster.away["orders"] = frozenset({"broker-b"})
    reader = reader_with()
    reader.prepareForTriggerAvailableNow()

    with pytest.raises(DataLost):
        reader.latestOffset(DONE, ALL)


def test_a_queue_fewer_is_no_loss_once_it_is_read(cluster, drained, reader_with):
    """First nobody writes to it, then nobody reads it; its broker is there all the time."""
    more = cluster.add("orders", "broker-b", 1, 3)
    reader = reader_with()
    end = through_spark(reader.latestOffset(through_spark(offsets(broker_a=5, broker_b=7)), ALL))
    del cluster.queues[drained]

    assert reader.latestOffset(end, ALL) is end
    cluster.add("orders", more.broker_name, more.queue_id, 1)
    after = reader.latestOffset(end, ALL)
    assert after["orders"]["broker-b"] == {"0": 7, "1": 4, "done": [0]}


def test_a_loss_that_was_accepted_once_is_none_later(cluster, drained, reader_with):
    """A query that was stopped while its broker was drained and removed cannot know its end."""
    del cluster.queues[drained]
    start = through_spark(offsets(broker_a=5, broker_b=7))
    with pytest.raises(DataLost, match="was stopped when its broker was drained"):
        reader_with().latestOffset(start, ALL)

    accepted = through_spark(reader_with(failOnDataLoss="false").latestOffset(start, ALL))

    assert accepted == DONE
    assert reader_with().latestOffset(accepted, ALL) is accepted
    cluster.away["orders"] = frozenset({"broker-b"})
    reader = reader_with()
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost):  # It left undrained, and may have got more.
        reader.latestOffset(accepted, ALL)
    cluster.add("orders", "broker-b", 0, 9)
    cluster.closed.clear()
    assert reader_with().latestOffset(accepted, ALL) == offsets(broker_a=5, broker_b=9)


@pytest.mark.slow
def test_a_broker_that_is_drained_and_stopped_ends_no_stream(tmp_path, monkeypatch):
    """Neither the one that runs nor the one that is started from its checkpoint."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    monkeypatch.setattr("ariane_spark.calls.routes.ROUTE_AGE_S_MAX", 0.0)
    with (
        LocalCluster(tmp_path, brokers=2, extra_broker_args=SMALL_STORE) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        client.create_topic("orders", queue_count=2)
        given = {"endpoints": cluster.name_servers, "topic": "orders", "offsetCacheMs": "0"}
        options = read_options({**given, "startingOffsets": "earliest"}, Use.STREAM_READ)
        projection = Projection.of(message_schema(["queueOffset"]))
        reader = ArianeStreamReader(options, projection)
        producer.send_batch([Message("orders", b"x")] * 40)
        start = through_spark(reader.initialOffset())
        end = through_spark(reader.latestOffset(start, ALL))
        assert set(end["orders"]) == {"broker-a", "broker-b"}
        with blocking.insecure_channel(cluster.name_servers) as channel:
            drain = WipeWritePermissionRequest(broker_name="broker-b")
            MaintenanceServiceStub(channel).WipeWritePermission(drain, timeout=60)

        done = through_spark(reader.latestOffset(end, ALL))
        assert done["orders"]["broker-b"]["done"] == [0, 1]
        cluster.call_blocking(cluster.brokers[1].stop)

        for each in (reader, ArianeStreamReader(options, projection)):
            assert each.latestOffset(done, ALL) is done
            assert set(each.reportLatestOffset()["orders"]) == {"broker-a"}
        with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
            ArianeStreamReader(options, projection).latestOffset(start, ALL)


@pytest.mark.slow
def test_a_broker_that_restarts_ends_no_stream(tmp_path, monkeypatch):
    """It unregisters when it stops: routes have the other one alone."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    with (
        LocalCluster(tmp_path, brokers=2, extra_broker_args=SMALL_STORE) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        client.create_topic("orders", queue_count=1)
        given = {"endpoints": cluster.name_servers, "topic": "orders", "offsetCacheMs": "0"}
        options = read_options({**given, "startingOffsets": "earliest"}, Use.STREAM_READ)
        reader = ArianeStreamReader(options, Projection.of(message_schema(["queueOffset"])))
        producer.send_batch([Message("orders", b"x")] * 40)
        start = through_spark(reader.initialOffset())
        end = through_spark(reader.latestOffset(start, ALL))
        assert set(end["orders"]) == {"broker-a", "broker-b"}
        broker = cluster.brokers[1]
        cluster.call_blocking(broker.stop)

        assert reader.latestOffset(end, ALL) is end
        assert set(reader.reportLatestOffset()["orders"]) == {"broker-a"}
        cluster.call_blocking(broker.start)
        until_s = time.monotonic() + 60
        while set(reader.reportLatestOffset()["orders"]) != {"broker-a", "broker-b"}:
            assert reader.latestOffset(end, ALL) is end
            assert time.monotonic() < until_s
            time.sleep(0.2)
        for _ in range(20):
            producer.send(Message("orders", b"x"))

        after = reader.latestOffset(end, ALL)
        for name in ("broker-a", "broker-b"):
            assert after["orders"][name]["0"] > end["orders"][name]["0"]
