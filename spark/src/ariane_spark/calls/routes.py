"""The routes of topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListBrokersRequest,
    ListBrokersResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk import MessageQueue, Route
from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    NameServersUnreachable,
    RouteNotFound,
    ServiceUnavailable,
)
from ariane_sdk.translation import error_from_rpc, route_from_wire
from ariane_spark.calls.channels import NAME_SERVER, Channels
from ariane_spark.calls.name_servers import KeptAnswers, NameServers
from ariane_wire import CallFailed

ROUTE_AGE_S_MAX: Final = 30.0
"""How long a route is used; a new broker is noticed by then."""

WARM_UP_ROUTE_AGE_S_MAX: Final = 2.0
"""The same for a route from name servers that have just started and may not know all yet."""

MISSING_ROUTE_S: Final = 30.0
"""How long a route is kept that name servers do not know any more: a replica takes over sooner."""

BROKERS_AGE_S_MAX: Final = 2.0
"""How long a list of all brokers is used."""

KEPT_ROUTE_AGE_S: Final = 15.0
"""The same for a route that is kept because no name server answers."""

KEPT_ROUTE_TIMEOUT_S: Final = 3.0
"""The timeout of one name server if there is a known route to keep."""

PAGE_SIZE: Final = 1000
"""Topics or brokers in one answer of a name server."""

PRIMARY_ID: Final = 0
"""The broker id of a primary; replicas have others."""

_AnswerT = TypeVar("_AnswerT", bound=Message)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveBrokers:
    """The primaries that name servers know."""

    addresses: Mapping[str, str]
    """The address of each, by broker name."""
    complete: bool
    """Whether these are all; False while name servers have just started."""


class _EveryTopic(Container[str]):
    def __contains__(self, topic: object) -> bool:
        return True


EVERY_TOPIC: Final = _EveryTopic()


class _KeptRoute(NamedTuple):
    route: Route
    good_until_s: float
    missing_since_s: float | None = None


class Routes:
    """The routes of topics, from name servers.

    Known routes are kept while no name server answers, or while all that answer have just started
    and know less: brokers continue without name servers.
    """

    def __init__(
        self,
        endpoints: str,
        channels: Channels,
        *,
        timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout_s`` is that of one name server."""
        self._name_servers = NameServers(endpoints, monotonic)
        self._kept = KeptAnswers(endpoints)
        self._channels = channels
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._routes: dict[str, _KeptRoute] = {}
        self._topics: frozenset[str] = frozenset()
        self._topics_complete = True
        self._brokers: LiveBrokers | None = None
        self._brokers_until_s = float("-inf")

    def topics(self) -> list[str]:
        """The names of all topics, sorted; known ones stay while name servers know less.

        Raises:
            NameServersUnreachable: No name server answered, now or before.
        """
        try:
            topics, complete = self._list_topics()
        except NameServersUnreachable:
            if not self._topics:
                raise
            topics, complete = self._topics, False
        self._topics = topics if complete else self._topics | topics
        self._topics_complete = complete
        return sorted(self._topics)

    def _list_topics(self) -> tuple[frozenset[str], bool]:
        """The topics that name servers know now, and whether these are all."""
        topics: set[str] = set()
        complete = True
        page_token = ""
        while True:
            request = ListTopicsRequest(page_size=PAGE_SIZE, page_token=page_token)
            answers = self._ask_or_find(
                lambda stub: stub.ListTopics,
                request,
                ListTopicsResponse,
                is_known=bool(self._topics),
            )
            complete = complete and not answers[0].warming_up
            for answer in answers:
                topics.update(answer.topics)
            page_token = next(filter(None, (each.next_page_token for each in answers)), "")
            if not page_token:
                return frozenset(topics), complete

    def addresses(self, topic: str) -> Mapping[str, str]:
        """The address for reads of each broker of a topic, by broker name.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered, and no route is known from before.
        """
        brokers = [each for each in self.route(topic).brokers if each.read_address]
        # Whenever it is used: routes of other topics may name others there by now.
        for each in brokers:
            self._channels.expect_broker(each.broker_name, (each.read_address,), each.cluster_name)
        return {each.broker_name: each.read_address for each in brokers}

    def away_brokers(self, topic: str) -> frozenset[str]:
        """Names of brokers with queues of a topic that left within a day, and may come back.

        Raises:
            RouteNotFound: No live broker has the topic, or had it.
            NameServersUnreachable: No name server answered, and no route is known from before.
        """
        try:
            return self.route(topic).away_brokers
        except RouteNotFound as error:
            if not error.away_brokers:
                raise
            return error.away_brokers

    def is_closed(self, queue: MessageQueue) -> bool:
        """Whether a queue takes no messages: its broker is drained, or the topic has fewer queues.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered, and no route is known from before.
        """
        broker = self.route(queue.topic).broker(queue.broker_name)
        if broker is None:
            return False
        return not broker.writable or queue.queue_id >= broker.write_queue_count

    def group_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues among which message groups are divided, of brokers that are away as well.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered.
            ServiceUnavailable: The topic is of type FIFO, and its division is not known now.
        """
        route = self.route(topic)
        if route.groups_wait:
            raise ServiceUnavailable(
                f"no name server tells how the message groups of {topic} are divided",
                retriable=True,
            )
        return route.group_queues

    def divides_groups(self, topic: str) -> bool:
        """Whether a topic has a fixed division of message groups among several brokers.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered.
        """
        route = self.route(topic)
        brokers = {queue.broker_name for queue in (*route.group_queues, *route.write_queues)}
        return (route.ordered or bool(route.queue_order)) and len(brokers) > 1

    def brokers(self) -> LiveBrokers:
        """All primaries; the list may be some seconds old.

        Raises:
            NameServersUnreachable: No name server answered, now or before.
        """
        now_s = self._monotonic()
        if self._brokers is None or now_s >= self._brokers_until_s:
            self._brokers_until_s = now_s + BROKERS_AGE_S_MAX
            self._brokers = self._ask_brokers(self._brokers)
        return self._brokers

    def _ask_brokers(self, before: LiveBrokers | None) -> LiveBrokers:
        request = ListBrokersRequest(page_size=PAGE_SIZE)
        try:
            answers = self._ask_or_find(
                lambda stub: stub.ListBrokers,
                request,
                ListBrokersResponse,
                is_known=before is not None,
            )
        except NameServersUnreachable:
            if before is None:
                raise
            self._brokers_until_s = self._monotonic() + KEPT_ROUTE_AGE_S
            return replace(before, complete=False)
        primaries = {
            broker.identity.broker_name: broker.identity
            for answer in reversed(answers)
            for broker in answer.brokers
            if broker.identity.broker_id == PRIMARY_ID
        }
        addresses = {name: identity.address for name, identity in primaries.items()}
        for name, identity in primaries.items():
            self._channels.expect_broker(name, (identity.address,), identity.cluster_name)
        complete = not (answers[0].warming_up or answers[0].next_page_token)
        if not complete and before is not None:
            addresses = {**before.addresses, **addresses}
        return LiveBrokers(addresses, complete)

    def uncertain_topics(self) -> Container[str]:
        """Used topics that may have more brokers than known so far.

        These are all topics if a list of all topics was requested and may be incomplete.
        """
        if not self._topics_complete:
            return EVERY_TOPIC
        return frozenset(topic for topic, kept in self._routes.items() if not kept.route.complete)

    def forget(self, topic: str) -> None:
        """Query the route anew the next time: it may be wrong."""
        kept = self._routes.get(topic)
        if kept is not None:
            self._routes[topic] = kept._replace(good_until_s=float("-inf"))

    def route(self, topic: str) -> Route:
        """The route of a topic, as it was at most half a minute ago.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered, and no route is known from before.
        """
        kept = self._routes.get(topic)
        if kept is None or self._monotonic() >= kept.good_until_s:
            kept = self._routes[topic] = self._ask_route(topic, kept)
        return kept.route

    def _ask_route(self, topic: str, before: _KeptRoute | None) -> _KeptRoute:
        try:
            answers = self._ask_or_find(
                lambda stub: stub.GetRoute,
                GetRouteRequest(topic=topic),
                GetRouteResponse,
                is_known=before is not None,
            )
        except NameServersUnreachable as error:
            if before is None:
                raise
            _log.warning("the route of %s is kept as it was: %s", topic, error)
            good_until_s = self._monotonic() + KEPT_ROUTE_AGE_S
            return _KeptRoute(replace(before.route, complete=False), good_until_s)
        except RouteNotFound as error:
            if before is None:
                raise
            now_s = self._monotonic()
            since_s = now_s if before.missing_since_s is None else before.missing_since_s
            # A broker that changes its primary may be in no route for a moment. Its brokers know
            # whether the topic is gone.
            if "warming_up" not in error.metadata and now_s - since_s >= MISSING_ROUTE_S:
                raise
            good_until_s = now_s + WARM_UP_ROUTE_AGE_S_MAX
            return _KeptRoute(replace(before.route, complete=False), good_until_s, since_s)
        complete = not answers[0].warming_up
        age_s_max = ROUTE_AGE_S_MAX if complete else WARM_UP_ROUTE_AGE_S_MAX
        found = [route_from_wire(answer.route, complete=complete) for answer in answers]
        merged = reduce(Route.with_missing_of, found)
        if not complete and before is not None:
            merged = merged.with_missing_of(before.route)
        return _KeptRoute(merged, self._monotonic() + age_s_max)

    def _ask_or_find(
        self,
        method: Callable[[RouteServiceStub], Any],
        request: Message,
        kind: type[_AnswerT],
        *,
        is_known: bool,
    ) -> list[_AnswerT]:
        """The complete answer; or several that may be incomplete, the best first.

        If this process knows nothing, the last of them is the kept answer of another process.

        Args:
            method: The method to call.
            request: Its request.
            kind: The class of the answer.
            is_known: Whether this process has had an answer before.
        """
        answers: list[Any] = []
        try:
            answers = self._ask(method, request, is_known=is_known)
        except (NameServersUnreachable, RouteNotFound) as error:
            early = isinstance(error, NameServersUnreachable) or "warming_up" in error.metadata
            kept = self._kept.find(request, kind) if early and not is_known else None
            if kept is None:
                raise
        else:
            if not answers[0].warming_up:
                self._kept.keep(request, answers[0])
                return answers
            kept = None if is_known else self._kept.find(request, kind)
        if kept is not None:
            kept.warming_up = True  # type: ignore[attr-defined]
            answers.append(kept)
        return answers

    def _ask(
        self,
        method: Callable[[RouteServiceStub], Any],
        request: Any,
        *,
        is_known: bool,
    ) -> list[Any]:
        """The answer of the first name server that can be trusted, or of all that cannot.

        A name server that has just started does not know every broker yet, and is not trusted. If
        no other answers, the answers of all such name servers are returned.

        Args:
            method: The method to call.
            request: Its request.
            is_known: Whether there is an earlier answer to use if no name server answers soon.
        """
        timeout_s = min(self._timeout_s, KEPT_ROUTE_TIMEOUT_S) if is_known else self._timeout_s
        failures: list[CallError] = []
        not_found: list[RouteNotFound] = []
        early: list[Any] = []
        for address in self._name_servers.in_turn():
            try:
                self._channels.expect(address, NAME_SERVER)
                stub = RouteServiceStub(self._channels.to(address))
                answer = method(stub)(request, timeout=timeout_s)
            except CallFailed as failure:
                error = error_from_rpc(failure, peer=f"name server {address}")
                if isinstance(error, RouteNotFound):
                    not_found.append(error)
                elif error.retriable or isinstance(error, ServiceUnavailable | DeadlinePassed):
                    # An error at one name server does not mean an error at the next.
                    failures.append(error)
                else:
                    raise error from failure
            else:
                if not answer.warming_up:
                    return [answer]
                early.append(answer)
            # The next request goes to the others first.
            self._name_servers.put_last(address)
        if early:
            return early
        if not_found:
            # A name server that has just started may not know; another may. One that has started
            # lately knows of no broker that was away before.
            raise min(
                not_found, key=lambda each: ("warming_up" in each.metadata, not each.may_come_back)
            )
        texts = "; ".join(map(str, failures))
        self._name_servers.read_again()
        raise NameServersUnreachable(f"no name server answered: {texts}", retriable=True)
