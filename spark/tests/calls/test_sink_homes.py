"""Sinks that nobody knows who is there, while a broker is away that may."""

import logging
from uuid import uuid4

import pytest

from ariane_sdk.errors import ServiceUnavailable, SinkNotFound
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.contents import Contents
from ariane_testkit.closed_clusters import TESTER
from ariane_testkit.registered_broker import RegisteredBroker

IMPATIENT = RequestPolicy(timeout_ms=2000, retries_max=1, backoff_ms=1)


@pytest.fixture
def calls(local_cluster):
    return BatchTransactions(local_cluster.name_servers, IMPATIENT)


@pytest.fixture
def away(local_cluster, topic):
    """A broker beside the two others of a topic, which has left."""
    broker = RegisteredBroker(local_cluster.name_servers.split(","), topic)
    broker.registers()
    broker.leaves()
    yield broker
    broker.close()


@pytest.fixture
def stream(topic):
    return Sink(f"{uuid4()}/{topic}", topic)


@pytest.fixture
def job(topic):
    return Sink(f"write/nightly/{topic}", topic)


@pytest.mark.usefixtures("away")
def test_what_was_written_before_waits_for_the_broker_that_may_know_it(
    calls, stream, job, client, topic
):
    rows = Sink(f"{uuid4()}/", None)
    for batch in SinkBatch(stream, 1), SinkBatch(job, 0), SinkBatch(rows, 1):
        name = batch.sink.name
        why = f"has topic {topic} and is away" if batch.sink.topic else "is away"
        advice = f"broker {TESTER} {why}; .* ariane sink move '{name}' BROKER --home-is-gone"
        for ask in calls.is_committed, lambda batch: calls.commit(batch, [], Contents()):
            with pytest.raises(ServiceUnavailable, match=advice) as refusal:
                ask(batch)
            assert refusal.value.retriable
        assert client.list_sinks(name) == []


@pytest.mark.usefixtures("away")
def test_the_first_batch_of_a_stream_waits_for_it_and_then_begins(calls, stream, client, caplog):
    with caplog.at_level(logging.WARNING):
        assert not calls.is_committed(SinkBatch(stream, 0))
    assert f"micro-batch 0 of {stream.name} is the first of a new sink" in caplog.text
    assert f"broker {TESTER} has topic" in caplog.text
    [report] = client.list_sinks(stream.name)
    assert calls.home_of(stream) == report.home
    assert not calls.is_committed(SinkBatch(stream, 1))


def test_it_is_asked_when_it_is_back_and_not_waited_for_once_it_is_forgotten(
    calls, away, stream, client, caplog
):
    away.registers()
    with pytest.raises(ServiceUnavailable, match=f"broker {TESTER}, which may know .* not answer"):
        calls.is_committed(SinkBatch(stream, 1))
    away.leaves()
    with pytest.raises(ServiceUnavailable, match=f"broker {TESTER} has topic"):
        calls.is_committed(SinkBatch(stream, 1))
    away.is_forgotten()
    with caplog.at_level(logging.WARNING):
        assert not calls.is_committed(SinkBatch(stream, 1))
    assert f"no broker knows sink {stream.name}" in caplog.text


@pytest.mark.usefixtures("away")
def test_an_operator_says_that_it_is_not_waited_for(calls, job, client):
    with pytest.raises(SinkNotFound):
        client.move_sink(job.name, "broker-a")
    moved = client.move_sink(job.name, "broker-a", home_is_gone=True)
    assert (moved.home, moved.target, moved.home_answered) == ("", "broker-a", False)
    assert not calls.is_committed(SinkBatch(job, 0))
    assert calls.home_of(job) == "broker-a"
    [report] = client.list_sinks(job.name)
    assert (report.home, report.broker_names) == ("broker-a", ("broker-a", "broker-b"))
