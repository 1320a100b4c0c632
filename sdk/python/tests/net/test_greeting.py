"""Plain text: on each connection a client asks who is there, and takes no other."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import grpc
import pytest
from grpc import aio

import ariane_wire
from ariane.common.v1.process_service_pb2 import GetProcessStateResponse, ProcessState
from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, QueueReader
from ariane_sdk.net.connections import Connections
from ariane_sdk.security import BROKER_KINDS, Expected
from ariane_servicekit import Address, serving
from ariane_testkit.free_ports import free_port
from ariane_testkit.small_store import SMALL_STORE_SETTINGS

ECHO = "/test.Echo/Echo"
NOBODY = object()


@asynccontextmanager
async def listening(state, code=None):
    """Whoever says that it is this."""

    async def echo(_request, _context):
        return b""

    async def tell(_request, context):
        if code is not None:
            await context.abort(code, "not you")
        return GetProcessStateResponse(state=state).SerializeToString()

    server = ariane_wire.server()
    handler = grpc.unary_unary_rpc_method_handler
    server.add_registered_method_handlers("test.Echo", {"Echo": handler(echo)})
    if state is not NOBODY:
        service = {"GetProcessState": handler(tell)}
        server.add_registered_method_handlers("ariane.common.v1.ProcessService", service)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.fixture
async def connections():
    made = Connections(Random(1))
    yield made
    await made.close()


async def echo(connections, address, *, ready=False):
    call = connections.channel(address).unary_unary(ECHO)
    return await call(b"", timeout=20, wait_for_ready=ready)


BROKER_A = ProcessState(service="broker", cluster_name="c1", member_name="a")


@pytest.mark.parametrize(("name", "cluster"), [("b", "c1"), ("a", "c2")])
async def test_a_broker_that_is_not_meant_is_sent_nothing(connections, name, cluster):
    async with listening(BROKER_A) as address:
        # Nobody has said yet who must be there.
        assert await echo(connections, address) == b""
        connections.expect(address, Expected(BROKER_KINDS, name, cluster))
        words = f"is broker a of cluster c1, not broker or replica {name} of cluster {cluster}"
        with pytest.raises(aio.AioRpcError, match=words) as refused:
            await echo(connections, address)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        connections.expect(address, Expected(BROKER_KINDS, "a", "c1"))
        assert await echo(connections, address, ready=True) == b""


async def test_who_is_meant_by_its_kind_alone_is_not_asked(connections):
    async with listening(BROKER_A, grpc.StatusCode.INTERNAL) as address:
        connections.expect(address, Expected(("namesrv",)))
        assert await echo(connections, address) == b""


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, None])
async def test_who_does_not_say_who_it_is_refuses_calls_by_itself(connections, code):
    state = NOBODY if code is None else BROKER_A
    async with listening(state, code) as address:
        connections.expect(address, Expected(BROKER_KINDS, "b", "c1"))
        assert await echo(connections, address) == b""


async def test_two_brokers_that_have_exchanged_their_addresses_keep_their_messages(tmp_path):
    ports = free_port(), free_port()

    @asynccontextmanager
    async def brokers(names, name_server):
        async with AsyncExitStack() as stack:
            for name, port in zip(names, ports, strict=True):
                settings = BrokerSettings(
                    broker_name=name,
                    listen=Address("127.0.0.1", port),
                    name_servers=(name_server,),
                    store_path=tmp_path / name,
                    **SMALL_STORE_SETTINGS,
                )
                await stack.enter_async_context(serving(settings, compose))
            yield

    settings = NamesrvSettings(listen=Address("127.0.0.1", 0), data_path=tmp_path / "n")
    async with serving(settings, NamesrvApp) as name_server:
        at, queue = str(name_server), MessageQueue("moved", "a", 0)
        async with Producer(at) as producer:
            async with brokers("ab", name_server), ClusterClient(at) as cluster:
                await cluster.create_topic("moved", queue_count=1)
                await producer.send(Message("moved", b"before"), message_queue=queue)
            async with brokers("ba", name_server), QueueReader(at) as reader:
                sent = await producer.send(Message("moved", b"after"), message_queue=queue)
                assert sent.queue_offset == 1
                pulled = await reader.pull(queue, 0)
                assert [message.body for message in pulled.messages] == [b"before", b"after"]
