"""Channels of one process, and where the brokers of a topic are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import grpc
from grpc.experimental import ChannelOptions

from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk.errors import ArianeError, NameServersUnreachable
from ariane_spark.call_errors import call_error

ROUTE_AGE_S_MAX: Final = 30.0
"""How long a route is believed; a broker that joins is noticed by then."""

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
class _Route:
    addresses: Mapping[str, str]
    good_until_s: float


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

    def addresses(self, topic: str) -> Mapping[str, str]:
        """Where each broker of a topic is read, by broker name.

        Raises:
            RouteNotFound: No live broker carries the topic.
            NameServersUnreachable: No name server answered.
        """
        route = self._routes.get(topic)
        if route is None or self._monotonic() >= route.good_until_s:
            addresses = self._ask(topic)
            route = _Route(addresses, self._monotonic() + ROUTE_AGE_S_MAX)
            self._routes[topic] = route
        return route.addresses

    def forget(self, topic: str) -> None:
        """Ask anew the next time: the route may be what is wrong."""
        self._routes.pop(topic, None)

    def _ask(self, topic: str) -> Mapping[str, str]:
        """The route as the first name server tells it that knows it."""
        failures: list[ArianeError] = []
        for address in tuple(self._name_servers):
            try:
                answer = RouteServiceStub(self._channels.to(address)).GetRoute(
                    GetRouteRequest(topic=topic), timeout=self._timeout_s
                )
            except grpc.RpcError as failure:
                failures.append(call_error(failure, peer=f"name server {address}"))
                # The next question goes to the others first.
                self._name_servers.remove(address)
                self._name_servers.append(address)
            else:
                # The primary has the lowest id; without one, a replica serves as well.
                return {
                    broker.broker_name: broker.addresses[min(broker.addresses)]
                    for broker in answer.route.brokers
                    if broker.addresses
                }
        for error in failures:
            if not error.retriable:
                raise error
        texts = "; ".join(map(str, failures))
        raise NameServersUnreachable(f"no name server answered: {texts}", retriable=True)
