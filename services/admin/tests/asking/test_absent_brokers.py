"""Brokers that name servers have forgotten: a list says of whom it knows that it is without."""

import asyncio
import json

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.namesrv.v1.maintenance_service_pb2 import KeyValue, ListKeyValuesResponse
from ariane.namesrv.v1.maintenance_service_pb2_grpc import (
    MaintenanceServiceServicer,
    add_MaintenanceServiceServicer_to_server,
)
from ariane.namesrv.v1.route_pb2 import AwayBroker, BrokerIdentity, BrokerLiveness
from ariane.namesrv.v1.route_service_pb2 import ListBrokersResponse
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)
from ariane_admin.asking import absent_brokers
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.cli import main
from ariane_admin.doctor.cluster_facts import gather_facts
from ariane_admin.terminal.exits import ExitStatus
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE


class ScriptedNameServer(RouteServiceServicer, MaintenanceServiceServicer):
    """Knows some brokers by name, and orders of queues by topic; hangs when it knows no brokers."""

    def __init__(self, brokers, orders, away=()):
        self.brokers = brokers
        self.orders = orders
        self.away = [
            AwayBroker(broker_name=name, topic_count=2, leave_time=Timestamp(seconds=9))
            for name in away
        ]

    async def ListBrokers(self, request, context):  # noqa: N802 - the contract's name.
        if self.brokers is None:
            await asyncio.Event().wait()
        identities = (
            BrokerIdentity(cluster_name="c", broker_name=name, broker_id=0, address="127.0.0.1:1")
            for name in self.brokers
        )
        return ListBrokersResponse(
            brokers=[BrokerLiveness(identity=one) for one in identities], away_brokers=self.away
        )

    async def ListKeyValues(self, request, context):  # noqa: N802 - the contract's name.
        if self.orders is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "scripted")
        assert request.namespace == "ORDER_TOPIC_CONFIG"
        # A page has one of them.
        place = int(request.page_token or 0)
        pairs = [KeyValue(key=topic, value=order) for topic, order in self.orders.items()]
        rest = str(place + 1) if place + 1 < len(pairs) else ""
        return ListKeyValuesResponse(key_values=pairs[place : place + 1], next_page_token=rest)


@pytest.fixture
async def warnings(capfd):
    """What is said by lists of what the first of some name servers tells."""
    servers = []

    async def warned(*name_servers):
        addresses = []
        for scripted in name_servers:
            server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            add_RouteServiceServicer_to_server(scripted, server)
            add_MaintenanceServiceServicer_to_server(scripted, server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            await server.start()
            servers.append(server)
        async with ClusterDoors(addresses[0]) as first:
            listed = [broker.broker_name for broker in await first.primaries()]
        async with ClusterDoors(",".join(addresses)) as doors:
            await warn_of_absent(doors, listed)
        return addresses, capfd.readouterr().err.splitlines()

    yield warned
    for server in servers:
        await server.stop(None)


async def test_no_broker_is_reported_absent_where_all_are_known(warnings):
    orders = {"trades": "broker-a:4;broker-b:4", "mistyped": "broker-c;:3"}
    one = ScriptedNameServer(["broker-a", "broker-b"], orders)

    assert (await warnings(one, ScriptedNameServer(["broker-b", "broker-a"], {})))[1] == []


async def test_a_broker_that_another_name_server_knows_is_named(warnings):
    addresses, said = await warnings(
        ScriptedNameServer(["broker-a"], {}), ScriptedNameServer(["broker-a", "broker-b"], {})
    )

    [warning] = said
    assert "the result lacks broker broker-b: only name server " + addresses[1] in warning


async def test_a_broker_that_only_orders_of_queues_know_is_named_once(warnings):
    orders = {"trades": "broker-a:4;broker-b:4", "bills": "broker-b:1", "orders": "broker-a:1"}
    _, said = await warnings(
        ScriptedNameServer(["broker-a"], orders), ScriptedNameServer(["broker-a"], orders)
    )

    [warning] = said
    assert "the result lacks broker broker-b, which is not registered" in warning
    assert "of topic bills and 1 more" in warning


async def test_a_broker_that_is_away_is_named_with_since_when_and_what_to_do(warnings):
    orders = {"trades": "broker-a:4;broker-c d:4"}
    _, said = await warnings(
        ScriptedNameServer(["broker-a"], orders, away=["broker-b", "broker-c d"]),
        ScriptedNameServer(["broker-a", "broker-b"], orders, away=["broker-a", "broker-c d"]),
    )

    alive_elsewhere, away = said
    assert "the result lacks broker broker-b: only name server" in alive_elsewhere
    assert away == (
        "ariane: warning: the result lacks broker broker-c d, which is not registered: it is away"
        " since 1970-01-01T00:00:09+00:00, with 2 topics; start it, or if it is gone for good:"
        " ariane broker forget 'broker-c d'"
    )


async def test_a_name_server_that_hangs_or_knows_no_orders_hides_no_other(warnings, monkeypatch):
    monkeypatch.setattr(absent_brokers, "ASK_SECONDS_MAX", 0.2)
    _, said = await warnings(
        ScriptedNameServer(["broker-a"], None),
        ScriptedNameServer(None, None),
        ScriptedNameServer(["broker-b"], {}),
    )

    assert [line.split(":")[2].strip() for line in said] == ["the result lacks broker broker-b"]


@pytest.fixture(scope="module")
def without_one(tmp_path_factory):
    """A cluster one of whose two brokers has left; a topic has queues on both, in order."""
    folder = tmp_path_factory.mktemp("without")
    with LocalCluster(folder, brokers=2, extra_broker_args=SMALL_STORE) as cluster:
        names = ("--name-servers", cluster.name_servers)
        assert main(["topic", "create", "trades", "--type", "fifo", *names]) == ExitStatus.DONE
        cluster.brokers[1].terminate()
        cluster.call_blocking(cluster.brokers[1].wait)
        yield cluster


@pytest.mark.parametrize("text", ["broker list", "group list", "topic list"])
def test_lists_say_whom_they_are_without(without_one, text, capfd):
    names = ("--name-servers", without_one.name_servers)

    assert main([*text.split(), "-o", "json", *names]) == ExitStatus.DONE

    out, err = capfd.readouterr()
    assert isinstance(json.loads(out), list)
    [warning] = err.splitlines()
    assert "the result lacks broker broker-b, which is not registered" in warning


async def test_the_doctor_knows_orders_of_queues(without_one):
    async with ClusterDoors(without_one.name_servers) as doors:
        facts = await gather_facts(doors)

    [name_server] = facts.name_servers
    assert name_server.orders == {"trades": "broker-a:4;broker-b:4"}
