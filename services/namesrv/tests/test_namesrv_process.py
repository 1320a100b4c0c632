"""A name server over gRPC: what brokers, clients and operators see.

It runs inside the test's process, but for what only a process can show.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from ariane.namesrv.v1 import maintenance_service_pb2 as maintenance
from ariane.namesrv.v1 import registration_service_pb2 as registering
from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1 import route_service_pb2 as routing
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_ordering import java_string_hash
from ariane_servicekit import serving
from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.contract import unimplemented_methods

PACKAGE = "ariane.namesrv.v1"
READ_WRITE = route_pb2.TOPIC_PERMISSION_READ_WRITE


class NameServer:
    """A running name server and the calls of its three kinds of callers."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address)
        self._registration = RegistrationServiceStub(self.channel)
        self._routes = RouteServiceStub(self.channel)
        self.maintenance = MaintenanceServiceStub(self.channel)

    async def register(self, name="broker-a", topic_names=("orders",), **changes):
        request = registering.RegisterBrokerRequest(
            identity=route_pb2.BrokerIdentity(
                cluster_name="c1", broker_name=name, address=changes.pop("address", "127.0.0.1:1")
            ),
            incarnation="first",
            topics=[
                route_pb2.TopicRegistration(
                    topic=topic, read_queue_count=8, write_queue_count=4, permission=READ_WRITE
                )
                for topic in topic_names
            ],
            topics_version=1,
            writable=True,
        )
        request.MergeFrom(registering.RegisterBrokerRequest(**changes))
        return await self._registration.RegisterBroker(request)

    async def heartbeat(self, **changes):
        fields = {
            "cluster_name": "c1",
            "broker_name": "broker-a",
            "incarnation": "first",
            "topics_version": 1,
            **changes,
        }
        return await self._registration.HeartbeatBroker(
            registering.HeartbeatBrokerRequest(**fields)
        )

    async def unregister(self, name="broker-a", incarnation="first"):
        request = registering.UnregisterBrokerRequest(
            cluster_name="c1", broker_name=name, incarnation=incarnation
        )
        return (await self._registration.UnregisterBroker(request)).known

    async def answer(self, topic="orders"):
        return await self._routes.GetRoute(routing.GetRouteRequest(topic=topic))

    async def route(self, topic="orders"):
        return (await self.answer(topic)).route

    async def group_queue(self, topic="orders", message_group="customer-7"):
        request = routing.GetMessageGroupQueueRequest(topic=topic, message_group=message_group)
        return await self._routes.GetMessageGroupQueue(request)

    async def topics(self, **fields):
        return await self._routes.ListTopics(routing.ListTopicsRequest(**fields))

    async def brokers(self, **fields):
        return await self._routes.ListBrokers(routing.ListBrokersRequest(**fields))

    async def pairs(self, namespace):
        request = maintenance.ListKeyValuesRequest(namespace=namespace)
        answer = await self.maintenance.ListKeyValues(request)
        return {pair.key: pair.value for pair in answer.key_values}


@pytest.fixture
async def start(tmp_path):
    """Start a name server with settings that differ from the usual ones."""
    async with AsyncExitStack() as stack:

        async def start(**changes):
            settings = NamesrvSettings(listen="127.0.0.1:0", data_path=tmp_path / "data", **changes)
            server = NameServer(str(await stack.enter_async_context(serving(settings, NamesrvApp))))
            stack.push_async_callback(server.channel.close)
            return server

        yield start


@pytest.fixture
async def process(tmp_path):
    """A name server's process."""
    arguments = ("--data-path", str(tmp_path / "data"))
    process = ServiceProcess("namesrv", "ariane_namesrv", arguments, tmp_path / "namesrv.log")
    await process.start()
    yield process
    assert await process.stop() == 0


async def refused(call) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Return code, reason and metadata of a refused call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    [error_info] = [unpacked for detail in status.details if detail.Unpack(unpacked := ErrorInfo())]
    return caught.value.code(), error_info.reason, dict(error_info.metadata)


async def test_the_life_of_a_route(start):
    server = await start()
    assert await refused(server.route()) == (
        grpc.StatusCode.NOT_FOUND,
        "ROUTE_NOT_FOUND",
        {"topic": "orders", "warming_up": "true"},
    )
    code, reason, _ = await refused(server.route("x" * 100_000))
    assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "ROUTE_NOT_FOUND")
    answer = await server.register("broker-a")
    assert answer.heartbeat_interval.ToSeconds() == 30
    await server.register("broker-b", ("orders", "bills"), address="[::1]:2")
    route = await server.route()
    assert route.topic == "orders"
    assert [broker.broker_name for broker in route.brokers] == ["broker-a", "broker-b"]
    [first, second] = route.brokers
    assert first == route_pb2.BrokerRoute(
        cluster_name="c1",
        broker_name="broker-a",
        addresses={0: "127.0.0.1:1"},
        read_queue_count=8,
        write_queue_count=4,
        permission=READ_WRITE,
    )
    assert second.addresses == {0: "[::1]:2"}
    assert (await server.heartbeat()).heartbeat_interval.ToSeconds() == 30
    assert await server.unregister()
    assert not await server.unregister()
    assert [broker.broker_name for broker in (await server.route()).brokers] == ["broker-b"]


async def test_answers_tell_that_the_name_server_has_just_started(start):
    server = await start(warm_up_s=3600)
    await server.register()
    assert (await server.answer()).warming_up
    assert (await server.topics()).warming_up
    assert (await server.brokers()).warming_up


async def test_a_name_server_that_is_warm_is_to_be_believed(start):
    server = await start(warm_up_s=0)
    assert await refused(server.route()) == (
        grpc.StatusCode.NOT_FOUND,
        "ROUTE_NOT_FOUND",
        {"topic": "orders"},
    )
    await server.register()
    assert not (await server.answer()).warming_up
    assert not (await server.topics()).warming_up
    assert not (await server.brokers()).warming_up


async def test_a_silent_broker_is_found_by_the_scan(start):
    server = await start(silence_s_max=1, scan_interval_s=0.05)
    await server.register("broker-a")
    silence_max = Duration(seconds=3600)
    answer = await server.register("broker-b", silence_max=silence_max, address="127.0.0.1:2")
    assert answer.heartbeat_interval.ToSeconds() == 30
    begin = asyncio.get_running_loop().time()
    async with asyncio.timeout(60):
        while len((await server.route()).brokers) == 2:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)
    assert asyncio.get_running_loop().time() - begin > 0.5
    assert [broker.broker_name for broker in (await server.route()).brokers] == ["broker-b"]
    _, reason, metadata = await refused(server.heartbeat())
    assert reason == "BROKER_NOT_REGISTERED"
    assert metadata["cause"] == "it is unknown here"


async def test_a_short_limit_asks_for_frequent_heartbeats(start):
    server = await start()
    answer = await server.register(silence_max=Duration(seconds=3))
    assert answer.heartbeat_interval.ToMilliseconds() == 1000


async def test_a_second_broker_of_one_name_is_refused(start):
    server = await start()
    await server.register()
    changes = {"incarnation": "second", "address": "127.0.0.1:2"}
    code, reason, metadata = await refused(server.register(**changes))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "BROKER_NAME_TAKEN")
    assert metadata["address"] == "127.0.0.1:1"
    await server.register(incarnation="second")
    assert not await server.unregister(incarnation="first")


async def test_an_announcement_that_makes_no_sense_names_the_field(start):
    server = await start(topics_per_broker_max=3)
    code, reason, metadata = await refused(server.register(address="0.0.0.0:1"))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")
    assert metadata == {"field": "identity.address", "value": "0.0.0.0:1"}
    answer = await server.brokers()
    assert not answer.brokers
    assert not answer.refused_brokers, "nobody could find it at that address"


async def test_topics_beyond_the_limit_are_refused_and_the_broker_stays(start):
    server = await start(topics_per_broker_max=3)
    answer = await server.register(topic_names=("a", "b", "c", "d"))
    assert answer.refused_topic_count == 1
    assert [one.topic for one in answer.refused_topics] == ["d"]
    (known,) = (await server.brokers()).brokers
    assert (known.topic_count, known.refused_topic_count) == (3, 1)
    assert "topics_per_broker_max" in known.refused_topics[0].cause
    assert (await server.route("c")).brokers[0].broker_name == "broker-a"
    # What stands in routes stays there, however many come before it by name.
    answer = await server.register(topic_names=("A", "B", "C", "c", "b"), topics_version=1)
    assert (await server.topics()).topics == ["A", "b", "c"]


async def test_a_broker_that_is_refused_is_told_of_until_it_is_let_in(start):
    server = await start(brokers_max=1)
    await server.register()
    _, reason, _ = await refused(server.register("broker-b", address="127.0.0.1:2"))
    assert reason == "SERVICE_BUSY"
    (told,) = (await server.brokers()).refused_brokers
    assert (told.identity.broker_name, told.identity.address) == ("broker-b", "127.0.0.1:2")
    assert told.cause == "as many brokers are registered as may be: 1"
    assert not (await server.brokers(cluster_name="c2")).refused_brokers
    await server.unregister()
    await server.register("broker-b", address="127.0.0.1:2")
    assert not (await server.brokers()).refused_brokers


async def test_lists_have_pages(start):
    server = await start()
    topics = [f"topic-{number:03}" for number in range(150)]
    await server.register("broker-a", topics)
    await server.register("broker-b", ["zebra"], address="127.0.0.1:2")
    first = await server.topics()
    assert first.topics == topics[:100]
    rest = await server.topics(page_token=first.next_page_token)
    assert rest.topics == [*topics[100:], "zebra"]
    assert not rest.next_page_token
    assert not (await server.topics(cluster_name="c2")).topics
    _, reason, _ = await refused(server.brokers(page_token=first.next_page_token))
    assert reason == "PAGE_TOKEN_INVALID"
    brokers = await server.brokers(page_size=1)
    assert brokers.next_page_token
    [broker] = brokers.brokers
    assert broker.identity.broker_name == "broker-a"
    assert broker.topic_count == 150
    assert broker.silence_max.ToSeconds() == 120
    assert broker.last_heard_time.ToMilliseconds() > 0
    code, reason, _ = await refused(server.topics(page_size=1001))
    assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")


async def test_a_message_group_belongs_to_one_queue_of_all_brokers(start):
    server = await start()
    code, reason, _ = await refused(server.group_queue())
    assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "ROUTE_NOT_FOUND")
    await server.register("broker-b", address="127.0.0.1:2")
    await server.register("broker-a")
    groups = [f"customer-{number}" for number in range(200)]
    found = {group: await server.group_queue(message_group=group) for group in groups}
    queues = [(name, queue_id) for name in ("broker-a", "broker-b") for queue_id in range(4)]
    for group, answer in found.items():
        expected = queues[java_string_hash(group) % 8]
        assert (answer.queue.broker_name, answer.queue.queue_id) == expected
        assert answer.queue.topic == "orders"
    addresses = {answer.queue.broker_name: answer.address for answer in found.values()}
    assert addresses == {"broker-a": "127.0.0.1:1", "broker-b": "127.0.0.1:2"}
    for field in ("topic", "message_group"):
        code, reason, _ = await refused(server.group_queue(**{field: ""}))
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")


async def test_a_group_of_a_fifo_topic_waits_for_its_broker(start):
    server = await start()
    fifo = route_pb2.TopicRegistration(
        topic="trades",
        read_queue_count=4,
        write_queue_count=4,
        permission=READ_WRITE,
        ordered=True,
    )
    await server.register("broker-a", (), topics=[fifo])
    code, reason, _ = await refused(server.group_queue("trades"))
    assert (code, reason) == (grpc.StatusCode.UNAVAILABLE, "QUEUE_ORDER_UNKNOWN")
    order = maintenance.PutKeyValueRequest(
        namespace="ORDER_TOPIC_CONFIG", key="trades", value="broker-b:4;broker-a:4"
    )
    await server.maintenance.PutKeyValue(order)
    groups = [f"customer-{number}" for number in range(16)]
    there = [group for group in groups if java_string_hash(group) % 8 < 4]
    away = [group for group in groups if java_string_hash(group) % 8 >= 4]
    assert there
    assert away
    for group in there:
        assert (await server.group_queue("trades", group)).queue.broker_name == "broker-a"
    for group in away:
        code, reason, told = await refused(server.group_queue("trades", group))
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "ROUTE_NOT_FOUND")
        assert told["broker_name"] == "broker-b"
        assert told["queue_order"] == "broker-b:4;broker-a:4", "so clients wait"
        assert "away_brokers" not in told, "it was never here"
    await server.register("broker-b", (), topics=[fifo], address="127.0.0.1:2")
    assert (await server.group_queue("trades", away[0])).address == "127.0.0.1:2"
    await server.unregister("broker-b")
    _, _, told = await refused(server.group_queue("trades", away[0]))
    assert told["away_brokers"] == "broker-b"


async def test_decisions_of_operators_outlive_a_restart(process):
    server = NameServer(process.address)
    await server.register("broker-a", ("orders", "bills"))
    wipe = maintenance.WipeWritePermissionRequest(broker_name="broker-a")
    restore = maintenance.RestoreWritePermissionRequest(broker_name="broker-a")
    assert (await server.maintenance.WipeWritePermission(wipe)).topic_count == 2
    assert (await server.maintenance.WipeWritePermission(wipe)).topic_count == 0
    put = maintenance.PutKeyValueRequest(
        namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4"
    )
    await server.maintenance.PutKeyValue(put)

    process.kill()
    await process.wait()
    await process.restart()
    _, reason, _ = await refused(server.heartbeat())
    assert reason == "BROKER_NOT_REGISTERED"
    _, _, known = await refused(server.route())
    assert known["queue_order"] == "broker-a:4", "the topic exists, whoever carries it"
    await server.register("broker-a", ("orders", "bills"))
    route = await server.route()
    assert route.queue_order == "broker-a:4"
    assert route.brokers[0].permission == route_pb2.TOPIC_PERMISSION_READ
    assert (await server.brokers()).brokers[0].write_wiped
    assert await server.pairs("ORDER_TOPIC_CONFIG") == {"orders": "broker-a:4"}

    assert (await server.maintenance.RestoreWritePermission(restore)).topic_count == 2
    assert (await server.maintenance.RestoreWritePermission(restore)).topic_count == 0
    assert (await server.route()).brokers[0].permission == READ_WRITE
    delete = maintenance.DeleteKeyValueRequest(namespace="ORDER_TOPIC_CONFIG", key="orders")
    assert (await server.maintenance.DeleteKeyValue(delete)).known
    assert not (await server.maintenance.DeleteKeyValue(delete)).known
    assert (await server.route()).queue_order == ""
    await server.channel.close()


async def test_maintenance_of_a_stranger_is_refused(start):
    server = await start()
    for request in (
        maintenance.WipeWritePermissionRequest(broker_name="broker-z"),
        maintenance.RestoreWritePermissionRequest(broker_name="broker-z"),
    ):
        name = type(request).__name__.removesuffix("Request")
        code, reason, _ = await refused(getattr(server.maintenance, name)(request))
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "BROKER_NOT_REGISTERED")


async def test_a_broker_that_does_not_come_back_is_forgotten(start):
    server = await start()
    forget = maintenance.ForgetBrokerRequest(broker_name="broker-b")
    for name, address in ("broker-a", "127.0.0.1:1"), ("broker-b", "127.0.0.1:2"):
        zone = route_pb2.BrokerIdentity(zone="north")
        await server.register(name, ("orders", "bills"), address=address, identity=zone)
    code, reason, metadata = await refused(server.maintenance.ForgetBroker(forget))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "BROKER_ALIVE")
    assert metadata["address"] == "127.0.0.1:2"
    await server.unregister("broker-b")
    route = await server.route()
    assert list(route.away_broker_names) == ["broker-b"]
    assert dict(route.away_broker_zones) == {"broker-b": "north"}
    [away] = (await server.brokers()).away_brokers
    assert (away.cluster_name, away.broker_name, away.topic_count) == ("c1", "broker-b", 2)
    assert not (await server.brokers(cluster_name="c2")).away_brokers
    await server.unregister("broker-a")
    _, _, metadata = await refused(server.route())
    assert metadata["away_brokers"] == "broker-a,broker-b"
    await server.register("broker-a", ("bills",), address="127.0.0.1:1")
    _, _, metadata = await refused(server.route())
    assert metadata["away_brokers"] == "broker-b"
    assert (await server.maintenance.ForgetBroker(forget)).topic_count == 2
    assert (await server.maintenance.ForgetBroker(forget)).topic_count == 0
    _, _, metadata = await refused(server.route())
    assert "away_brokers" not in metadata
    assert not (await server.route("bills")).away_broker_names
    assert not (await server.brokers()).away_brokers


async def test_every_service_is_healthy_and_answers_all_its_methods(start):
    server = await start()
    health = health_pb2_grpc.HealthStub(server.channel)
    for service in ("", *(f"{PACKAGE}.{name}Service" for name in ("Registration", "Route"))):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert await unimplemented_methods(server.channel, PACKAGE) == set()


async def test_two_name_servers_on_one_folder(process, tmp_path):
    address = "127.0.0.1:0"
    second = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ariane_namesrv", "--listen", address),
        *("--data-path", tmp_path / "data"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await second.communicate()
    assert second.returncode == 2
    assert errors.decode() == f"ariane-namesrv: {tmp_path / 'data'} is in use by another process\n"


def test_help_shows_an_example():
    shown = subprocess.run(
        [sys.executable, "-m", "ariane_namesrv", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--silence-s-max" in shown.stdout
    assert "python -m ariane_namesrv --listen 127.0.0.1:9876" in shown.stdout
