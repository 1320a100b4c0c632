"""A streaming query whose queues grow, and whose brokers come and go, while it asks about them."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ariane_spark.errors import DataLost
from ariane_spark.source.left_brokers import RETURN_S_MAX

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
