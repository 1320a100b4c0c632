"""The cluster behind a gateway, by real name servers: which routes it keeps, and who is away."""

import pytest

from ariane_gateway.brokers import cluster as cluster_module
from ariane_gateway.brokers.attachments import Attachments
from ariane_gateway.brokers.cluster import AWAY_S, ROUTE_UNUSED_S, Cluster
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import Address, serving
from ariane_testkit.virtual_clock import VirtualClock
from services.namesrv.tests.test_namesrv_process import NameServer


class ClusterClock(VirtualClock):
    """Stands still until a test moves it."""

    monotonic_s = VirtualClock.monotonic


@pytest.fixture
async def name_server(tmp_path):
    """A name server that knows what it is told at once; ``stop`` ends it."""
    settings = NamesrvSettings(
        listen=Address("127.0.0.1", 0), data_path=tmp_path / "data", warm_up_s=0, grace_s=0.1
    )
    life = serving(settings, NamesrvApp)
    address = str(await life.__aenter__())
    server = NameServer(address)
    server.address = address
    ended = []

    async def stop():
        if not ended:
            ended.append(True)
            await server.channel.close()
            await life.__aexit__(None, None, None)

    server.stop = stop
    yield server
    await stop()


@pytest.fixture
async def cluster(name_server):
    opened = Cluster([name_server.address], timeout_s=10.0, tls=False)
    opened.clock = ClusterClock()
    opened.open()
    yield opened
    await opened.close()


async def refusal_of(call):
    with pytest.raises(Refused) as refused:
        await call
    return refused.value.kind


async def test_a_route_that_nobody_uses_is_asked_for_no_more(cluster, name_server):
    await name_server.register("broker-a", ("orders", "bills"))
    for topic in ("orders", "bills"):
        await cluster.route(topic)
    await name_server.unregister("broker-a")
    cluster.clock.advance(ROUTE_UNUSED_S / 2)
    await cluster.route("bills")
    cluster.forget_unused()
    assert await cluster.route("orders")  # Deleted or not: it was used lately.
    cluster.clock.advance(ROUTE_UNUSED_S / 2 + 1)
    await cluster.route("bills")
    cluster.clock.advance(ROUTE_UNUSED_S / 2)
    cluster.forget_unused()
    # Its broker is away, and may come back with it.
    assert await refusal_of(cluster.route("orders")) is Refusal.UNAVAILABLE
    assert await refusal_of(cluster.route("nowhere")) is Refusal.TOPIC_UNKNOWN
    assert await cluster.route("bills")
    cluster.clock.advance(ROUTE_UNUSED_S + 1)
    cluster.forget_unused()
    assert cluster._used_s == {}


async def test_a_route_that_has_just_come_is_not_forgotten(cluster, name_server):
    """Who asked for it has it a moment later."""
    await name_server.register("broker-a")
    await cluster._opened.routes.get("orders")
    await name_server.unregister("broker-a")
    cluster.forget_unused()
    assert await cluster.route("orders")


async def test_no_route_is_forgotten_while_no_name_server_answers(cluster, name_server):
    await name_server.register("broker-a")
    await cluster.route("orders")
    await name_server.stop()
    cluster.clock.advance(1)
    assert await refusal_of(cluster.primary("nobody", "orders")) is Refusal.TOPIC_UNKNOWN
    cluster.clock.advance(ROUTE_UNUSED_S + 1)
    cluster.forget_unused()
    assert await cluster.route("orders")


async def test_a_broker_without_a_route_is_waited_for_if_it_lived_lately(
    cluster, name_server, monkeypatch
):
    monkeypatch.setattr(cluster_module, "AWAY_KNOWN_S", 0.0)
    await name_server.register("broker-a", address="127.0.0.1:1")
    await name_server.register("broker-b", address="127.0.0.1:2")
    assert await cluster.primary("broker-a", "orders") == "127.0.0.1:1"
    await cluster.primaries()
    await name_server.unregister("broker-a")
    cluster.clock.advance(1)
    # It is one of no route that has others look again.
    assert await refusal_of(cluster.primary("nobody", "orders")) is Refusal.TOPIC_UNKNOWN
    assert await refusal_of(cluster.primary("broker-a", "orders")) is Refusal.UNAVAILABLE
    await name_server.register("broker-a", ("bills",), address="127.0.0.1:1")
    cluster.clock.advance(1)
    assert await refusal_of(cluster.primary("broker-a", "orders")) is Refusal.TOPIC_UNKNOWN
    await name_server.unregister("broker-a")
    cluster.clock.advance(AWAY_S - 1)
    assert await refusal_of(cluster.primary("broker-a", "orders")) is Refusal.UNAVAILABLE
    cluster.clock.advance(2)
    assert await refusal_of(cluster.primary("broker-a", "orders")) is Refusal.TOPIC_UNKNOWN
    # Name servers know that it had the topic.
    await name_server.register("broker-a", address="127.0.0.1:1")
    await name_server.unregister("broker-a")
    cluster.clock.advance(AWAY_S + 1)
    assert await refusal_of(cluster.primary("broker-a", "orders")) is Refusal.UNAVAILABLE


async def test_a_broker_that_is_gone_for_good_is_not_called_for_ever(cluster, name_server):
    attachments = Attachments(cluster, "gateway", everybody=tuple, ask=None, facts=dict)
    await name_server.register("broker-a", address="127.0.0.1:1")
    await attachments.follow()
    await name_server.unregister("broker-a")
    for passed_s, names in ((AWAY_S - 1, {"broker-a"}), (2, set())):
        cluster.clock.advance(passed_s)
        await attachments.follow()
        assert set(attachments._attachments) == names
    await attachments.close()
