"""Sinks that nobody knows who is there, while a broker is away that may."""

import logging
import socket
from contextlib import closing, suppress
from threading import Thread
from uuid import uuid4

import pytest

from ariane_sdk.errors import IllegalArgument, ServiceUnavailable, SinkNotFound
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.routes import Routes
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.calls.sink_homes import HomeUnknown, SinkHomes
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
    assert f"no broker knew sink {stream.name}" in caplog.text


def test_who_is_forgotten_is_waited_for_until_the_queue_order_names_it_no_more(
    calls, away, stream, client, topic
):
    away.registers()
    client.keep_queue_order(topic)
    away.leaves()
    with pytest.raises(ServiceUnavailable, match=r"--home-is-gone --topic [^;]*$"):
        calls.is_committed(SinkBatch(stream, 1))
    away.is_forgotten()
    order = f"only the queue order of the topic names {TESTER}, until ariane topic order {topic} --"
    with pytest.raises(ServiceUnavailable, match=order):
        calls.is_committed(SinkBatch(stream, 1))
    client.keep_queue_order(topic)
    assert not calls.is_committed(SinkBatch(stream, 1))


class Forwarder:
    """A name server's address that stops to answer."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self._to = host, int(port)
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.address = f"127.0.0.1:{self._sockets[0].getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                near, _ = self._sockets[0].accept()
                far = socket.create_connection(self._to)
                self._sockets += near, far
                for source, target in (near, far), (far, near):
                    Thread(target=self._copy, args=(source, target), daemon=True).start()
        except OSError:
            return

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            return

    def close(self):
        for each in self._sockets:
            with suppress(OSError):  # It may be closed already.
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def test_nobody_is_taken_for_present_while_no_name_server_answers(
    local_cluster, stream, job, client
):
    """The route is known from before; who is away now is not."""
    with closing(Forwarder(local_cluster.name_servers)) as name_server:
        calls = BatchTransactions(name_server.address, IMPATIENT)
        assert calls.write_queues(stream, stream.topic)
        name_server.close()
        for batch in SinkBatch(stream, 1), SinkBatch(job, 0):
            with pytest.raises(
                ServiceUnavailable, match=r"do not answer|no name server"
            ) as refusal:
                calls.is_committed(batch)
            assert refusal.value.retriable
            assert client.list_sinks(batch.sink.name) == []


def test_who_was_away_is_waited_for_while_only_others_answer(local_cluster, topic, stream, client):
    """Such as a name server that has restarted since."""
    routes = Routes(local_cluster.name_servers, Channels(), timeout_s=2)
    homes = SinkHomes(local_cluster.name_servers, routes, Channels(), timeout_s=2)
    broker = RegisteredBroker(local_cluster.name_servers.split(","), topic)
    broker.registers()
    broker.leaves()
    assert routes.away_brokers(topic) == {TESTER}
    broker.close()  # No name server names it any more.
    with pytest.raises(HomeUnknown, match=f"broker {TESTER} has topic"):
        homes.find(SinkBatch(stream, 1))
    assert client.list_sinks(stream.name) == []


def test_no_sink_is_noted_at_a_broker_without_its_topic(local_cluster, job, client, topic):
    other = RegisteredBroker(local_cluster.name_servers.split(","), f"{topic}-other")
    refusal = f"{TESTER} takes no messages for topic {topic},"
    with closing(other):
        other.registers()
        with pytest.raises(IllegalArgument, match=refusal):
            client.move_sink(job.name, TESTER, home_is_gone=True, topic=topic)
    assert client.list_sinks(job.name) == []


@pytest.mark.usefixtures("away")
def test_an_operator_says_that_it_is_not_waited_for(calls, job, client, topic):
    with pytest.raises(SinkNotFound):
        client.move_sink(job.name, "broker-a")
    with pytest.raises(IllegalArgument, match="--topic TOPIC"):
        client.move_sink(job.name, "broker-a", home_is_gone=True)
    moved = client.move_sink(job.name, "broker-a", home_is_gone=True, topic=topic)
    assert (moved.home, moved.target, moved.home_answered) == ("", "broker-a", False)
    assert not calls.is_committed(SinkBatch(job, 0))
    assert calls.home_of(job) == "broker-a"
    [report] = client.list_sinks(job.name)
    assert (report.home, report.broker_names) == ("broker-a", ("broker-a", "broker-b"))
    assert report.topic == topic
    with pytest.raises(IllegalArgument, match=f"writes to topic {topic}, and not to"):
        client.move_sink(job.name, "broker-b", topic="other")
