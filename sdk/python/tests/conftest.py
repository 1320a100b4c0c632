"""A scripted broker with a name server in one, and real clusters."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

import ariane_wire
from ariane.broker.v1.send_service_pb2 import AppendRecordsResponse
from ariane.broker.v1.send_service_pb2_grpc import (
    SendServiceServicer,
    add_SendServiceServicer_to_server,
)
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_MEMORY
from ariane.namesrv.v1.route_pb2 import (
    TOPIC_PERMISSION_READ_WRITE,
    BrokerRoute,
    Route,
)
from ariane.namesrv.v1.route_service_pb2 import GetRouteResponse
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)
from ariane_record import RecordFields
from ariane_record.decoding.columns import decode_columns
from ariane_sdk.runtime.clock import SystemClock
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.append_rows import RowResult, call_of, table_result_of
from ariane_testkit.postgresql import empty_database, postgresql_or_skip
from ariane_testkit.small_store import SMALL_STORE


def status(code, reason, message="scripted", **metadata):
    """A status of our own domain."""
    detail = Any()
    detail.Pack(ErrorInfo(reason=reason, domain="ariane.mq", metadata=metadata))
    return Status(code=code.value[0], message=message, details=[detail])


class ScriptedBroker(SendServiceServicer):
    """Stores what it is sent, row by row, and misbehaves as told.

    ``script`` holds what happens to the next calls, in order: ``"store"`` (also when empty), a
    ``grpc.StatusCode`` or a ``Status`` for the whole call, a list of ``Status`` or None for its
    batches, ``"hang"``, ``"store and hang"``, or an event that the answer waits for. ``twist``
    changes what it says.
    """

    def __init__(self):
        self.twist = lambda answer: None
        self.half_groups = []
        self.script = deque()
        self.calls = []
        self.queues: dict[tuple[str, int], list[RecordFields]] = {}
        self.called = asyncio.Condition()
        self.address = ""
        self.acknowledged_level = ACKNOWLEDGED_LEVEL_MEMORY

    async def AppendRecords(self, request, context):  # noqa: N802 - the contract's name.
        self.half_groups.append(list(request.table.half_groups))
        call = call_of(request)
        step = await self._next_step(call)
        if isinstance(step, Status):
            context.set_trailing_metadata((("grpc-status-details-bin", step.SerializeToString()),))
            await context.abort(_code(step), step.message)
        results = await self._results(call, step, context)
        answer = AppendRecordsResponse(table_result=table_result_of(results))
        self.twist(answer)
        return answer

    async def _next_step(self, call):
        async with self.called:
            self.calls.append(call)
            self.called.notify_all()
        step = self.script.popleft() if self.script else "store"
        if isinstance(step, asyncio.Event):
            await step.wait()
            step = "store"
        return step

    async def _results(self, call, step, context):
        if isinstance(step, grpc.StatusCode):
            await context.abort(step, "scripted")
        if step == "hang":
            await asyncio.sleep(3600)
        errors = step if isinstance(step, list) else [None] * len(call.rows)
        results = [
            RowResult(error=error) if error is not None else self._store(row)
            for row, error in zip(call.rows, errors, strict=True)
        ]
        if step == "store and hang":
            await asyncio.sleep(3600)
        return results

    async def SendMessages(self, request, context):  # noqa: N802 - the contract's name.
        raise NotImplementedError

    async def RecallMessage(self, request, context):  # noqa: N802 - the contract's name.
        raise NotImplementedError

    async def wait_called(self, count):
        async with self.called:
            await self.called.wait_for(lambda: len(self.calls) >= count)

    @property
    def messages(self):
        return [message for queue in self.queues.values() for message in queue]

    @property
    def bodies(self):
        return [message.body for message in self.messages]

    def _store(self, row):
        columns = decode_columns(row.records, np.frombuffer(row.record_sizes, "<i4"))
        queue = self.queues.setdefault((row.topic, row.queue_id), [])
        first = len(queue)
        queue += [columns.message(position) for position in range(len(columns))]
        result = RowResult(
            first_queue_offset=first,
            first_commit_log_offset=1000,
            record_count=len(columns),
            acknowledged_level=self.acknowledged_level,
        )
        result.store_time.FromMilliseconds(1_234_567)
        return result


def _code(step):
    return next(code for code in grpc.StatusCode if code.value[0] == step.code)


class ScriptedNameServer(RouteServiceServicer):
    """Tells the routes that it is given; refuses with ``refusal`` while that is set."""

    def __init__(self):
        self.routes = {}
        self.orders = {}
        self.away = {}
        self.warming_up = False
        self.refusal = None
        self.asked = []
        self.heard = asyncio.Event()
        self.address = ""

    def set_route(self, topic, brokers, queue_count=2):
        self.routes[topic] = Route(
            topic=topic,
            brokers=[
                BrokerRoute(
                    cluster_name="c",
                    broker_name=name,
                    addresses={0: address},
                    read_queue_count=queue_count,
                    write_queue_count=queue_count,
                    permission=TOPIC_PERMISSION_READ_WRITE,
                )
                for name, address in brokers.items()
            ],
        )

    async def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        self.asked.append(request.topic)
        self.heard.set()
        if self.refusal is not None:
            await context.abort(self.refusal, "scripted")
        if request.topic not in self.routes:
            metadata = {"topic": request.topic}
            if self.warming_up:
                metadata["warming_up"] = "true"
            if request.topic in self.orders:
                metadata["queue_order"] = self.orders[request.topic]
            if request.topic in self.away:
                metadata["away_brokers"] = self.away[request.topic]
            missing = status(grpc.StatusCode.NOT_FOUND, "ROUTE_NOT_FOUND", **metadata)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", missing.SerializeToString()),)
            )
            await context.abort(grpc.StatusCode.NOT_FOUND, "no route")
        return GetRouteResponse(route=self.routes[request.topic], warming_up=self.warming_up)

    async def ListTopics(self, request, context):  # noqa: N802 - the contract's name.
        raise NotImplementedError

    async def ListBrokers(self, request, context):  # noqa: N802 - the contract's name.
        raise NotImplementedError


class ScriptedWorld:
    """A name server and some brokers that carry topic ``orders`` with two queues each."""

    def __init__(self):
        self.name_server = ScriptedNameServer()
        self.brokers = {}
        self._servers = []

    @property
    def name_servers(self):
        return self.name_server.address

    async def start(self, broker_count):
        self.name_server.address = await self._serve(
            self.name_server, add_RouteServiceServicer_to_server
        )
        for letter in "abc"[:broker_count]:
            broker = ScriptedBroker()
            broker.address = await self._serve(broker, add_SendServiceServicer_to_server)
            self.brokers[f"broker-{letter}"] = broker
        addresses = {name: broker.address for name, broker in self.brokers.items()}
        self.name_server.set_route("orders", addresses)

    async def add_name_server(self):
        """A second name server; it knows nothing yet."""
        second = ScriptedNameServer()
        second.address = await self._serve(second, add_RouteServiceServicer_to_server)
        return second

    async def stop(self):
        for server in self._servers:
            await server.stop(None)

    async def _serve(self, servicer, add):
        server = ariane_wire.server()
        add(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._servers.append(server)
        return f"127.0.0.1:{port}"


@asynccontextmanager
async def _scripted_world(broker_count):
    world = ScriptedWorld()
    await world.start(broker_count)
    try:
        yield world
    finally:
        await world.stop()


@pytest.fixture
async def world():
    """One scripted broker."""
    async with _scripted_world(1) as one:
        yield one


@pytest.fixture
def many(world):
    """``world`` with 80 topics more, ``topic-0`` and so on: enough for bundles."""
    for number in range(80):
        world.name_server.set_route(
            f"topic-{number}", {"broker-a": world.brokers["broker-a"].address}
        )
    return world


@pytest.fixture
async def two_brokers():
    """Two scripted brokers."""
    async with _scripted_world(2) as two:
        yield two


@pytest.fixture
def make_status():
    return status


class LeapingClock(SystemClock):
    """The machine's clock, which a test may put forward: what was to end in a minute ends now."""

    def __init__(self):
        self.ahead_s = 0.0

    def monotonic_s(self):
        return super().monotonic_s() + self.ahead_s


@pytest.fixture
def leaping_clock():
    return LeapingClock()


@pytest.fixture(scope="session")
def cluster():
    """A name server and two brokers as processes, for all tests that break nothing."""
    with (
        TemporaryDirectory() as folder,
        LocalCluster(Path(folder), brokers=2, extra_broker_args=SMALL_STORE) as running,
    ):
        yield running


class FragileProcess:
    """A process of a cluster that runs in another thread, to be broken and started again."""

    def __init__(self, cluster, process):
        self._call = cluster.call_blocking
        self._process = process

    def __getattr__(self, name):
        return getattr(self._process, name)

    async def wait(self):
        return await asyncio.to_thread(self._call, self._process.wait)

    async def restart(self):
        await asyncio.to_thread(self._call, self._process.restart)


@pytest.fixture(scope="session")
def fragile_processes():
    with (
        TemporaryDirectory() as folder,
        LocalCluster(Path(folder), brokers=1, extra_broker_args=SMALL_STORE) as running,
    ):
        yield running


@pytest.fixture
def fragile_cluster(fragile_processes):
    """A name server and a broker as processes, to be broken; whole, but with topics of others."""
    running = fragile_processes
    (name_server,), (broker,) = running.name_server_processes, running.brokers
    if not name_server.running:
        # By itself it would be some seconds until a name server that is new knows the broker.
        broker.kill()
        running.call_blocking(broker.wait)
        running.call_blocking(name_server.start)
    if not broker.running:
        running.call_blocking(broker.start)
    return SimpleNamespace(
        name_servers=running.name_servers,
        name_server_processes=[FragileProcess(running, name_server)],
        brokers=[FragileProcess(running, broker)],
    )


@pytest.fixture(scope="session")
def postgresql_server(request):
    """A PostgreSQL for the whole run."""
    with postgresql_or_skip(request.config) as url:
        yield url


@pytest.fixture(scope="module")
def postgresql_url(postgresql_server):
    """An empty database there for the tests of a file."""
    with empty_database(postgresql_server, "tests") as url:
        yield url
