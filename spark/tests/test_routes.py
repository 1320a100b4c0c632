"""Where topics are, told by name servers of which some have just started."""

from concurrent import futures

import grpc
import pytest

from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_READ_WRITE
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteResponse,
    ListBrokersResponse,
    ListTopicsResponse,
)
from ariane.namesrv.v1.route_service_pb2_grpc import (
    RouteServiceServicer,
    add_RouteServiceServicer_to_server,
)
from ariane_spark.routes import ROUTE_AGE_S_MAX, WARM_UP_ROUTE_AGE_S_MAX, Channels, Routes


class NameServer(RouteServiceServicer):
    """Knows some brokers, and whether that may be all."""

    def __init__(self, *broker_names, warming_up=False, queue_order=""):
        self.broker_names = broker_names
        self.queue_order = queue_order
        self.warming_up = warming_up
        self.questions = 0

    def GetRoute(self, request, context):  # noqa: N802 - the contract's name.
        self.questions += 1
        answer = GetRouteResponse(warming_up=self.warming_up)
        for name in self.broker_names:
            broker = answer.route.brokers.add(
                broker_name=name, write_queue_count=3, permission=TOPIC_PERMISSION_READ_WRITE
            )
            broker.addresses[0] = f"{name}:1"
        answer.route.queue_order = self.queue_order
        return answer

    def ListBrokers(self, request, context):  # noqa: N802 - the same.
        answer = ListBrokersResponse(warming_up=self.warming_up)
        for name in self.broker_names:
            for broker_id in (0, 1):
                identity = answer.brokers.add().identity
                identity.broker_name, identity.broker_id = name, broker_id
                identity.address = f"{name}:{broker_id}"
        return answer

    def ListTopics(self, request, context):  # noqa: N802 - the same.
        if not request.page_token:
            return ListTopicsResponse(topics=["a", "b"], next_page_token="2")
        return ListTopicsResponse(topics=["c"])


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


def test_topics_come_page_by_page(serve, routes_of):
    assert routes_of(serve(NameServer())).topics() == ["a", "b", "c"]


def test_queues_to_write_and_whether_groups_are_divided_for_good(serve, routes_of):
    routes = routes_of(serve(NameServer("broker-a", "broker-b")))
    assert routes.write_queue_counts("orders") == {"broker-a": 3, "broker-b": 3}
    assert not routes.divides_groups("orders")

    # One of the brokers that have a part of the order is away.
    ordered = routes_of(serve(NameServer("broker-a", queue_order="broker-a:3;broker-b:3")))
    assert ordered.divides_groups("orders")
    alone = routes_of(serve(NameServer("broker-a", queue_order="broker-a:3")))
    assert not alone.divides_groups("orders")


def test_primaries(serve, routes_of):
    brokers = routes_of(serve(NameServer("broker-a", "broker-b"))).brokers()
    assert brokers.addresses == {"broker-a": "broker-a:0", "broker-b": "broker-b:0"}
    assert brokers.complete
    assert not routes_of(serve(NameServer("broker-a", warming_up=True))).brokers().complete
