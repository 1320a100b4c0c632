"""Where topics are, told by name servers of which some have just started."""

from concurrent import futures

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_READ, TOPIC_PERMISSION_READ_WRITE
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteResponse,
    ListBrokersResponse,
    ListTopicsResponse,
)
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)
from ariane_sdk import MessageQueue
from ariane_sdk.errors import NameServersUnreachable, RouteNotFound
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.routes import (
    KEPT_ROUTE_AGE_S,
    ROUTE_AGE_S_MAX,
    WARM_UP_ROUTE_AGE_S_MAX,
    LiveBrokers,
    Routes,
)


class NameServer(RouteServiceServicer):
    """Knows some brokers, and whether that may be all."""

    def __init__(self, *broker_names, warming_up=False, queue_order=""):
        self.broker_names = broker_names
        self.queue_order = queue_order
        self.warming_up = warming_up
        self.questions = 0
        self.topics = ("a", "b", "c")
        self.away = ()
        self.drained = ()
        self.is_away = False

    def _answers(self, context):
        if self.is_away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses")

    def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        self.questions += 1
        self._answers(context)
        answer = GetRouteResponse(warming_up=self.warming_up)
        if not self.broker_names:
            info = ErrorInfo(reason="ROUTE_NOT_FOUND", domain="ariane.mq")
            if self.warming_up:
                info.metadata["warming_up"] = "true"
            status = Status(code=grpc.StatusCode.NOT_FOUND.value[0])
            status.details.add().Pack(info)
            trailer = ("grpc-status-details-bin", status.SerializeToString())
            context.set_trailing_metadata((trailer,))
            context.abort(grpc.StatusCode.NOT_FOUND, "nobody")
        for name in self.broker_names:
            broker = answer.route.brokers.add(
                broker_name=name, write_queue_count=3, permission=TOPIC_PERMISSION_READ_WRITE
            )
            if name in self.drained:
                broker.permission = TOPIC_PERMISSION_READ
            broker.addresses[0] = f"{name}:1"
        answer.route.queue_order = self.queue_order
        answer.route.away_broker_names.extend(self.away)
        return answer

    def ListBrokers(self, request, context):  # noqa: N802 - the same.
        self._answers(context)
        answer = ListBrokersResponse(warming_up=self.warming_up)
        for name in self.broker_names:
            for broker_id in (0, 1):
                identity = answer.brokers.add().identity
                identity.broker_name, identity.broker_id = name, broker_id
                identity.address = f"{name}:{broker_id}"
        return answer

    def ListTopics(self, request, context):  # noqa: N802 - the same.
        self._answers(context)
        page = self.topics[int(request.page_token or 0) :]
        token = str(len(self.topics) - len(page) + 2) if len(page) > 2 else ""
        return ListTopicsResponse(
            topics=page[:2], next_page_token=token, warming_up=self.warming_up
        )


@pytest.fixture
def serve():
    """Starts name servers; their addresses as one text."""
    servers = []

    def start(*name_servers):
        addresses = []
        for name_server in name_servers:
            server = grpc.server(futures.ThreadPoolExecutor(1))
            add_RouteServiceServicer_to_server(name_server, server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            servers.append(server)
        return ",".join(addresses)

    yield start
    for server in servers:
        server.stop(None).wait()


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def routes_of(now):
    def routes(endpoints):
        return Routes(endpoints, Channels(), timeout_s=5, monotonic=lambda: now[0])

    return routes


def test_one_that_has_just_started_is_passed_over(serve, routes_of):
    early = NameServer("broker-a", warming_up=True)
    settled = NameServer("broker-a", "broker-b")

    routes = routes_of(serve(early, settled))

    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    assert routes.uncertain_topics() == frozenset()


def test_those_that_have_just_started_are_believed_together_and_not_for_long(serve, routes_of, now):
    early = [NameServer(name, warming_up=True) for name in ("broker-a", "broker-b")]
    routes = routes_of(serve(*early))

    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    assert routes.uncertain_topics() == {"orders"}

    now[0] += WARM_UP_ROUTE_AGE_S_MAX
    early[1].warming_up = early[0].warming_up = False
    early[1].broker_names = early[0].broker_names = ("broker-c",)
    assert set(routes.addresses("orders")) == {"broker-c"}
    assert routes.uncertain_topics() == frozenset()


def test_what_was_known_is_kept_while_they_do_not_know_all(serve, routes_of, now):
    name_server = NameServer("broker-a", "broker-b")
    routes = routes_of(serve(name_server))
    routes.addresses("orders")
    name_server.broker_names, name_server.warming_up = ("broker-b",), True

    now[0] += ROUTE_AGE_S_MAX
    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    routes.forget("orders")
    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    assert name_server.questions == 3

    name_server.warming_up = False
    routes.forget("orders")
    assert set(routes.addresses("orders")) == {"broker-b"}


def test_brokers_that_left_lately_are_known(serve, routes_of, now):
    name_server = NameServer("broker-a", "broker-b")
    routes = routes_of(serve(name_server))
    assert routes.away_brokers("orders") == frozenset()
    name_server.broker_names, name_server.away = ("broker-a",), ("broker-b",)

    now[0] += ROUTE_AGE_S_MAX

    assert routes.away_brokers("orders") == {"broker-b"}


def test_topics_come_page_by_page(serve, routes_of):
    assert routes_of(serve(NameServer())).topics() == ["a", "b", "c"]


def test_queues_to_write_and_whether_groups_are_divided_for_good(serve, routes_of):
    routes = routes_of(serve(NameServer("broker-a", "broker-b")))
    assert [queue.broker_name[-1] for queue in routes.route("orders").write_queues] == list(
        "aaabbb"
    )
    assert not routes.divides_groups("orders")

    # One of the brokers that have a part of the order is away.
    ordered = routes_of(serve(NameServer("broker-a", queue_order="broker-a:3;broker-b:3")))
    assert ordered.divides_groups("orders")
    alone = routes_of(serve(NameServer("broker-a", queue_order="broker-a:3")))
    assert not alone.divides_groups("orders")


def test_a_queue_that_takes_no_messages_is_closed(serve, routes_of):
    name_server = NameServer("broker-a", "broker-b")
    name_server.drained = ("broker-b",)
    routes = routes_of(serve(name_server))

    assert not routes.is_closed(MessageQueue("orders", "broker-a", 2))
    assert routes.is_closed(MessageQueue("orders", "broker-a", 3))
    assert routes.is_closed(MessageQueue("orders", "broker-b", 0))


def test_primaries(serve, routes_of):
    brokers = routes_of(serve(NameServer("broker-a", "broker-b"))).brokers()
    assert brokers.addresses == {"broker-a": "broker-a:0", "broker-b": "broker-b:0"}
    assert brokers.complete
    assert not routes_of(serve(NameServer("broker-a", warming_up=True))).brokers().complete


def test_routes_outlive_the_name_servers(serve, routes_of, now):
    name_server = NameServer("broker-a", "broker-b")
    routes = routes_of(serve(name_server))
    routes.addresses("orders")
    name_server.is_away = True

    now[0] += 10 * ROUTE_AGE_S_MAX
    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    assert routes.uncertain_topics() == {"orders"}
    assert [queue.broker_name[-1] for queue in routes.route("orders").write_queues] == list(
        "aaabbb"
    )
    assert name_server.questions == 2, "not asked again and again"
    routes.forget("orders")
    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    with pytest.raises(NameServersUnreachable):
        routes.addresses("never-asked-for")

    name_server.is_away, name_server.broker_names = False, ("broker-c",)
    now[0] += KEPT_ROUTE_AGE_S
    assert set(routes.addresses("orders")) == {"broker-c"}
    assert routes.uncertain_topics() == frozenset()


def test_brokers_outlive_the_name_servers(serve, routes_of, now):
    name_server = NameServer("broker-a", "broker-b")
    routes = routes_of(serve(name_server))
    routes.brokers()
    for away, warming_up, names in ((True, False, ()), (False, True, ("broker-b",))):
        name_server.is_away, name_server.warming_up = away, warming_up
        name_server.broker_names = names
        now[0] += ROUTE_AGE_S_MAX

        brokers = routes.brokers()

        assert set(brokers.addresses) == {"broker-a", "broker-b"}
        assert not brokers.complete
    name_server.warming_up = False
    now[0] += ROUTE_AGE_S_MAX
    assert routes.brokers() == LiveBrokers({"broker-b": "broker-b:0"}, complete=True)


def test_topics_outlive_the_name_servers(serve, routes_of):
    name_server = NameServer("broker-a")
    routes = routes_of(serve(name_server))
    assert routes.topics() == ["a", "b", "c"]
    for away, warming_up, topics in ((True, False, ()), (False, True, ("b", "d"))):
        name_server.is_away, name_server.warming_up = away, warming_up
        name_server.topics = topics

        assert set(routes.topics()) == {"a", "b", "c", *topics}
        assert "of-another-process" in routes.uncertain_topics(), "the list may lack any"

    name_server.warming_up = False
    assert routes.topics() == ["b", "d"]
    assert not routes.uncertain_topics()


@pytest.fixture
def local_folder(tmp_path, monkeypatch):
    """Where Spark has all Python processes of an executor keep what they like."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("warming_up", [False, True])
def test_a_new_process_takes_what_another_one_was_told(serve, routes_of, local_folder, warming_up):
    """Spark ends workers that are idle for a minute, and starts others."""
    name_server = NameServer("broker-a", "broker-b")
    endpoints = serve(name_server)
    before = routes_of(endpoints)
    before.addresses("orders"), before.brokers(), before.topics()
    if warming_up:
        name_server.warming_up, name_server.broker_names, name_server.topics = True, (), ()
    name_server.is_away = not warming_up

    routes = routes_of(endpoints)

    assert set(routes.addresses("orders")) == {"broker-a", "broker-b"}
    assert [queue.broker_name[-1] for queue in routes.route("orders").write_queues] == list(
        "aaabbb"
    )
    assert routes.uncertain_topics() == {"orders"}
    assert set(routes.brokers().addresses) == {"broker-a", "broker-b"}
    assert not routes.brokers().complete
    assert routes.topics() == ["a", "b", "c"]
    with pytest.raises(RouteNotFound if warming_up else NameServersUnreachable):
        routes.addresses("never-asked-for")
    with pytest.raises(NameServersUnreachable):
        routes_of("127.0.0.1:1").addresses("orders")


def test_what_is_kept_is_no_reason_to_fail(serve, routes_of, local_folder):
    endpoints = serve(NameServer("broker-a"))
    routes_of(endpoints).addresses("orders")
    kept = [path for path in local_folder.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        path.write_bytes(b"\xff half written")
    with pytest.raises(NameServersUnreachable):
        routes_of("127.0.0.1:1").addresses("orders")
    local_folder.chmod(0o500)
    assert set(routes_of(endpoints).addresses("orders")) == {"broker-a"}
    local_folder.chmod(0o700)
