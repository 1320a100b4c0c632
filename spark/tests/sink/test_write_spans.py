"""The span of a task that writes, as a real collector is told it; no Spark runs here."""

import pyarrow as pa
import pytest

from ariane_sdk.errors import ServiceUnavailable
from ariane_spark.calls import task_spans
from ariane_spark.options.write_options import WriteOptions, write_options
from ariane_spark.records.rows import RowPlan
from ariane_spark.sink.batch_writer import ArianeBatchWriter
from ariane_testkit.otlp_receiver import otlp_receiver

FIRST, SECOND = f"00-{'a' * 32}-{'1' * 16}-01", f"00-{'b' * 32}-{'2' * 16}-01"
UNSAMPLED = f"00-{'c' * 32}-{'3' * 16}-00"


@pytest.fixture
def receiver():
    with otlp_receiver() as receiver:
        yield receiver


class Sender:
    def __init__(self, failure=None):
        self.sent = []
        self.failure = failure

    def send_columns(self, topic, table):
        if self.failure is not None:
            raise self.failure
        self.sent += map(dict, table.column("properties").to_pylist())


def write(ddl, endpoint, sender, *batches):
    plan = RowPlan.of(ddl("body binary, properties map<string,string>"), "copies")
    options = WriteOptions("n:1", "copies", otlp_endpoint=endpoint)
    writer = ArianeBatchWriter(options, plan, lambda options: sender)
    rows = (
        pa.record_batch(
            {
                "body": pa.array([b"x"] * len(properties)),
                "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
            }
        )
        for properties in batches
    )
    return writer.write(rows)


def test_rows_bear_the_span_of_their_task_or_their_own(ddl, receiver):
    sender = Sender()
    batches = [
        [[("a", "1")], [("traceparent", UNSAMPLED)], None, [("traceparent", FIRST), ("b", "2")]],
        [[("traceparent", SECOND)], [("traceparent", "none"), ("a", "")], []],
    ]

    assert write(ddl, receiver.endpoint, sender, *batches).message_count == 7

    [span] = receiver.spans  # It was told before the task ended.
    assert (span.service, span.name) == ("spark", "write copies")
    assert (span.trace_id, span.parent_id) == ("a" * 32, "1" * 16)
    assert span.links == ("2" * 16,)
    assert span.attributes["messaging.batch.message_count"] == 7
    assert span.attributes["messaging.destination.name"] == "copies"
    own = f"00-{span.trace_id}-{span.span_id}-01"
    marks = [own, UNSAMPLED, own, FIRST, SECOND, "none", own]
    assert [each["traceparent"] for each in sender.sent] == marks
    others = [
        {k: v for k, v in each.items() if k not in {"traceparent", "messageId"}}
        for each in sender.sent
    ]
    assert others == [{"a": "1"}, {}, {}, {"b": "2"}, {}, {}, {}]


def test_rows_that_come_from_no_trace_begin_one(ddl, receiver, monkeypatch):
    sender = Sender()
    write(ddl, receiver.endpoint, sender, [[], []])
    [span] = receiver.spans
    assert (span.parent_id, span.links) == ("", ())
    assert {each["traceparent"] for each in sender.sent} == {
        f"00-{span.trace_id}-{span.span_id}-01"
    }

    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    task_spans.span_provider.cache_clear()
    sender = Sender()
    write(ddl, receiver.endpoint, sender, [[], []])
    assert len(receiver.spans) == 1
    assert [list(each) for each in sender.sent] == [["messageId"]] * 2
    task_spans.span_provider.cache_clear()


def test_a_failure_is_said_and_a_task_without_rows_is_not_told(ddl, receiver):
    with pytest.raises(ServiceUnavailable):
        write(ddl, receiver.endpoint, Sender(ServiceUnavailable("away")), [[]])
    write(ddl, receiver.endpoint, Sender())
    [span] = receiver.spans
    assert span.attributes["error.type"] == "ServiceUnavailable"


def test_without_a_collector_rows_are_as_they_were(ddl):
    sender = Sender()
    write(ddl, "", sender, [[("a", "1")]])
    assert [list(each) for each in sender.sent] == [["a", "messageId"]]
    given = {"endpoints": "n:1", "topic": "copies", "otlpEndpoint": "http://collector:4317"}
    assert write_options(given).otlp_endpoint == "http://collector:4317"
