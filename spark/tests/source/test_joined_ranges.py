"""A task that reads little of many queues makes one batch of it."""

from dataclasses import replace

import pytest

from ariane_spark.errors import MessageDamaged
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.range_reader import AHEAD_RECORDS_MAX, AHEAD_STREAMS_MAX, RangeReader

EVERYTHING = [*message_schema().fieldNames(), "brokerName"]


def tables(cluster, ranges, columns, **given):
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)
    projection = Projection.of(message_schema(columns))
    batches = list(RangeReader(cluster, options).batches(ranges, projection))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == projection.arrow_schema
    return batches


@pytest.mark.parametrize(
    "columns", [EVERYTHING, ["brokerName", "queueId", "bornTimestamp"], ["tag", "properties"]]
)
def test_small_ranges_make_one_batch_together(cluster, columns):
    queues = [cluster.add("orders", name, at, 3 + at) for name in "ab" for at in range(3)]
    ranges = [QueueRange(queue, 1, len(cluster.queues[queue])) for queue in queues]
    cluster.chunk_records = 10

    (batch,) = tables(cluster, ranges, columns)

    alone = [each for part in ranges for each in tables(cluster, [part], columns)]
    assert len(alone) == len(ranges)
    assert batch.to_pylist() == [row for each in alone for row in each.to_pylist()]


def test_a_batch_is_no_larger_for_being_joined(cluster):
    cluster.chunk_records = 100
    large = AHEAD_RECORDS_MAX + 1
    few, many = [cluster.add("orders", "a", at, count) for at, count in enumerate((5, large))]
    rest = [QueueRange(queue, 0, 5) for queue in [few] * (AHEAD_STREAMS_MAX + 3)]

    sizes = [
        len(each) for each in tables(cluster, [QueueRange(many, 0, large), *rest], ["queueId"])
    ]

    # Chunks of a large range come one by one: who wants no more of it is not to wait.
    chunks = large // 100
    assert sizes == [100] * chunks + [1, 5 * (AHEAD_STREAMS_MAX + 1), 10]
    cluster.queues[few] = [replace(each, body=bytes(40_000)) for each in cluster.queues[few]]
    one, *_ = tables(cluster, rest, ["body"], fetchMaxBytes="400000")
    assert len(one) == 5


def test_a_damaged_body_spoils_no_other_queue(cluster):
    queues = [cluster.add("orders", "a", at, 3) for at in range(3)]
    cluster.compress(queues[1], {2})
    ranges = [QueueRange(queue, 0, 3) for queue in queues]

    batches = tables(cluster, ranges, ["queueId", "body"], onDamagedBody="null")

    found = [(row["queueId"], row["body"]) for batch in batches for row in batch.to_pylist()]
    assert found == [
        *((0, b"0:%d" % at) for at in range(3)),
        *((1, b"0"), (1, b"1"), (1, None)),
        *((2, b"2:%d" % at) for at in range(3)),
    ]
    with pytest.raises(MessageDamaged, match="orders@a#1 at 2"):
        tables(cluster, ranges, ["queueId", "body"])
