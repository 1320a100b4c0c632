"""Asking brokers by blocking calls: against real ones, and ones that go away."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest
from google.protobuf.message import DecodeError

from ariane_record import RecordCorrupted
from ariane_record.decoding.arrow import to_arrow
from ariane_sdk import Message, MessageQueue
from ariane_sdk.errors import (
    ConsumerOffsetRefused,
    NameServersUnreachable,
    QueueOffsetOutOfRange,
    RecordDamaged,
    RouteNotFound,
    ServiceUnavailable,
)
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.calls import queue_client
from ariane_spark.calls.cluster import Fetch
from ariane_spark.calls.connection import (
    connect_once,
)
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.calls.range_chunks import HeadersTooShort
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import RequestPolicy, read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail, Projection, message_schema
from ariane_spark.source.range_reader import RangeReader
from ariane_testkit.small_store import SMALL_STORE

POSITIONS = Fetch(Detail.POSITIONS, 1 << 16)
ALL = Fetch(Detail.RECORDS, 1 << 16)
NOBODY = "127.0.0.1:1"
IMPATIENT = RequestPolicy(timeout_ms=2000, retries_max=1, backoff_ms=1)


@pytest.fixture
def queues(local_cluster):
    return QueueClient(local_cluster.name_servers, IMPATIENT)


@pytest.fixture
def published(topic, producer):
    """Thirty messages, by queue."""
    results = producer.send_batch(
        [Message(topic, b"%d" % n, tag=f"t{n % 2}", keys=("a", "b")) for n in range(30)]
    )
    by_queue = {}
    for result in results:
        by_queue.setdefault(result.message_queue, []).append(result)
    return by_queue


def test_bounds_of_all_queues_on_all_brokers(queues, topic, published):
    bounds = queues.bounds([topic])

    assert set(bounds) == {
        MessageQueue(topic, broker, queue_id)
        for broker in ("broker-a", "broker-b")
        for queue_id in (0, 1)
    }
    assert {queue: kept.latest for queue, kept in bounds.items() if kept.latest} == {
        queue: len(results) for queue, results in published.items()
    }


def test_a_forked_process_goes_on_beside_its_parent(queues, topic, published):
    """Workers are forked by a daemon, which may have read before."""
    queue, results = max(published.items(), key=lambda item: len(item[1]))
    everything = QueueRange(queue, 0, len(results))

    def count():
        return sum(len(each.records.queue_offset) for each in queues.read_range(everything, ALL))

    assert count() == len(results)
    children = []
    for _ in range(2):
        children.append(os.fork())
        if not children[-1]:
            break
    if 0 in children:
        status = 1
        try:
            status = 0 if [count() for _ in range(3)] == 3 * [len(results)] else 2
        finally:
            os._exit(status)
    assert [count() for _ in range(3)] == 3 * [len(results)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert count() == len(results)


def test_offsets_by_time(queues, topic, published):
    last_ms = max(r.store_timestamp_ms for results in published.values() for r in results)
    ends = {queue: kept.latest for queue, kept in queues.bounds([topic]).items()}

    assert queues.offsets_at([topic], last_ms + 1) == ends
    assert queues.offsets_at([topic], 0) == dict.fromkeys(ends, 0)


@pytest.mark.parametrize("detail", list(Detail))
def test_a_range_at_every_level_of_detail(queues, topic, published, detail):
    queue, results = max(published.items(), key=lambda item: len(item[1]))
    part = QueueRange(queue, 1, len(results) - 1)

    chunks = [chunk.records for chunk in queues.read_range(part, Fetch(detail, 1 << 16))]

    offsets = [offset for chunk in chunks for offset in chunk.queue_offset.tolist()]
    assert offsets == list(range(1, len(results) - 1))
    if detail >= Detail.PROPERTIES:
        ids = [i for chunk in chunks for i in to_arrow(chunk, ["messageId"])[0].to_pylist()]
        assert ids == [result.unique_id for result in results[1:-1]]
    if detail is Detail.RECORDS:
        assert all(chunk.bodies() for chunk in chunks)


def test_a_range_ends_at_the_readable_end(queues, published):
    queue, results = next(iter(published.items()))

    chunks = list(queues.read_range(QueueRange(queue, 0, 1000), POSITIONS))

    assert sum(len(chunk.records) for chunk in chunks) == len(results)
    assert chunks[-1].next_queue_offset == len(results)


def test_a_range_that_begins_beyond_the_end_is_refused_with_what_is_kept(queues, published):
    queue, results = next(iter(published.items()))

    with pytest.raises(QueueOffsetOutOfRange) as refusal:
        list(queues.read_range(QueueRange(queue, 99, 100), POSITIONS))

    kept = (refusal.value.min_queue_offset, refusal.value.max_queue_offset)
    assert kept == (0, len(results))


def test_a_topic_that_nobody_carries(queues):
    with pytest.raises(RouteNotFound):
        queues.bounds(["no-such-topic"])


def test_topics_are_asked_for_at_once_and_may_be_missing(queues, new_topic, monkeypatch):
    one, other = new_topic(), new_topic()
    monkeypatch.setattr(queue_client, "TOPICS_ASKED_MAX", 2)
    waits = []
    result = queue_client._result
    monkeypatch.setattr(
        queue_client, "_result", lambda call, *peer: (waits.append(call), result(call, *peer))[1]
    )
    begun = []
    begin = queues._begin
    monkeypatch.setattr(
        queues, "_begin", lambda *asked: (begun.append((asked[0], len(waits))), begin(*asked))[1]
    )

    found = queues.bounds([one, other, "no-such-topic"], lenient=True)

    assert {queue.topic for queue in found} == {one, other}
    assert len(found) == 8
    # The second one before the first one has answered.
    assert begun[:2] == [(one, 0), (other, 0)]
    assert set(queues.offsets_at([one, other], 0)) == set(found)
    with pytest.raises(RouteNotFound):
        queues.bounds([one, "no-such-topic"])


def test_one_of_the_name_servers_is_enough(local_cluster, topic):
    queues = QueueClient(f"{NOBODY},{local_cluster.name_servers}", RequestPolicy(retries_max=0))

    assert len(queues.bounds([topic])) == 4
    assert len(queues.bounds([topic])) == 4


def test_without_a_name_server_the_error_says_whom_it_asked():
    with pytest.raises(NameServersUnreachable, match=NOBODY):
        QueueClient(NOBODY, IMPATIENT).bounds(["orders"])


def test_a_broker_that_the_route_does_not_know(queues, topic, published):
    elsewhere = MessageQueue(topic, "broker-z", 0)

    with pytest.raises(ServiceUnavailable, match="broker-z"):
        next(queues.read_range(QueueRange(elsewhere, 0, 1), POSITIONS))


def test_what_headers_cannot_say_is_read_as_records_from_there_on(cluster):
    queue = cluster.add("orders", "broker-a", 0, 6)

    class CutHeaders(QueueClient):
        def _chunks(self, part, fetch, asked):
            del asked
            for chunk in cluster.read_range(part, fetch):
                if fetch.detail is not Detail.RECORDS and chunk.next_queue_offset > 2:
                    raise HeadersTooShort
                yield chunk

    chunks = CutHeaders(NOBODY, IMPATIENT).read_range(QueueRange(queue, 0, 6), POSITIONS)

    assert [offset for chunk in chunks for offset in chunk.records.queue_offset] == list(range(6))
    assert cluster.reads == [
        (QueueRange(queue, 0, 6), Detail.POSITIONS),
        (QueueRange(queue, 2, 6), Detail.RECORDS),
    ]


@pytest.mark.parametrize(
    ("step", "fault"),
    [("wire_chunk", DecodeError("no message")), ("decode_chunk", RecordCorrupted("no record"))],
)
def test_an_answer_that_cannot_be_decoded_is_an_error_that_names_its_place(
    queues, published, monkeypatch, step, fault
):
    def fail(*_):
        raise fault

    monkeypatch.setattr(queue_client, step, fail)
    queue = next(iter(published))

    with pytest.raises(RecordDamaged, match=rf"{queue.broker_name} at .*, {queue}: .*decoded.*no"):
        list(queues.read_range(QueueRange(queue, 0, 1), ALL))


def test_connections_are_made_once_for_each_process(local_cluster):
    given = {"endpoints": local_cluster.name_servers, "topic": "orders"}
    options = read_options(given, Use.STREAM_READ)

    assert connect_once(options) is connect_once(options)
    other = read_options({**given, "requestTimeoutMs": "1"}, Use.STREAM_READ)
    assert connect_once(other) is not connect_once(options)


def test_a_broker_that_is_killed_and_comes_back_is_read_without_gap_or_repeat(tmp_path):
    with LocalCluster(tmp_path, extra_broker_args=SMALL_STORE) as cluster:
        endpoints = cluster.name_servers
        with ClusterClient(endpoints) as client:
            client.create_topic("orders", queue_count=1)
        with Producer(endpoints) as producer:
            bodies = [b"%06d" % n * 1000 for n in range(2000)]
            producer.send_batch([Message("orders", body) for body in bodies])
        options = read_options(
            {"endpoints": endpoints, "topic": "orders", "fetchMaxBytes": "65536"}, Use.BATCH_READ
        )
        reader = RangeReader(QueueClient(endpoints, options.requests), options)
        part = QueueRange(MessageQueue("orders", "broker-a", 0), 0, len(bodies))
        batches = reader.batches([part], Projection.of(message_schema(["body"])))

        read = next(batches)[0].to_pylist()
        broker = cluster.brokers[0]
        broker.kill()
        revival = threading.Thread(target=cluster.call_blocking, args=(broker.restart,))
        revival.start()
        for batch in batches:
            read += batch[0].to_pylist()
        revival.join()

    assert read == bodies


def test_a_range_that_is_asked_for_and_not_read_does_no_harm(queues, topic, published):
    queue, results = max(published.items(), key=lambda item: len(item[1]))
    part = QueueRange(queue, 0, len(results))
    for _ in range(3):
        queues.read_range(part, POSITIONS).close()
    asked = [queues.read_range(part, POSITIONS) for _ in range(3)]

    for stream in reversed(asked):
        assert sum(len(chunk.records) for chunk in stream) == len(results)


def test_who_asks_nobody_hears_of_it_when_reading():
    queues = QueueClient(NOBODY, IMPATIENT)

    stream = queues.read_range(QueueRange(MessageQueue("t", "broker-a", 0), 0, 1), POSITIONS)

    with pytest.raises(NameServersUnreachable):
        next(stream)


def test_all_brokers_hear_how_far_a_group_is_and_what_it_is(
    queues, local_cluster, topic, published
):
    ends = {queue: kept.latest for queue, kept in queues.bounds([topic]).items()}

    queues.store_group_offsets("watchers", ends)

    assert {queue.broker_name for queue in ends} == {"broker-a", "broker-b"}
    assert queues.group_offsets("watchers", ends) == ends
    with ClusterClient(local_cluster.name_servers) as client:
        lags = client.consumer_lag("watchers", topic)
        assert {lag.stream_query.engine for lag in lags} == {f"Spark {pyspark.__version__}"}
        client.reset_offsets("watchers", topic, "earliest")
        assert all(lag.stream_query for lag in client.consumer_lag("watchers", topic))


def test_a_refusal_or_a_missing_broker_keeps_no_other_from_hearing(queues, topic, published):
    ends = {queue: kept.latest for queue, kept in queues.bounds([topic]).items()}
    beyond = MessageQueue(topic, "broker-a", 99)
    gone = MessageQueue(topic, "broker-0", 0)

    with pytest.raises(ConsumerOffsetRefused) as refused:
        queues.store_group_offsets("watchers", {**ends, beyond: 1})
    assert set(refused.value.refused) == {beyond}
    with pytest.raises(ServiceUnavailable):
        queues.store_group_offsets("others", {**ends, gone: 1})

    assert queues.group_offsets("watchers", ends) == queues.group_offsets("others", ends) == ends


def test_a_process_has_one_connection_to_each_broker_whatever_it_does(
    local_cluster, topic, producer
):
    producer.send_batch([Message(topic, b"%d" % n) for n in range(40)])
    brokers = [broker.address for broker in local_cluster.brokers]
    asker = Path(__file__).with_name("calls_of_a_process.py")
    done = subprocess.run(
        (sys.executable, asker, local_cluster.name_servers, topic, *brokers),
        check=True,
        stdout=subprocess.PIPE,
        timeout=120,
    )
    counts, home, connections = json.loads(done.stdout)
    assert counts == [40] * 6
    assert home in {"broker-a", "broker-b"}
    assert connections == [1, 1]
