"""A stream on Spark 4.0 and 4.1, which pass neither its start nor a limit."""

import inspect

import pytest
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from ariane_spark.errors import DataLost
from ariane_spark.source.unlimited_reader import UnlimitedStreamReader


@pytest.fixture
def started(reader_with):
    def started(**given):
        return UnlimitedStreamReader(reader_with(maxOffsetsPerTrigger="4", **given))

    return started


def offsets(at):
    return {"orders": {"broker-a": {"0": at}}}


def test_spark_sees_a_reader_as_its_earlier_versions_have_them(started):
    reader = started()

    assert not inspect.signature(reader.latestOffset).parameters
    assert not isinstance(reader, SupportsTriggerAvailableNow)


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_stream_limits_itself_and_goes_on_where_it_was(cluster, started, starting):
    cluster.add("orders", "broker-a", 0, 10)
    reader = started(startingOffsets=starting)
    begin = 0 if starting == "earliest" else 10
    assert reader.initialOffset() == offsets(begin)
    cluster.add("orders", "broker-a", 0, 10)
    assert [reader.latestOffset() for _ in range(3)] == [
        offsets(min(begin + count, 20)) for count in (4, 8, 12)
    ]

    # Spark plans its last micro-batch again, or an empty range behind it, before it asks.
    for planned, reached in ((offsets(begin + 4), 4), (offsets(begin + 8), 8)):
        again = started(startingOffsets=starting)
        [partition] = again.partitions(planned, offsets(begin + 8)) or [None]
        assert (partition is None) == (reached == 8)
        assert again.latestOffset() == offsets(min(begin + 12, 20))


def test_a_loss_ends_a_stream_as_on_later_versions(cluster, started):
    cluster.add("orders", "broker-a", 0, 5)
    reader = started()
    reader.partitions(offsets(9), offsets(9))

    with pytest.raises(DataLost, match="read from 9 on, but ends at 5"):
        reader.latestOffset()
