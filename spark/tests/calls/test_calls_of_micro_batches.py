"""What a micro-batch asks brokers and name servers, call by call.

Spark waits for the planner before it starts tasks, and for each task: a call more is a wait more in
each micro-batch.
"""

from collections import Counter

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from ariane_sdk import Message
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.source.stream_reader import ArianeStreamReader

BROKERS = 2
QUEUES = 3
"""On each broker."""


class CountedMethod:
    def __init__(self, method, name, calls):
        self._method = method
        self._name = name
        self._calls = calls

    def __call__(self, *arguments, **terms):
        self._calls[self._name] += 1
        return self._method(*arguments, **terms)

    def future(self, *arguments, **terms):
        self._calls[self._name] += 1
        return self._method.future(*arguments, **terms)


class CountedChannel:
    def __init__(self, channel, calls):
        self._channel = channel
        self._calls = calls

    def unary_unary(self, path, *arguments, **terms):
        method = self._channel.unary_unary(path, *arguments, **terms)
        return CountedMethod(method, path.rpartition("/")[2], self._calls)

    def unary_stream(self, path, *arguments, **terms):
        method = self._channel.unary_stream(path, *arguments, **terms)
        return CountedMethod(method, path.rpartition("/")[2], self._calls)

    def __getattr__(self, name):
        return getattr(self._channel, name)


class CountedChannels(Channels):
    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def to(self, address):
        return CountedChannel(super().to(address), self.calls)


@pytest.mark.parametrize("group", [None, "spark"])
def test_a_micro_batch_asks_for_ends_and_for_its_ranges_and_for_nothing_else(
    local_cluster, new_topic, producer, group
):
    topic = new_topic(queue_count=QUEUES)
    producer.send_batch([Message(topic, b"%d" % n) for n in range(600)])
    given = {"endpoints": local_cluster.name_servers, "topic": topic, "maxPartitions": "1"}
    given |= {"startingOffsets": "earliest"} | ({"commitGroup": group} if group else {})
    options = read_options(given, Use.STREAM_READ)
    channels = CountedChannels()
    client = QueueClient(options.endpoints, options.requests, channels=channels)
    now_s = 0.0
    reader = ArianeStreamReader(
        options, Projection.of(message_schema()), lambda _: client, lambda: now_s
    )

    def calls_of(step):
        channels.calls.clear()
        return step(), dict(channels.calls)

    def plan(start):
        end = reader.latestOffset(start, ReadMaxRows(60))
        reader.reportLatestOffset()
        partitions = reader.partitions(start, end)
        reader.commit(start)
        return end, partitions

    progress = {"StoreConsumerOffsets": BROKERS} if group else {}
    start, calls = calls_of(reader.initialOffset)
    assert calls == {"GetRoute": 1, "ListQueueBounds": BROKERS}
    for batch in range(6):
        # The ends of queues are as new as the option "offsetCacheMs" says.
        now_s += 0.3
        (end, [partition]), calls = calls_of(lambda start=start: plan(start))
        assert calls == progress | ({"ListQueueBounds": BROKERS} if batch % 2 else {})
        rows, calls = calls_of(lambda partition=partition: list(reader.read(partition)))
        assert calls == {"PullRange": BROKERS * QUEUES}
        # The ranges of a task are one batch for Spark.
        assert [each.num_rows for each in rows] == [60]
        start = end
