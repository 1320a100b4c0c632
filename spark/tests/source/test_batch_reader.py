"""Planning one read of topics."""

import json
import pickle

import pytest
from pyspark.sql.datasource import InputPartition

from ariane_sdk.errors import RouteNotFound
from ariane_spark.errors import DataLost, QueueNotFound
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.options.write_options import MicroBatch
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source import batch_reader
from ariane_spark.source.batch_reader import ArianeBatchReader

PROJECTION = Projection.of(message_schema(["queueOffset"]))


@pytest.fixture
def planned(cluster, connect):
    cluster.queue_0 = cluster.add("orders", "broker-a", 0, 10)
    cluster.queue_1 = cluster.add("orders", "broker-b", 0, 20)
    cluster.earliest[cluster.queue_1] = 5

    def plan(**given):
        options = read_options(
            {"endpoints": "n:1", "topic": "orders", "maxPartitions": "1", **given}, Use.BATCH_READ
        )
        partitions = ArianeBatchReader(options, PROJECTION, connect).partitions()
        return [(p.queue.broker_name, p.begin, p.end) for part in partitions for p in part.ranges]

    return plan


def at(**by_broker):
    return json.dumps(
        {"orders": {name.replace("_", "-"): {"0": offset} for name, offset in by_broker.items()}}
    )


def test_everything_that_is_kept(planned):
    assert planned() == [("broker-a", 0, 10), ("broker-b", 5, 20)]


def test_offsets_of_some_queues(planned):
    assert planned(startingOffsets=at(broker_a=4), endingOffsets=at(broker_b=9)) == [
        ("broker-a", 4, 10),
        ("broker-b", 5, 9),
    ]
    assert planned(startingOffsets=at(broker_a=-1, broker_b=-2)) == [("broker-b", 5, 20)]
    assert planned(endingOffsets=at(broker_a=-1, broker_b=-2)) == [("broker-a", 0, 10)]


def test_times_are_half_open_too(planned):
    # Message n was stored at 10 n ms.
    assert planned(startingTimestamp="60", endingTimestamp="90") == [
        ("broker-a", 6, 9),
        ("broker-b", 6, 9),
    ]
    assert planned(startingTimestamp="61", endingTimestamp="100") == [
        ("broker-a", 7, 10),
        ("broker-b", 7, 10),
    ]
    assert planned(startingTimestamp="100") == [("broker-b", 10, 20)]


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        ({"endingTimestamp": "9999"}, [("broker-a", 0, 12)]),
        ({"startingTimestamp": "50", "endingTimestamp": "9999"}, [("broker-a", 5, 14)]),
        ({"startingTimestamp": "9999"}, []),
        ({"group": "live"}, []),
    ],
)
def test_a_queue_that_grows_while_its_ends_are_looked_for_is_no_loss(
    connect, growing, given, ranges
):
    growing("orders", "broker-a", 0, 10)
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)

    partitions = ArianeBatchReader(options, PROJECTION, connect).partitions()

    found = [(p.queue.broker_name, p.begin, p.end) for part in partitions for p in part.ranges]
    assert found == ranges


def test_empty_ranges_are_no_partitions(planned):
    assert planned(startingOffsets=at(broker_a=10, broker_b=20)) == []


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ({"startingOffsets": at(broker_b=3)}, r"broker-b#0: \[3, 20\).* 2 messages are lost"),
        ({"startingOffsets": at(broker_a=11)}, r"broker-a#0: .* from 11 on, but ends at 10"),
        ({"endingOffsets": at(broker_a=12)}, r"broker-a#0: \[0, 12\).* 2 messages are lost"),
    ],
)
def test_what_is_not_kept_fails_the_plan(planned, given, clause):
    with pytest.raises(DataLost, match=clause):
        planned(**given)


def test_what_is_not_kept_is_skipped_where_that_is_wanted(planned):
    assert planned(
        startingOffsets=at(broker_a=11, broker_b=3),
        endingOffsets=at(broker_b=90),
        failOnDataLoss="false",
    ) == [("broker-b", 5, 20)]


def test_a_broker_that_is_away_is_missed_unless_nothing_of_it_is_wanted(planned, cluster, caplog):
    everything = [("broker-a", 0, 10), ("broker-b", 5, 20)]
    cluster.away["refunds"] = frozenset({"broker-c"})
    assert planned() == everything
    cluster.away["orders"] = frozenset({"broker-c", "broker-d"})

    with pytest.raises(DataLost, match=r"orders: broker-c, broker-d left lately.*failOnDataLoss"):
        planned()

    assert not caplog.text
    assert planned(failOnDataLoss="false") == everything
    assert "broker-c, broker-d left lately" in caplog.text
    options = {"endpoints": "n:1", "assign": '["orders/broker-a/0"]'}
    reader = ArianeBatchReader(read_options(options, Use.BATCH_READ), PROJECTION, lambda _: cluster)
    assert [part.ranges[0].end for part in reader.partitions()] == [10]


def test_unknown_queues_and_topics_are_errors(planned):
    with pytest.raises(QueueNotFound, match=r"orders@broker-z#0, .* there are orders@broker-a#0"):
        planned(startingOffsets=at(broker_z=1))
    with pytest.raises(RouteNotFound, match="refunds"):
        planned(topic="refunds")


def test_sparks_stand_in_for_no_partition_reads_nothing(connect):
    reader = ArianeBatchReader(
        read_options({"endpoints": "n:1", "topic": "orders"}, Use.BATCH_READ), PROJECTION, connect
    )

    assert list(reader.read(InputPartition(None))) == []


def test_the_reader_travels_without_a_connection():
    options = read_options({"endpoints": "n:1", "topic": "orders"}, Use.BATCH_READ)

    reader = pickle.loads(pickle.dumps(ArianeBatchReader(options, PROJECTION)))  # noqa: S301

    assert reader._options == options


def test_a_topic_made_anew_since_it_was_planned_is_a_loss(cluster, connect):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.log_epoch = 1
    options = read_options(
        {"endpoints": "n:1", "topic": "orders", "numRetries": "0"}, Use.BATCH_READ
    )
    reader = ArianeBatchReader(options, PROJECTION, connect)
    (partition,) = reader.partitions()
    cluster.log_epoch, cluster.kept_ends[queue] = 2, 0

    with pytest.raises(DataLost, match="was at 10, and is what it was up to 0 only"):
        list(reader.read(partition))


def test_a_plan_that_is_used_for_another_micro_batch_is_told_once(
    cluster, connect, monkeypatch, caplog
):
    cluster.add("orders", "broker-a", 0, 3)
    options = read_options({"endpoints": "n:1", "topic": "orders"}, Use.BATCH_READ)
    static, fresh = (ArianeBatchReader(options, PROJECTION, connect) for _ in range(2))

    def read(planned, batch_id):
        running = None if batch_id is None else MicroBatch("enrich", batch_id)
        monkeypatch.setattr(batch_reader, "micro_batch_of_task", lambda context: running)
        for part in planned.partitions():
            assert list(planned.read(part))

    for planned, batch_id in ((static, None), (static, 4), (static, 4), (fresh, 5)):
        read(planned, batch_id)
    assert not caplog.text
    for batch_id in (5, 6, 7):
        read(static, batch_id)

    assert caplog.text.count("reads a topic as it was in micro-batch 4") == 1
