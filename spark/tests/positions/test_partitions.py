"""Splitting and packing ranges into Spark partitions."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_spark.positions.partitions import (
    PARTITION_RECORDS,
    TASK_RECORDS,
    PartitionLimits,
    RangePartition,
    plan_partitions,
)
from ariane_spark.positions.ranges import QueueRange

NO_LIMITS = PartitionLimits()


def ranges_of(*counts, begin=100):
    return [
        QueueRange(MessageQueue("t", "b", at), QueueOffset(begin), QueueOffset(begin + count))
        for at, count in enumerate(counts)
    ]


def offsets_of(ranges):
    return sorted(
        (part.queue, queue_offset)
        for part in ranges
        for queue_offset in range(part.begin, part.end)
    )


limits = st.builds(
    PartitionLimits,
    partitions_min=st.none() | st.integers(1, 12),
    partitions_max=st.none() | st.integers(12, 20),
    records_max=st.none() | st.integers(1, 40),
)


@given(st.lists(st.integers(1, 60), max_size=12), limits, st.integers(1, 8))
def test_every_message_is_read_once_and_limits_hold(counts, limits, parallelism):
    ranges = ranges_of(*counts)

    partitions = plan_partitions(ranges, limits, parallelism=parallelism)

    pieces = [part for partition in partitions for part in partition.ranges]
    assert offsets_of(pieces) == offsets_of(ranges)
    assert all(partition.ranges for partition in partitions)
    assert len(partitions) <= (limits.partitions_max or len(partitions))
    assert len(partitions) >= min(limits.partitions_min or 0, sum(counts))
    if limits.records_max is not None:
        assert max((part.count for part in pieces), default=0) <= limits.records_max


@given(st.lists(st.integers(1, 60), max_size=12), limits, st.integers(1, 8))
def test_the_same_ranges_are_planned_the_same_way(counts, limits, parallelism):
    ranges = ranges_of(*counts)

    assert plan_partitions(ranges, limits, parallelism=parallelism) == plan_partitions(
        ranges, limits, parallelism=parallelism
    )


def test_many_queues_share_few_tasks_evenly():
    partitions = plan_partitions(ranges_of(*[10] * 32), NO_LIMITS, parallelism=2)

    assert [partition.count for partition in partitions] == [160, 160]


def test_few_messages_of_many_queues_have_one_task():
    """A micro-batch of some messages: another task would cost more than what it does."""
    few = ranges_of(*[1] * TASK_RECORDS)
    assert plan_partitions(few, NO_LIMITS, parallelism=8) == [RangePartition(tuple(few))]

    for more, count in ((1, 2), (6 * TASK_RECORDS, 7), (8 * TASK_RECORDS, 8)):
        ranges = ranges_of(*[1] * (TASK_RECORDS + more))
        assert len(plan_partitions(ranges, NO_LIMITS, parallelism=8)) == count


def test_few_messages_have_the_tasks_that_the_user_wants():
    ranges = ranges_of(5, 5, 5, 5)

    for least, begins in ((2, [100] * 4), (4, [100] * 4)):
        limits = PartitionLimits(partitions_min=least)
        partitions = plan_partitions(ranges, limits, parallelism=1)
        assert len(partitions) == least
        assert [part.begin for each in partitions for part in each.ranges] == begins


def test_tasks_begin_with_different_brokers():
    """And each queue stays in order."""
    queues = [MessageQueue("t", f"broker-{name}", at) for name in "abc" for at in range(6)]
    ranges = [QueueRange(queue, QueueOffset(0), QueueOffset(20)) for queue in queues]

    limits = PartitionLimits(partitions_max=6, records_max=10)
    partitions = plan_partitions(ranges, limits, parallelism=6)

    first = [partition.ranges[0].queue.broker_name for partition in partitions]
    assert first == ["broker-a", "broker-b", "broker-c"] * 2
    for partition in partitions:
        of_queues = [(part.queue, part.begin) for part in partition.ranges]
        for queue in queues:
            begins = [begin for each, begin in of_queues if each == queue]
            assert begins == sorted(begins)


def test_one_queue_stays_in_one_task():
    ranges = ranges_of(50 * PARTITION_RECORDS)

    assert plan_partitions(ranges, NO_LIMITS, parallelism=8) == [RangePartition(tuple(ranges))]


def test_large_ranges_get_more_tasks_than_cores():
    partitions = plan_partitions(ranges_of(*[PARTITION_RECORDS] * 6), NO_LIMITS, parallelism=2)

    assert len(partitions) == 6


def test_more_partitions_than_queues_split_the_largest_queue():
    partitions = plan_partitions(
        ranges_of(1000, 10), PartitionLimits(partitions_min=4), parallelism=1
    )

    assert sorted(partition.count for partition in partitions) == [10, 333, 333, 334]


def test_never_more_partitions_than_messages():
    partitions = plan_partitions(ranges_of(2), PartitionLimits(partitions_min=50), parallelism=8)

    assert [partition.count for partition in partitions] == [1, 1]


def test_partitions_max_counts_more_than_anything():
    limits = PartitionLimits(partitions_max=2, records_max=10)

    partitions = plan_partitions(ranges_of(100, 100), limits, parallelism=8)

    assert [partition.count for partition in partitions] == [100, 100]
    assert max(part.count for partition in partitions for part in partition.ranges) == 10


def test_nothing_to_read_makes_no_partition():
    assert plan_partitions([], NO_LIMITS, parallelism=8) == []


def test_partitions_travel_to_the_tasks():
    partition = RangePartition(tuple(ranges_of(3, 4)))

    assert pickle.loads(pickle.dumps(partition)) == partition  # noqa: S301 - our own bytes.


def test_more_partitions_than_messages_cost_nothing():
    limits = PartitionLimits(partitions_min=10**12)

    assert len(plan_partitions(ranges_of(3, 4), limits, parallelism=2)) == 7
