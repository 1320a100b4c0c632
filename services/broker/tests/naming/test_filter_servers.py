"""FilterServers announce themselves to their broker, and stand in its routes while they live."""

import asyncio

import pytest

from ariane.filter.v1 import filter_registration_service_pb2 as filter_pb
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceStub
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_broker.naming.filter_servers import FILTER_SERVERS_MAX, FilterServers
from ariane_broker.rpc.servicers.filter_registration_servicer import FilterRegistrationServicer
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import ServiceError
from ariane_testkit.virtual_clock import VirtualClock


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def announcement(settings_for):
    return BrokerAnnouncement(
        settings_for(), TopicTable(now_ms=lambda: 1, default_queue_count=4), "incarnation"
    )


@pytest.fixture
def servers(announcement, clock):
    told = []

    async def announce():
        told.append(list(announcement.registration().filter_server_addresses))

    made = FilterServers(announcement, announce, clock, silence_s=30)
    made.told = told
    return made


async def test_name_servers_are_told_of_who_comes_and_goes(servers, announcement):
    version = announcement.version
    await servers.register("10.0.0.1:7", "one")
    await servers.register("10.0.0.1:5", "two")
    assert servers.told == [["10.0.0.1:7"], ["10.0.0.1:5", "10.0.0.1:7"]]
    assert announcement.version == version + 2
    await servers.register("10.0.0.1:5", "two")  # The heartbeat tells nobody anything.
    assert await servers.unregister("10.0.0.1:7", "one")
    assert servers.told[2:] == [["10.0.0.1:5"]]


async def test_a_goodbye_of_an_earlier_process_is_ignored(servers):
    await servers.register("10.0.0.1:7", "one")
    await servers.register("10.0.0.1:7", "two")
    assert not await servers.unregister("10.0.0.1:7", "one")
    assert await servers.unregister("10.0.0.1:7", "two")
    assert not await servers.unregister("10.0.0.1:7", "two")


async def test_a_silent_filter_server_leaves_the_routes(servers, clock):
    await servers.register("10.0.0.1:5", "one")
    clock.advance(20)
    await servers.register("10.0.0.1:7", "two")
    clock.advance(11)
    await servers.expire()
    assert servers.told[-1] == ["10.0.0.1:7"]
    await servers.register("10.0.0.1:5", "one")
    assert servers.told[-1] == ["10.0.0.1:5", "10.0.0.1:7"]


@pytest.mark.parametrize(
    ("address", "incarnation", "field"),
    [("nowhere", "one", "address"), ("", "one", "address"), ("h:1", "", "incarnation")],
)
async def test_senseless_registrations_are_refused(servers, address, incarnation, field):
    with pytest.raises(ServiceError) as refused:
        await servers.register(address, incarnation)
    assert (refused.value.row.name, refused.value.field) == ("FIELD_INVALID", field)


async def test_there_is_an_end_of_them(servers):
    for port in range(FILTER_SERVERS_MAX):
        await servers.register(f"h:{port + 1}", "one")
    with pytest.raises(ServiceError):
        await servers.register("h:999", "one")
    await servers.register("h:1", "two")


async def test_registration_on_the_wire(broker, refused):
    stub = FilterRegistrationServiceStub(broker.channel)
    request = filter_pb.RegisterFilterServerRequest(address="127.0.0.1:7", incarnation="one")
    response = await stub.RegisterFilterServer(request)
    assert response.broker_name == "broker-a"
    assert (response.heartbeat_interval.seconds, response.silence_max.seconds) == (10, 30)
    wrong = filter_pb.RegisterFilterServerRequest(address="7", incarnation="one")
    assert (await refused(stub.RegisterFilterServer(wrong))).reason == "FIELD_INVALID"
    goodbye = filter_pb.UnregisterFilterServerRequest(address="127.0.0.1:7", incarnation="one")
    assert (await stub.UnregisterFilterServer(goodbye)).known
    assert not (await stub.UnregisterFilterServer(goodbye)).known


class _Context:
    def __init__(self, peer):
        self._peer = peer

    def peer(self):
        return self._peer


async def test_strangers_do_not_get_into_routes(servers):
    """Who stands in a route gets the pulls of groups, and could answer them with anything."""
    servicer = FilterRegistrationServicer(servers, "broker-a")
    request = filter_pb.RegisterFilterServerRequest(address="10.0.0.1:7", incarnation="one")
    with pytest.raises(ServiceError) as denied:
        await servicer.RegisterFilterServer(request, _Context("ipv4:10.0.0.9:4711"))
    assert denied.value.row.name == "ACCESS_DENIED"
    for peer in ("ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711"):
        await servicer.RegisterFilterServer(request, _Context(peer))
    assert servers.told == [["10.0.0.1:7"]]


async def test_a_loop_looks_for_the_silent(servers, clock):
    await servers.register("10.0.0.1:5", "one")
    servers.expiry.start()
    await clock.elapse(45)
    await asyncio.sleep(0)
    await servers.expiry.stop()
    assert servers.told[-1] == []
