"""Channels of one process, and where the brokers of a topic are."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import grpc
from grpc.experimental import ChannelOptions

from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListBrokersRequest,
    ListTopicsRequest,
)
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk import Route
from ariane_sdk.errors import (
    ArianeError,
    NameServersUnreachable,
    RouteNotFound,
)
from ariane_sdk.wire import route_from_wire
from ariane_spark.call_errors import call_error

ROUTE_AGE_S_MAX: Final = 30.0
"""How long a route is believed; a broker that joins is noticed by then."""

WARM_UP_ROUTE_AGE_S_MAX: Final = 2.0
"""The same for a route from name servers that have just started and may not know all yet."""

PAGE_SIZE: Final = 1000
"""Topics or brokers in one answer of a name server."""

PRIMARY_ID: Final = 0
"""The broker id of a primary; replicas have others."""

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_receive_message_length", 64 << 20),
    # A dead peer is noticed although no packet comes back; services permit 30 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A broker that restarts is back in a second; gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # What is repeated is repeated by the readers, which know how far they came.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Chunks are large: larger frames cost fewer of them.
    ("grpc.http2.max_frame_size", 1 << 20),
    # A task reads its stream by itself: without a thread of gRPC in between, a third of the cost
    # of a chunk is gone.
    (ChannelOptions.SingleThreadedUnaryStream, 1),
)


class Channels:
    """One channel for each address, made when first needed; ends with the process."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.Channel] = {}

    def to(self, address: str) -> grpc.Channel:
        """The channel to an address, ``host:port``."""
        channel = self._channels.get(address)
        if channel is None:
            channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
            self._channels[address] = channel
        return channel


@dataclass(frozen=True, slots=True)
class LiveBrokers:
    """The primaries that name servers know.

    Attributes:
        addresses: Where each is, by broker name.
        complete: Whether that is all of them; not while name servers have just started.
    """

    addresses: Mapping[str, str]
    complete: bool


@dataclass(frozen=True, slots=True)
class _Route:
    addresses: Mapping[str, str]
    good_until_s: float
    complete: bool
    queues: Route


class Routes:
    """Where the brokers of topics are, as some name server says."""

    def __init__(
        self,
        endpoints: str,
        channels: Channels,
        *,
        timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know whom to ask; nothing is asked yet.

        Args:
            endpoints: Name servers, ``host:port``, separated by commas.
            channels: Of this process.
            timeout_s: How long one name server may take.
            monotonic: Seconds since some moment.
        """
        self._name_servers = endpoints.split(",")
        # Tasks start at the same time; they shall not all ask the same one first.
        random.shuffle(self._name_servers)
        self._channels = channels
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._routes: dict[str, _Route] = {}

    def topics(self) -> list[str]:
        """The names of all topics, sorted.

        Raises:
            NameServersUnreachable: No name server answered.
        """
        topics: set[str] = set()
        page_token = ""
        while True:
            request = ListTopicsRequest(page_size=PAGE_SIZE, page_token=page_token)
            answers = self._ask(lambda stub: stub.ListTopics, request)
            for answer in answers:
                topics.update(answer.topics)
            page_token = answers[0].next_page_token
            if not page_token:
                return sorted(topics)

    def addresses(self, topic: str) -> Mapping[str, str]:
        """Where each broker of a topic is read, by broker name.

        While all name servers that answer have just started, brokers that were known before are
        kept besides those that they know.

        Raises:
            RouteNotFound: No live broker carries the topic.
            NameServersUnreachable: No name server answered.
        """
        return self._route(topic).addresses

    def write_queue_counts(self, topic: str) -> Mapping[str, int]:
        """How many queues each broker of a topic takes messages for, by broker name.

        Raises:
            RouteNotFound: No live broker carries the topic.
            NameServersUnreachable: No name server answered.
        """
        queues = self._route(topic).queues.write_queues
        return Counter(queue.broker_name for queue in queues)

    def divides_groups(self, topic: str) -> bool:
        """Whether the message groups of a topic are divided among several brokers for good.

        Raises:
            RouteNotFound: No live broker carries the topic.
            NameServersUnreachable: No name server answered.
        """
        route = self._route(topic).queues
        brokers = {queue.broker_name for queue in (*route.group_queues, *route.write_queues)}
        return (route.ordered or bool(route.queue_order)) and len(brokers) > 1

    def brokers(self) -> LiveBrokers:
        """All primaries, asked anew.

        Raises:
            NameServersUnreachable: No name server answered.
        """
        request = ListBrokersRequest(page_size=PAGE_SIZE)
        answers = self._ask(lambda stub: stub.ListBrokers, request)
        primaries = (
            broker.identity
            for answer in answers
            for broker in answer.brokers
            if broker.identity.broker_id == PRIMARY_ID
        )
        addresses = {identity.broker_name: identity.address for identity in primaries}
        complete = not (answers[0].warming_up or answers[0].next_page_token)
        return LiveBrokers(addresses, complete)

    def uncertain_topics(self) -> frozenset[str]:
        """Topics that may have more brokers than was heard so far, of those asked about."""
        return frozenset(topic for topic, route in self._routes.items() if not route.complete)

    def forget(self, topic: str) -> None:
        """Ask anew the next time: the route may be what is wrong."""
        route = self._routes.get(topic)
        if route is not None:
            self._routes[topic] = replace(route, good_until_s=float("-inf"))

    def _route(self, topic: str) -> _Route:
        route = self._routes.get(topic)
        if route is None or self._monotonic() >= route.good_until_s:
            route = self._ask_route(topic, route)
            self._routes[topic] = route
        return route

    def _ask_route(self, topic: str, before: _Route | None) -> _Route:
        try:
            answers: list[GetRouteResponse] = self._ask(
                lambda stub: stub.GetRoute, GetRouteRequest(topic=topic)
            )
        except RouteNotFound as error:
            # Where nothing was known before, the error's text says that it may be too early.
            if before is None or "warming_up" not in error.metadata:
                raise
            good_until_s = self._monotonic() + WARM_UP_ROUTE_AGE_S_MAX
            return replace(before, good_until_s=good_until_s, complete=False)
        complete = not answers[0].warming_up
        addresses = {} if complete or before is None else dict(before.addresses)
        for answer in answers:
            for broker in answer.route.brokers:
                if broker.addresses:
                    # The primary has the lowest id; without one, a replica serves as well.
                    addresses[broker.broker_name] = broker.addresses[min(broker.addresses)]
        age_s_max = ROUTE_AGE_S_MAX if complete else WARM_UP_ROUTE_AGE_S_MAX
        queues = [route_from_wire(answer.route, complete=complete) for answer in answers]
        merged = reduce(Route.with_missing_of, queues)
        if not complete and before is not None:
            merged = merged.with_missing_of(before.queues)
        return _Route(addresses, self._monotonic() + age_s_max, complete, merged)

    def _ask(self, method: Callable[[RouteServiceStub], Any], request: Any) -> list[Any]:
        """The answer of the first name server that is to be believed, alone.

        One that has just started has not heard of every broker yet. While all that answer are such,
        these are their answers, at least one.
        """
        failures: list[ArianeError] = []
        early: list[Any] = []
        for address in tuple(self._name_servers):
            try:
                stub = RouteServiceStub(self._channels.to(address))
                answer = method(stub)(request, timeout=self._timeout_s)
            except grpc.RpcError as failure:
                failures.append(call_error(failure, peer=f"name server {address}"))
            else:
                if not answer.warming_up:
                    return [answer]
                early.append(answer)
            # The next question goes to the others first.
            self._name_servers.remove(address)
            self._name_servers.append(address)
        if early:
            return early
        refusals = [error for error in failures if not error.retriable]
        if refusals:
            # One that has just started may say "not found" in vain; another one knows.
            raise min(refusals, key=lambda error: "warming_up" in error.metadata)
        texts = "; ".join(map(str, failures))
        raise NameServersUnreachable(f"no name server answered: {texts}", retriable=True)
