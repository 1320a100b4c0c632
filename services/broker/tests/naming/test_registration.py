"""The broker's standing with name servers, against scripted ones."""
# ruff: noqa: ASYNC109, N802 - the generated stub has these names.

import asyncio
from functools import partial

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.namesrv.v1 import registration_service_pb2 as registration_pb
from ariane.namesrv.v1 import registration_service_pb2_grpc as registration_grpc
from ariane.namesrv.v1 import route_pb2 as route_pb
from ariane_broker.naming.registration import NameServer, NameServerLink, Registration
from ariane_servicekit import StartRefused
from ariane_testkit.virtual_clock import VirtualClock


class ScriptedNameServer:
    """Both a stub and a servicer: keeps what it is told, fails as it is told."""

    def __init__(self):
        self.calls = []
        self.fail_with = None
        self.heartbeat_s = 0
        self.known = None

    def _answer(self, kind, request):
        self.calls.append((kind, request))
        if self.fail_with is not None:
            raise aio.AioRpcError(self.fail_with, aio.Metadata(), aio.Metadata(), "scripted")

    async def RegisterBroker(self, request, context=None, timeout=None):
        if context is not None and self.fail_with is not None:
            await context.abort(self.fail_with, "broker-a lives at 127.0.0.1:9")
        self._answer("register", request)
        self.known = request
        return registration_pb.RegisterBrokerResponse(
            heartbeat_interval=Duration(seconds=self.heartbeat_s)
        )

    async def HeartbeatBroker(self, request, context=None, timeout=None):
        self._answer("heartbeat", request)
        if self.known is None or self.known.topics_version != request.topics_version:
            if context is not None:
                await context.abort(grpc.StatusCode.NOT_FOUND, "register")
            raise aio.AioRpcError(grpc.StatusCode.NOT_FOUND, aio.Metadata(), aio.Metadata())
        return registration_pb.HeartbeatBrokerResponse()

    async def UnregisterBroker(self, request, context=None, timeout=None):
        self._answer("goodbye", request)
        self.known = None
        return registration_pb.UnregisterBrokerResponse(known=True)

    def kinds(self):
        return [kind for kind, _ in self.calls]


class ScriptedAnnouncement:
    version = 1
    incarnation = "i"
    identity = route_pb.BrokerIdentity(broker_name="broker-a")

    def registration(self):
        return registration_pb.RegisterBrokerRequest(
            identity=self.identity, topics_version=self.version
        )


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def announcement():
    return ScriptedAnnouncement()


@pytest.fixture
async def make_registration(clock, announcement):
    made = []

    async def close():
        pass

    def make(*servers, wait_seconds=5):
        def link(place, server):
            return NameServerLink(
                NameServer(f"ns-{place}", server, close),
                announcement,
                clock,
                heartbeat_seconds=30,
            )

        async def find():
            return {
                f"ns-{place}": partial(link, place, server) for place, server in enumerate(servers)
            }

        made.append(Registration(find, wait_seconds=wait_seconds))
        return made[-1]

    yield make
    for registration in made:
        await registration.close()


async def test_registered_at_start_and_kept_in_mind(make_registration, clock):
    server = ScriptedNameServer()
    registration = make_registration(server)
    await registration.start()
    assert server.kinds() == ["register"]
    await clock.elapse(29)
    assert server.kinds() == ["register"]
    await clock.elapse(61)
    assert server.kinds() == ["register", "heartbeat", "heartbeat", "heartbeat"]


async def test_a_name_server_may_want_it_sooner(make_registration, clock):
    server = ScriptedNameServer()
    server.heartbeat_s = 10
    registration = make_registration(server)
    await registration.start()
    await clock.elapse(10.5)
    assert server.kinds() == ["register", "heartbeat"]


async def test_a_change_is_told_at_once(make_registration, announcement):
    server = ScriptedNameServer()
    registration = make_registration(server)
    await registration.start()
    announcement.version = 2
    await registration.announce()
    assert server.known.topics_version == 2


async def test_a_name_server_that_forgot_is_told_again(make_registration, clock):
    server = ScriptedNameServer()
    registration = make_registration(server)
    await registration.start()
    server.known = None
    await clock.elapse(30)
    assert server.kinds() == ["register", "heartbeat", "register"]


async def test_one_that_is_away_delays_nobody_and_is_found_again(
    make_registration, clock, announcement
):
    away, there = ScriptedNameServer(), ScriptedNameServer()
    away.fail_with = grpc.StatusCode.UNAVAILABLE
    registration = make_registration(away, there, wait_seconds=1000)
    async with asyncio.timeout(60):
        await registration.start()
    assert there.kinds() == ["register"]
    announcement.version = 2
    async with asyncio.timeout(60):
        await registration.announce()
    assert there.known.topics_version == 2
    await clock.elapse(60)
    tries = len(away.calls)
    assert 5 < tries < 20, "soon at first, then ever slower"
    away.fail_with = None
    await clock.elapse(16)
    assert away.known.topics_version == 2


async def test_one_that_hangs_is_waited_for_only_a_moment(make_registration):
    class Hanging(ScriptedNameServer):
        async def RegisterBroker(self, request, context=None, timeout=None):
            await asyncio.Event().wait()

    registration = make_registration(Hanging(), wait_seconds=0.02)
    async with asyncio.timeout(60):
        await registration.start()
        await registration.announce()


async def test_a_goodbye_is_said_to_all(make_registration):
    servers = [ScriptedNameServer(), ScriptedNameServer()]
    servers[0].fail_with = grpc.StatusCode.UNAVAILABLE
    registration = make_registration(*servers)
    await registration.start()
    await registration.unregister()
    assert [server.kinds()[-1] for server in servers] == ["goodbye", "goodbye"]
    await registration.announce()
    assert servers[1].kinds()[-1] == "goodbye"


@pytest.fixture
async def name_server():
    scripted = ScriptedNameServer()
    server = aio.server()
    registration_grpc.add_RegistrationServiceServicer_to_server(scripted, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    scripted.address = f"127.0.0.1:{port}"
    yield scripted
    await server.stop(None)


async def test_a_broker_tells_all_of_itself(running, name_server):
    # The second name server is one that nobody runs.
    names = f"{name_server.address},127.0.0.1:1"
    async with running(name_servers=names, broker_name="broker-x", zone="here") as broker:
        identity = name_server.known.identity
        assert identity.broker_name == "broker-x"
        assert identity.address == str(broker.address)
        assert identity.zone == "here"
        assert name_server.known.writable
        topics = {topic.topic for topic in name_server.known.topics}
        assert "TBW102" in topics

        await broker.create_topic("orders", 3)
        (orders,) = [topic for topic in name_server.known.topics if topic.topic == "orders"]
        assert (orders.read_queue_count, orders.write_queue_count) == (3, 3)
        assert orders.permission == route_pb.TOPIC_PERMISSION_READ_WRITE

        await broker.store("fresh", [b"a"])
        assert "fresh" in {topic.topic for topic in name_server.known.topics}

        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
        assert "orders" not in {topic.topic for topic in name_server.known.topics}
    assert name_server.kinds()[-1] == "goodbye"


async def test_a_drained_broker_is_told_as_not_writable(running, name_server, refused):
    async with running(name_servers=name_server.address) as broker:
        await broker.store("orders", [b"a"])
        response = await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=True))
        assert not response.writable
        assert not name_server.known.writable
        failure = await refused(broker.append(broker.batch("orders", [b"b"])))
        assert (failure.reason, failure.code) == ("SERVICE_DRAINING", "UNAVAILABLE")
        assert await broker.bodies("orders") == [b"a"]
        await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=False))
        assert name_server.known.writable
        await broker.store("orders", [b"b"])


async def test_a_broker_does_not_serve_beside_a_living_one_of_its_name(running, name_server):
    name_server.fail_with = grpc.StatusCode.ALREADY_EXISTS
    with pytest.raises(StartRefused, match=r"lives at .*: give this broker another"):
        async with running(name_servers=name_server.address):
            pass
    name_server.fail_with = None
    async with running(name_servers=name_server.address):
        assert name_server.known is not None


async def test_a_name_server_that_is_away_stops_no_start(running, name_server):
    name_server.fail_with = grpc.StatusCode.UNAVAILABLE
    async with running(name_servers=name_server.address) as broker:
        await broker.store("orders", [b"a"])
