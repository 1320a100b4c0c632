"""A streaming query whose queues grow, and whose brokers come and go, while it asks about them."""

import json
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.errors import DataLost
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.left_brokers import RETURN_S_MAX
from ariane_spark.source.stream_reader import ArianeStreamReader
from ariane_testkit.small_store import SMALL_STORE

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


def test_a_run_that_ends_does_not_leave_out_a_broker_that_left(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.away["orders"] = frozenset({"broker-b"})
    reader = reader_with()
    reader.prepareForTriggerAvailableNow()

    with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
        reader.latestOffset(through_spark(offsets(broker_a=1, broker_b=7)), ALL)


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
