"""How far queries are, and where it is shown."""

import io
import json
import logging
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from rich.console import Console

from ariane_sdk import Message, MessageQueue
from ariane_spark import ProgressListener, watched
from ariane_spark.progress.progress_displays import (
    LAG_METRIC,
    MESSAGES_METRIC,
    ProgressBar,
    ProgressLog,
    ProgressMetrics,
)
from ariane_spark.progress.query_progress import QueryProgress, query_progress

A, B = (MessageQueue("orders", name, 0) for name in ("broker-a", "broker-b"))


@dataclass
class Source:
    startOffset: str | None  # noqa: N815 - Spark's names.
    endOffset: str | None  # noqa: N815
    latestOffset: str | None  # noqa: N815
    numInputRows: int = 0  # noqa: N815


def offsets(**by_broker):
    return json.dumps(
        {"orders": {name.replace("_", "-"): {"0": at} for name, at in by_broker.items()}}
    )


def progress(lag_a, lag_b, advance_a=0, batch_id=0):
    return QueryProgress("copy", batch_id, advance_a, {A: advance_a, B: 0}, {A: lag_a, B: lag_b})


def test_lag_follows_from_positions():
    told = Source(offsets(broker_a=2), offsets(broker_a=5, broker_b=1), offsets(broker_a=9), 3)

    found = query_progress("copy", 7, [told])

    assert found == QueryProgress("copy", 7, 3, {A: 3, B: 0}, {A: 4, B: 0})
    assert found.lag == 4


def test_what_is_read_of_a_new_queue_counts():
    end = {"orders": {"broker-a": {"0": 5}, "broker-b": {"0": 9, "begins": {"0": 2}}}}

    found = query_progress("copy", 7, [Source(offsets(broker_a=2), json.dumps(end), None, 10)])

    assert found.advance == {A: 3, B: 7}


def test_what_is_read_by_the_first_micro_batch_counts():
    latest = {"orders": {"broker-a": {"0": 9, "begins": {"0": 2}}}}

    found = query_progress("copy", 0, [Source(None, offsets(broker_a=5), json.dumps(latest), 3)])

    assert (found.advance, found.lags) == ({A: 3}, {A: 4})


def test_a_query_that_was_started_before_it_was_watched_is_forgotten_at_its_end():
    reader = InMemoryMetricReader()
    metrics = ProgressMetrics(MeterProvider([reader]))
    listener = ProgressListener([metrics])
    source = Source(offsets(broker_a=2), offsets(broker_a=5), offsets(broker_a=9), 3)
    told = SimpleNamespace(name="copy", id="1", runId="2", batchId=7, sources=[source])

    listener.onQueryProgress(SimpleNamespace(progress=told))
    assert points_of(reader)[LAG_METRIC] == {"broker-a": 4}
    listener.onQueryTerminated(SimpleNamespace(runId="2"))

    assert LAG_METRIC not in points_of(reader)
    metrics.close()


@pytest.mark.parametrize("other", [None, "17", '{"value": 3}', '{"t": {"0": 5}}', "no JSON"])
def test_other_sources_are_passed_over(other):
    ours = Source(None, offsets(broker_a=5), None, 5)

    assert query_progress("join", 0, [Source(other, other, other, 9)]) is None
    assert query_progress("join", 0, [Source(other, other, other, 9), ours]).row_count == 5


def test_the_log_says_how_far_it_is_but_not_too_often(caplog):
    now = [0.0]
    log = ProgressLog(10, lambda: now[0])

    with caplog.at_level(logging.INFO):
        log.show(progress(90, 5, advance_a=10))
        log.show(progress(80, 5, advance_a=10, batch_id=1))
        now[0] = 10.0
        log.show(progress(70, 5, advance_a=10, batch_id=2))

    assert [record.getMessage() for record in caplog.records] == [
        "query copy, micro-batch 0: 10 rows, 95 messages behind (orders@broker-a#0: 90)",
        "query copy, micro-batch 2: 20 rows, 75 messages behind (orders@broker-a#0: 70)",
    ]


def test_metrics_tell_the_lag_of_each_queue():
    reader = InMemoryMetricReader()
    metrics = ProgressMetrics(MeterProvider([reader]))
    metrics.show(progress(90, 5, advance_a=10))
    metrics.show(progress(80, 4, advance_a=20))

    told = points_of(reader)
    assert told[LAG_METRIC] == {"broker-a": 80, "broker-b": 4}
    assert told[MESSAGES_METRIC] == {"broker-a": 30}

    metrics.forget("copy")
    assert LAG_METRIC not in points_of(reader)
    metrics.close()


def points_of(reader):
    data = reader.get_metrics_data()
    return {
        metric.name: {
            point.attributes["ariane.broker.name"]: point.value for point in metric.data.data_points
        }
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.data.data_points
    }


def test_the_bar_ends_where_the_queues_end_now():
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, force_terminal=True, width=80))

    bar.show(progress(30, 0, advance_a=10))
    bar.show(progress(0, 0, advance_a=30))
    bar.forget("copy")
    bar.close()

    assert "copy" in text.getvalue()
    assert "40/40" in text.getvalue()


@pytest.mark.spark
def test_spark_tells_of_every_micro_batch(spark, streaming, topic, producer, tmp_path):
    class Kept(list):
        def show(self, progress):
            self.append(progress)

        def forget(self, query):
            self.append(query)

        def close(self):
            self.append("closed")

    producer.send_batch([Message(topic, b"%d" % n) for n in range(100)])
    frame = streaming(topic, startingOffsets="earliest", maxOffsetsPerTrigger="60").load()
    kept = Kept()
    with watched(spark, log=False, displays=[kept]):
        query = (
            frame.writeStream.format("noop")
            .queryName("count")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        while kept[-1:] != ["count"]:
            assert "closed" not in kept
            time.sleep(0.01)

    *batches, ended, closed = kept
    told = [(b.query, b.row_count, sum(b.advance.values()), b.lag) for b in batches if b.row_count]
    assert told == [("count", 60, 60, 40), ("count", 40, 40, 0)]
    assert (ended, closed) == ("count", "closed")
