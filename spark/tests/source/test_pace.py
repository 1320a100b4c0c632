"""How fast tasks read."""

import pytest

from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.batch_reader import ArianeBatchReader
from ariane_spark.source.pace import Pace
from ariane_spark.source.range_reader import RangeReader
from ariane_spark.source.stream_reader import ArianeStreamReader

PROJECTION = Projection.of(message_schema(["queueId", "queueOffset"]))


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s

    def sleep(self, seconds):
        assert seconds > 0
        self.now_s += seconds


@pytest.fixture
def clock():
    return Clock()


def test_bytes_take_their_time_and_slow_tasks_catch_up_for_a_second(clock):
    pace = Pace(1000, sleep=clock.sleep, monotonic=clock)
    for _ in range(4):
        pace.keep(500)
    assert clock.now_s == 102.0
    clock.now_s += 60  # What Spark does with the rows takes so long.
    pace.keep(600)
    assert clock.now_s == 162.0
    pace.keep(900)
    assert clock.now_s == 162.5
    Pace(None, sleep=clock.sleep, monotonic=clock).keep(1 << 40)
    assert clock.now_s == 162.5


def test_a_range_takes_as_long_as_its_bytes(cluster, clock):
    queue = cluster.add("orders", "broker-a", 0, 8)
    given = {"endpoints": "n:1", "topic": "orders"}
    options = read_options(given, Use.BATCH_READ)
    pace = Pace(100, sleep=clock.sleep, monotonic=clock)
    reader = RangeReader(cluster, options, pace=pace)
    rows = sum(len(batch) for batch in reader.batches([QueueRange(queue, 0, 8)], PROJECTION))
    assert rows == 8
    assert clock.now_s == pytest.approx(100.0 + cluster.sent_bytes / 100)
    assert cluster.sent_bytes > 800


def test_tasks_that_run_at_once_share_the_rate(cluster, connect, monkeypatch):
    for queue_id in range(8):
        cluster.add("orders", "broker-a", queue_id, 5)
    monkeypatch.setattr("ariane_spark.source.batch_reader.cluster_parallelism", lambda: 4)
    monkeypatch.setattr("ariane_spark.source.stream_reader.cluster_parallelism", lambda: 64)
    given = {"endpoints": "n:1", "topic": "orders", "minPartitions": "8"}
    paced = read_options(given | {"maxBytesPerSecond": "800000"}, Use.BATCH_READ)
    batch = ArianeBatchReader(paced, PROJECTION, connect).partitions()
    # Four run at once, the others after them.
    assert [each.bytes_per_s for each in batch] == [200_000] * 8
    end = {"orders": {"broker-a": {str(queue_id): 5 for queue_id in range(8)}}}
    stream = ArianeStreamReader(paced, PROJECTION, connect).partitions({}, end)
    assert [each.bytes_per_s for each in stream] == [100_000] * 8
    free = ArianeBatchReader(read_options(given, Use.BATCH_READ), PROJECTION, connect)
    assert {each.bytes_per_s for each in free.partitions()} == {None}
