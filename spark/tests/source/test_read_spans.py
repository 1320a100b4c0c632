"""The span of a task that reads, as a real collector is told it; no Spark runs here."""

from dataclasses import replace

import pytest

from ariane_spark.errors import OptionIllegal
from ariane_spark.options import endpoint_options
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail, Projection, message_schema
from ariane_spark.source.range_reader import RangeReader
from ariane_testkit.otlp_receiver import otlp_receiver

PROJECTION = Projection.of(message_schema(["queueId", "queueOffset"]))


@pytest.fixture
def receiver():
    with otlp_receiver() as receiver:
        yield receiver


def read(cluster, part, endpoint):
    given = {"endpoints": "n:1", "topic": "orders", "otlpEndpoint": endpoint}
    reader = RangeReader(cluster, read_options(given, Use.BATCH_READ))
    return sum(batch.num_rows for batch in reader.batches([part], PROJECTION))


def mark(cluster, queue, place, trace_parent):
    records = cluster.queues[queue]
    properties = {**records[place].properties, "traceparent": trace_parent}
    records[place] = replace(records[place], properties=properties)


def test_a_task_is_linked_to_the_sampled_spans_that_it_met(cluster, receiver):
    queue = cluster.add("orders", "broker-a", 0, 9)
    mark(cluster, queue, 1, f"00-{'a' * 32}-{'1' * 16}-00")
    mark(cluster, queue, 2, f"00-{'b' * 32}-{'2' * 16}-01")
    mark(cluster, queue, 3, "no trace context")
    mark(cluster, queue, 7, f"00-{'c' * 32}-{'3' * 16}-01")

    assert read(cluster, QueueRange(queue, 0, 9), receiver.endpoint) == 9

    [span] = receiver.spans  # It was told before the last row was.
    assert (span.service, span.name) == ("spark", "read orders")
    assert (span.trace_id, span.parent_id) == ("b" * 32, "2" * 16)
    assert span.links == ("3" * 16,)
    assert span.attributes["messaging.batch.message_count"] == 9
    assert cluster.reads == [(QueueRange(queue, 0, 9), Detail.PROPERTIES)]


def test_reading_messages_without_a_trace_makes_no_span(cluster, receiver):
    queue = cluster.add("orders", "broker-a", 0, 4)

    assert read(cluster, QueueRange(queue, 0, 4), receiver.endpoint) == 4
    assert receiver.spans == []


def test_a_failure_is_said(cluster, receiver):
    queue = cluster.add("orders", "broker-a", 0, 4)
    mark(cluster, queue, 0, f"00-{'b' * 32}-{'2' * 16}-01")
    cluster.failures = [None, RuntimeError("broken")]
    cluster._fail = lambda: _raise(cluster.failures.pop(0)) if cluster.failures else None

    with pytest.raises(RuntimeError, match="broken"):
        read(cluster, QueueRange(queue, 0, 4), receiver.endpoint)

    [span] = receiver.spans
    assert span.attributes["error.type"] == "RuntimeError"


def _raise(error):
    if error is not None:
        raise error


def test_an_endpoint_that_cannot_be_is_refused(monkeypatch):
    given = {"endpoints": "n:1", "topic": "orders", "otlpEndpoint": "collector:4317"}
    with pytest.raises(OptionIllegal, match="http://host:port"):
        read_options(given, Use.BATCH_READ)
    monkeypatch.setattr(endpoint_options, "find_spec", lambda name: None)
    given["otlpEndpoint"] = "http://collector:4317"
    with pytest.raises(OptionIllegal, match=r"ariane-spark\[otlp\]"):
        read_options(given, Use.BATCH_READ)
