"""What a user says of start and end, made into positions."""

import pytest

from ariane_sdk import MessageQueue
from ariane_spark.errors import NothingAtTime, QueueNotFound
from ariane_spark.positions.position_rules import AtGroup, AtTime, AtTimes, Edge
from ariane_spark.source.first_positions import resolve


@pytest.fixture
def queues(cluster):
    # Message n was stored at 10 n ms.
    return cluster.add("orders", "broker-a", 0, 10), cluster.add("orders", "broker-b", 0, 20)


def places(cluster, rule, unnamed=Edge.EARLIEST):
    found = resolve(rule, cluster.bounds(["orders"]), cluster, unnamed=unnamed)
    return [found[queue] for queue in sorted(found)]


def test_a_time_for_each_queue(cluster, queues):
    assert places(cluster, AtTimes({queues[0]: 35, queues[1]: 120})) == [4, 12]
    assert places(cluster, AtTimes({queues[1]: 120})) == [0, 12]
    assert places(cluster, AtTimes({queues[1]: 120}), Edge.LATEST) == [10, 12]
    with pytest.raises(QueueNotFound, match="broker-z"):
        places(cluster, AtTimes({MessageQueue("orders", "broker-z", 0): 1}))


def test_a_queue_that_is_older_than_its_time_starts_at_its_end_or_is_an_error(cluster, queues):
    assert places(cluster, AtTime(120)) == [10, 12]
    assert places(cluster, AtTime(90, strict=True)) == [9, 9]
    with pytest.raises(NothingAtTime, match="orders@broker-a#0: no message was stored at or after"):
        places(cluster, AtTime(120, strict=True))
    with pytest.raises(NothingAtTime):
        places(cluster, AtTimes({queues[0]: 91}, strict=True))


def test_a_message_that_is_stored_meanwhile_is_one_after_the_time(cluster, growing):
    queue = growing("orders", "broker-a", 0, 10)

    assert places(cluster, AtTime(95, strict=True)) == [10]
    with pytest.raises(NothingAtTime):
        places(cluster, AtTimes({queue: 9999}, strict=True))


def test_where_a_group_stands_and_the_rest_as_otherwise(cluster, queues):
    cluster.groups["billing"] = {queues[0]: 7}

    assert places(cluster, AtGroup("billing", Edge.EARLIEST)) == [7, 0]
    assert places(cluster, AtGroup("billing", Edge.LATEST)) == [7, 20]
    assert places(cluster, AtGroup("billing", AtTime(30))) == [7, 3]
    assert places(cluster, AtGroup("nobody", Edge.LATEST)) == [10, 20]
