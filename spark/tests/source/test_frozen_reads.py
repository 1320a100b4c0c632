"""A broker that freezes while a task reads it: the task fails soon, and its repetition succeeds."""

import os
import signal
from threading import Timer

import pytest

from ariane_sdk import Message, MessageQueue
from ariane_sdk.errors import DeadlinePassed
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.calls.cluster import Fetch
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import RequestPolicy, read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail, Projection, message_schema
from ariane_spark.source.range_reader import RangeReader
from ariane_testkit.small_store import SMALL_STORE

PROJECTION = Projection.of(message_schema(["queueOffset", "body"]))
COUNT = 40
PART = QueueRange(MessageQueue("orders", "broker-a", 0), 0, COUNT)


@pytest.fixture(scope="module")
def loaded_cluster(tmp_path_factory):
    """A broker with more messages than gRPC reads ahead."""
    with LocalCluster(tmp_path_factory.mktemp("loaded"), extra_broker_args=SMALL_STORE) as cluster:
        with ClusterClient(cluster.name_servers) as client:
            client.create_topic("orders", queue_count=1)
        with Producer(cluster.name_servers) as producer:
            for _ in range(COUNT):
                producer.send(Message("orders", bytes(500_000)))
        yield cluster


def task(cluster, **further):
    """What a task of a batch read reads, its batches as they come."""
    given = {"endpoints": cluster.name_servers, "topic": "orders", "requestTimeoutMs": "1000"}
    options = read_options({**given, **further}, Use.BATCH_READ)
    return RangeReader(QueueClient(options.endpoints, options.requests), options).batches(
        [PART], PROJECTION
    )


def test_a_frozen_broker_fails_a_task_without_repeats_and_a_repeated_one_reads_all(loaded_cluster):
    [broker] = loaded_cluster.brokers
    offsets = []

    def read_and_freeze():
        for batch in task(loaded_cluster, numRetries="0"):
            offsets.extend(batch["queueOffset"].to_pylist())
            os.kill(broker.pid, signal.SIGSTOP)

    try:
        with pytest.raises(DeadlinePassed) as caught:
            read_and_freeze()
    finally:
        os.kill(broker.pid, signal.SIGCONT)

    assert offsets == list(range(len(offsets)))
    assert 0 < len(offsets) < COUNT
    assert str(caught.value) == (
        f"broker broker-a at {broker.address} has sent nothing of a range for 1 s,"
        " and does not answer a probe"
    )
    again = [row for batch in task(loaded_cluster) for row in batch["queueOffset"].to_pylist()]
    assert again == list(range(COUNT))


def test_a_task_reads_on_where_a_frozen_broker_goes_on(loaded_cluster):
    [broker] = loaded_cluster.brokers
    batches = task(loaded_cluster)
    offsets = next(batches)["queueOffset"].to_pylist()
    os.kill(broker.pid, signal.SIGSTOP)
    # By then the stream was given up, and asked for again.
    thaw = Timer(4.0, os.kill, (broker.pid, signal.SIGCONT))
    thaw.start()
    try:
        for batch in batches:
            offsets += batch["queueOffset"].to_pylist()
    finally:
        thaw.join()

    assert offsets == list(range(COUNT))


def test_a_broker_that_goes_on_while_it_is_asked_is_read_to_the_end(loaded_cluster):
    [broker] = loaded_cluster.brokers
    batches = task(loaded_cluster)
    offsets = next(batches)["queueOffset"].to_pylist()
    os.kill(broker.pid, signal.SIGSTOP)
    # Asked after 1 s, and given up after 2 s.
    thaw = Timer(1.5, os.kill, (broker.pid, signal.SIGCONT))
    thaw.start()
    try:
        for batch in batches:
            offsets += batch["queueOffset"].to_pylist()
    finally:
        thaw.join()

    assert offsets == list(range(COUNT))


def test_ranges_that_wait_for_their_turn_keep_no_answer_from_coming(loaded_cluster):
    policy = RequestPolicy(timeout_ms=1000)
    client = QueueClient(loaded_cluster.name_servers, policy)
    fetch = Fetch(Detail.RECORDS, 2 << 20)
    ahead = [client.read_range(PART, fetch) for _ in range(8)]
    for stream in ahead:
        next(stream)

    # Their answers pile up on the connection over which the broker is asked.
    assert client.bounds(["orders"])[PART.queue].latest == COUNT

    for stream in ahead:
        assert sum(len(chunk.records) for chunk in stream) < COUNT
