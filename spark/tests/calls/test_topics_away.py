"""Writes exactly once to topics whose brokers are away, with a real name server."""

import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import count

import pytest

from ariane_sdk.errors import RouteNotFound, ServiceUnavailable
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.calls import connection
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.connection import check_target
from ariane_spark.calls.name_servers import NameServers
from ariane_spark.calls.named_brokers import named_brokers
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.routes import Routes
from ariane_spark.errors import QueueNotFound
from ariane_spark.options.options import RequestPolicy
from ariane_testkit.closed_clusters import TESTER
from ariane_testkit.registered_broker import RegisteredBroker

IMPATIENT = RequestPolicy(retries_max=1, backoff_ms=1)


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory):
    """Two name servers that know all at once."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
        folder = tmp_path_factory.mktemp("cluster")
        with LocalCluster(folder, brokers=0, name_servers=2) as cluster:
            yield cluster.name_servers.split(",")


_topic_numbers = count()


@pytest.fixture
def topic():
    """A topic that no other test has: name servers know for a day who had one."""
    return f"away-{next(_topic_numbers)}"


@pytest.fixture
def broker(name_servers, topic):
    broker = RegisteredBroker(name_servers, topic)
    broker.registers()
    yield broker
    broker.close()


@pytest.fixture
def given(name_servers, topic, monkeypatch):
    # Planners are new processes.
    monkeypatch.setattr(connection, "_kept", {})
    return {
        "endpoints": ",".join(name_servers),
        "topic": topic,
        "deliveryGuarantee": "exactly-once",
        "writeId": "w",
    }


@pytest.fixture
def impatient(monkeypatch):
    calls = partial(BatchTransactions, policy=IMPATIENT)
    monkeypatch.setattr(connection, "BatchTransactions", calls)


def waits_until_back(broker, given):
    """Have a broker back as primary while a planner waits for it."""
    with ThreadPoolExecutor(1) as pool:
        checked = pool.submit(check_target, given)
        done, _ = wait([checked], timeout=0.3)
        assert not done, checked.exception()
        broker.registers()
        checked.result(timeout=30)


def test_a_new_planner_waits_for_a_topic_whose_only_broker_restarts(broker, given):
    broker.leaves()
    waits_until_back(broker, given)


@pytest.mark.parametrize("brokers", ["", TESTER])
def test_a_new_planner_waits_while_a_set_elects_its_primary(broker, given, brokers):
    broker.leaves()
    broker.registers(broker_id=1)
    waits_until_back(broker, given | ({"sinkBrokers": brokers} if brokers else {}))


def test_no_topic_is_to_be_created_whose_broker_stays_away(broker, given, topic, impatient):
    broker.leaves()
    with pytest.raises(RouteNotFound, match=f"{TESTER} had it and may come back") as refusal:
        check_target(given)
    assert topic in str(refusal.value)
    assert "topic create" not in str(refusal.value)


@pytest.mark.parametrize("server", [0, 1])
def test_the_name_server_that_knows_who_had_a_topic_is_believed(
    name_servers, given, topic, impatient, server
):
    """One that has restarted since knows of nobody."""
    broker = RegisteredBroker(name_servers[server : server + 1], topic)
    broker.registers()
    broker.leaves()
    with pytest.raises(RouteNotFound, match="may come back"):
        check_target(given)
    servers = NameServers(given["endpoints"])
    for asked in topic, None:
        assert TESTER in named_brokers(servers, Channels(), asked, timeout_s=10).known
    broker.close()


def test_a_stream_reads_other_topics_while_the_brokers_of_one_are_away(broker, given, topic):
    """A read that begins waits for them."""
    broker.leaves()
    pauses = []
    policy = RequestPolicy()
    client = QueueClient(given["endpoints"], policy, Repetition(policy, sleep=pauses.append))
    assert client.bounds([topic], lenient=True) == {}
    with pytest.raises(RouteNotFound, match="may come back"):
        client.bounds([topic], waits=False)
    assert client.away_brokers(topic) == {TESTER}
    assert pauses == []
    with pytest.raises(RouteNotFound, match="may come back"):
        client.bounds([topic])
    assert len(pauses) == policy.retries_max


def test_who_had_a_topic_is_known_where_nobody_has_it(broker, given, topic):
    """A stream waits for its queues, and does not take them for lost."""
    broker.leaves()
    routes = Routes(given["endpoints"], Channels(), timeout_s=10)
    assert routes.away_brokers(topic) == {TESTER}
    with pytest.raises(RouteNotFound):
        routes.away_brokers("nowhere")


def test_a_set_without_a_primary_is_named(broker, given, impatient):
    broker.leaves()
    broker.registers(broker_id=1)
    with pytest.raises(ServiceUnavailable, match=f"{TESTER} has no primary now"):
        check_target(given)


@pytest.mark.usefixtures("name_servers")
def test_a_topic_that_nobody_had_is_to_be_created_at_once(given):
    begun = time.monotonic()
    with pytest.raises(QueueNotFound, match=f"ariane topic create {given['topic']}"):
        check_target(given)
    assert time.monotonic() - begun < 5
