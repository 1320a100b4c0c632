"""A streaming query whose brokers have new logs, or other primaries, since its checkpoint."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ariane_sdk.errors import ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_spark.errors import DataLost
from ariane_spark.positions.offsets import Bounds, epochs_of

ALL = ReadAllAvailable()


def through_spark(positions):
    """Positions as they come back from the checkpoint."""
    return json.loads(json.dumps(positions))


def ranges(reader, start, end):
    partitions = reader.partitions(through_spark(start), through_spark(end))
    return sorted(
        (part.queue.broker_name, part.begin, part.end) for p in partitions for part in p.ranges
    )


@pytest.fixture
def cut(cluster):
    """A queue that was read up to 10, has lost all from 6 on, and has got 9 others since."""
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.log_epoch = 1
    reached = {"orders": {"broker-a": {"0": 10, "logEpoch": 1}}}
    cluster.add("orders", "broker-a", 0, 5)
    cluster.log_epoch, cluster.kept_ends[queue] = 2, 6
    return reached


def test_a_checkpoint_says_in_which_epoch_its_positions_were_learnt(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 10)
    cluster.log_epoch = 7
    reader = reader_with(startingOffsets="earliest")
    start = through_spark(reader.initialOffset())
    end = through_spark(reader.latestOffset(start, ALL))
    assert start == {"orders": {"broker-a": {"0": 0, "logEpoch": 7}}}
    assert end == {"orders": {"broker-a": {"0": 10, "logEpoch": 7}}}
    assert [p.log_epoch for each in reader.partitions(start, end) for p in each.ranges] == [7]
    # A stop in order changes nothing, and is no progress.
    cluster.log_epoch = 8
    assert reader.latestOffset(end, ALL) is end


def test_a_position_is_not_of_an_epoch_before_it(cluster, reader_with):
    """A new primary says no epoch until all in sync know it; what it has is of no earlier one."""
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.log_epoch = 1
    reader = reader_with(startingOffsets="earliest")
    start = through_spark(reader.latestOffset(through_spark(reader.initialOffset()), ALL))
    cluster.add("orders", "broker-a", 0, 2)
    cluster.log_epoch = 0
    assert cluster.kept_ends.get(queue) is None
    end = through_spark(reader.latestOffset(start, ALL))
    assert end == {"orders": {"broker-a": {"0": 12}}}
    assert reader.latestOffset(end, ALL) is end
    cluster.log_epoch, cluster.kept_ends[queue] = 3, 10
    assert ranges(reader, start, end) == [("broker-a", 10, 12)]


def test_queues_of_different_epochs_are_of_none_that_both_know():
    bounds = {
        MessageQueue("orders", "broker-a", queue_id): Bounds(0, 5, 0, epoch)
        for queue_id, epoch in enumerate((7, 7, 8))
    }
    assert epochs_of(bounds) == {("orders", "broker-a"): 0}
    del bounds[MessageQueue("orders", "broker-a", 2)]
    assert epochs_of(bounds) == {("orders", "broker-a"): 7}


def test_a_queue_that_lost_its_end_and_has_grown_again_is_a_loss(cut, reader_with):
    with pytest.raises(DataLost, match=r"was at 10.* up to 6 only"):
        reader_with().latestOffset(cut, ALL)


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("available_now", [False, True])
def test_what_a_new_primary_hides_at_first_is_no_loss(
    cluster, reader_with, caplog, fails, available_now
):
    queue = cluster.add("orders", "broker-a", 0, 12)
    cluster.log_epoch, cluster.kept_ends[queue], cluster.told_ends[queue] = 2, 12, 7
    reached = {"orders": {"broker-a": {"0": 10, "logEpoch": 1}}}
    reader = reader_with(failOnDataLoss=fails)
    if available_now:
        reader.prepareForTriggerAvailableNow()
    end = through_spark(reader.latestOffset(reached, ALL))
    assert end == {"orders": {"broker-a": {"0": 12, "logEpoch": 2}}}
    assert ranges(reader, reached, end) == [("broker-a", 10, 12)]
    assert reader.latestOffset(end, ALL) is end
    assert caplog.text == ""


@pytest.mark.parametrize("hidden", [False, True])
def test_a_position_is_asked_for_again_at_the_next_primary(cluster, reader_with, hidden):
    """While brokers change places, the one that was asked may not be the primary any more."""
    queue = cluster.add("orders", "broker-a", 0, 12)
    cluster.log_epoch, cluster.kept_ends[queue] = 2, 12
    if hidden:
        cluster.told_ends[queue] = 7
    reached = {"orders": {"broker-a": {"0": 10, "logEpoch": 1}}}
    waits = []
    reader = reader_with(sleep=waits.append)
    bounds = cluster.bounds

    def bounds_of_the_former(topics, **terms):
        cluster.bounds = bounds
        found = bounds(topics, **terms)
        gone = ServiceUnavailable("elsewhere", reason="BROKER_NOT_PRIMARY", retriable=True)
        cluster.failures.append(gone)
        return found

    cluster.bounds = bounds_of_the_former
    end = through_spark(reader.latestOffset(reached, ALL))
    assert end == {"orders": {"broker-a": {"0": 12, "logEpoch": 2}}}
    assert len(waits) == 1


def test_a_loss_that_is_accepted_is_said_once_and_gone_on_from(cut, reader_with, caplog):
    reader = reader_with(failOnDataLoss="false")
    end = {"orders": {"broker-a": {"0": 15, "logEpoch": 2}}}
    for _ in range(3):
        assert reader.latestOffset(cut, ALL) == end
    assert caplog.text.count("up to 6 only") == 1
    # What came in place of what was lost is read, too.
    assert ranges(reader, cut, end) == [("broker-a", 6, 15)]
