"""Conversion between the contract's messages and the values of the route table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ariane.namesrv.v1 import registration_service_pb2, route_pb2
from ariane_namesrv.away_brokers import AwayBroker
from ariane_namesrv.refused_brokers import RefusedBroker
from ariane_namesrv.registration import (
    PRIMARY_ID,
    BrokerEntry,
    BrokerKey,
    BrokerRoute,
    Permission,
    RefusedTopic,
    Registration,
    TopicLayout,
)
from ariane_servicekit import Address, field_invalid

QUEUE_COUNT_MAX: Final = 65_536
"""Queues of a topic on one broker."""

REPLICAS_MAX: Final = 16
"""Replicas of one broker."""

FILTER_SERVERS_MAX: Final = 64
"""FilterServers beside one broker."""

SILENCE_S_MAX: Final = 3600
"""The longest silence that a broker may ask for, in seconds."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,120}")
# Brokers check the names of their topics; these checks only protect lists and logs.
_TOPIC: Final = re.compile(r"[^\x00-\x20\x7f-\x9f]{1,255}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,128}")
_ZONE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{0,120}")

_PERMISSIONS: Final[Mapping[route_pb2.TopicPermission.ValueType, Permission]] = MappingProxyType(
    {
        route_pb2.TOPIC_PERMISSION_NONE: Permission.NONE,
        route_pb2.TOPIC_PERMISSION_WRITE: Permission.WRITE,
        route_pb2.TOPIC_PERMISSION_READ: Permission.READ,
        route_pb2.TOPIC_PERMISSION_READ_WRITE: Permission.READ | Permission.WRITE,
    }
)
_PERMISSIONS_WRITTEN: Final = MappingProxyType({flag: one for one, flag in _PERMISSIONS.items()})

NAMED_MAX: Final = 20
"""Refused topics that are kept by name; the others are only counted."""

_SHOWN_MAX: Final = 255


def read_broker_key(cluster_name: str, broker_name: str, broker_id: int) -> BrokerKey:
    """Return a broker's key.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    for field, name in (("cluster_name", cluster_name), ("broker_name", broker_name)):
        if not _NAME.fullmatch(name):
            raise field_invalid(field, "must be 1 to 120 characters of A-Z a-z 0-9 _ and -", name)
    if broker_id < 0:
        raise field_invalid("broker_id", "must be at least 0", broker_id)
    return BrokerKey(cluster_name, broker_name, broker_id)


def read_registration(
    request: registration_service_pb2.RegisterBrokerRequest,
    *,
    silence_s_max: float,
    topics_max: int,
    standing: Callable[[BrokerKey], Collection[str]],
) -> Registration:
    """Return a broker's announcement, with those of its topics that are accepted.

    Args:
        request: The request.
        silence_s_max: For a broker that announces no limit of its own.
        topics_max: How many of its topics may be in routes.
        standing: The broker's topics in routes now.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    identity = request.identity
    if not _TOKEN.fullmatch(request.incarnation):
        raise field_invalid("incarnation", "must be 1 to 128 printable ASCII characters")
    if request.topics_version < 0:
        raise field_invalid("topics_version", "must be at least 0", request.topics_version)
    if not _ZONE.fullmatch(identity.zone):
        raise field_invalid("identity.zone", "must be at most 120 characters, none of control")
    if request.epoch < 0:
        raise field_invalid("epoch", "must be at least 0", request.epoch)
    if len(request.replica_addresses) > REPLICAS_MAX:
        raise field_invalid("replica_addresses", f"must be at most {REPLICAS_MAX}")
    if any(broker_id <= PRIMARY_ID for broker_id in request.replica_addresses):
        raise field_invalid("replica_addresses", "must have ids above 0")
    if len(request.filter_server_addresses) > FILTER_SERVERS_MAX:
        raise field_invalid("filter_server_addresses", f"must be at most {FILTER_SERVERS_MAX}")
    if request.HasField("silence_max"):
        silence_s_max = request.silence_max.ToNanoseconds() / 1e9
        if not 1 <= silence_s_max <= SILENCE_S_MAX:
            raise field_invalid("silence_max", f"must be 1 to {SILENCE_S_MAX} s")
    key = read_broker_key(identity.cluster_name, identity.broker_name, identity.broker_id)
    refusals = TopicRefusals(max(0, request.unannounced_topic_count))
    announced = _read_topics(request, refusals)
    return Registration(
        key=key,
        address=read_address("identity.address", identity.address),
        incarnation=request.incarnation,
        topics=chosen_topics(announced, standing(key), refusals, topics_max=topics_max),
        topics_version=request.topics_version,
        silence_s_max=silence_s_max,
        zone=identity.zone,
        writable=request.writable,
        filter_server_addresses=tuple(
            read_address(f"filter_server_addresses[{position}]", address)
            for position, address in enumerate(request.filter_server_addresses)
        ),
        refused_topic_count=refusals.count,
        refused_topics=refusals.named,
        epoch=request.epoch,
        replica_addresses={
            broker_id: read_address(f"replica_addresses[{broker_id}]", address)
            for broker_id, address in sorted(request.replica_addresses.items())
        },
    )


def write_route(
    topic: str, brokers: list[BrokerRoute], queue_order: str, away: Mapping[str, str]
) -> route_pb2.Route:
    """Encode a route; ``away`` has zones by the names of brokers."""
    return route_pb2.Route(
        topic=topic,
        brokers=[
            route_pb2.BrokerRoute(
                cluster_name=broker.cluster_name,
                broker_name=broker.broker_name,
                addresses=broker.addresses,
                read_queue_count=broker.read_queue_count,
                write_queue_count=broker.write_queue_count,
                permission=_PERMISSIONS_WRITTEN[broker.permission],
                zone=broker.zone,
                filter_server_addresses=broker.filter_server_addresses,
                ordered=broker.ordered,
            )
            for broker in brokers
        ],
        queue_order=queue_order,
        away_broker_names=away.keys(),
        away_broker_zones={name: zone for name, zone in away.items() if zone},
    )


def write_liveness(
    entry: BrokerEntry, *, is_wiped: Callable[[str], bool]
) -> route_pb2.BrokerLiveness:
    """Encode a broker's liveness."""
    registration = entry.registration
    heard = Timestamp()
    heard.FromMilliseconds(entry.heard_at_ms)
    return route_pb2.BrokerLiveness(
        identity=route_pb2.BrokerIdentity(
            cluster_name=registration.key.cluster_name,
            broker_name=registration.key.broker_name,
            broker_id=registration.key.broker_id,
            address=registration.address,
            zone=registration.zone,
        ),
        last_heard_time=heard,
        silence_max=write_duration(registration.silence_s_max),
        topic_count=len(registration.topics),
        write_wiped=is_wiped(registration.key.broker_name),
        refused_topic_count=registration.refused_topic_count,
        refused_topics=write_refused_topics(registration.refused_topics),
        epoch=registration.epoch,
        replica_addresses=registration.replica_addresses,
        filter_server_addresses=registration.filter_server_addresses,
    )


def write_refused_broker(refused: RefusedBroker) -> route_pb2.RefusedBroker:
    """Encode a refused broker."""
    return route_pb2.RefusedBroker(
        identity=route_pb2.BrokerIdentity(
            cluster_name=refused.key.cluster_name,
            broker_name=refused.key.broker_name,
            broker_id=refused.key.broker_id,
            address=refused.address,
        ),
        cause=refused.cause,
    )


def write_away_broker(away: AwayBroker) -> route_pb2.AwayBroker:
    """Encode a broker that has left."""
    left = Timestamp()
    left.FromMilliseconds(away.left_at_ms)
    return route_pb2.AwayBroker(
        cluster_name=away.cluster_name,
        broker_name=away.broker_name,
        topic_count=len(away.topics),
        leave_time=left,
    )


def write_duration(seconds: float) -> Duration:
    """Encode a duration, to the millisecond."""
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration


def write_refused_topics(topics: Iterable[RefusedTopic]) -> list[route_pb2.RefusedTopic]:
    """Encode refused topics."""
    return [route_pb2.RefusedTopic(topic=one.topic, cause=one.cause) for one in topics]


def _read_topics(
    request: registration_service_pb2.RegisterBrokerRequest, refusals: TopicRefusals
) -> dict[str, TopicLayout]:
    topics: dict[str, TopicLayout] = {}
    for topic in request.topics:
        broken = _broken_rule(topic)
        if broken or topic.topic in topics:
            refusals.add(topic.topic, broken or "it is named twice")
            continue
        topics[topic.topic] = TopicLayout(
            topic.read_queue_count,
            topic.write_queue_count,
            _PERMISSIONS[topic.permission],
            topic.version,
            topic.ordered,
        )
    return topics


def _broken_rule(topic: route_pb2.TopicRegistration) -> str:
    """The rule that a topic breaks; empty if none."""
    if not _TOPIC.fullmatch(topic.topic):
        return "its name is empty, too long or holds spaces or control characters"
    for field in ("read_queue_count", "write_queue_count"):
        if not 0 <= getattr(topic, field) <= QUEUE_COUNT_MAX:
            return f"its {field} is not 0 to {QUEUE_COUNT_MAX}"
    return "" if topic.permission in _PERMISSIONS else "its permission is not known"


def read_address(field: str, text: str) -> str:
    """Return an address that clients can reach, in the spelling of routes.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    try:
        address = Address.parse(text)
    except ValueError as error:
        raise field_invalid(field, f"must be host:port: {error}") from None
    if address.port == 0 or address.is_wildcard:
        raise field_invalid(field, "must be an address that clients can reach", text)
    return str(address)


@dataclass(slots=True)
class TopicRefusals:
    """The refused topics of one announcement.

    A topic that breaks a rule, or exceeds the limit, is left out alone: refusing the whole
    announcement would make all topics of the broker vanish because of one.
    """

    count: int = 0
    """How many."""
    named: list[RefusedTopic] = dataclasses.field(default_factory=list)
    """The first of them by name."""

    def add(self, topic: str, cause: str) -> None:
        """Refuse a topic; illegal names are escaped."""
        self.count += 1
        if len(self.named) < NAMED_MAX:
            shown = topic if topic.isprintable() else ascii(topic)[1:-1]
            self.named.append(RefusedTopic(shown[:_SHOWN_MAX], cause))


def chosen_topics(
    announced: Mapping[str, TopicLayout],
    standing: Collection[str],
    refusals: TopicRefusals,
    *,
    topics_max: int,
) -> Mapping[str, TopicLayout]:
    """The topics that are in routes from now on.

    If there are too many, topics already in routes come first, so that creating topics pushes no
    used topic out of the routes; then the topics that were changed least recently.

    Args:
        announced: All topics that follow the rules, by name.
        standing: The broker's topics in routes now.
        refusals: Takes the refused topics.
        topics_max: How many may be in routes.
    """
    if len(announced) <= topics_max:
        return announced

    def rank(item: tuple[str, TopicLayout]) -> tuple[bool, int, str]:
        topic, layout = item
        return topic not in standing, layout.version, topic

    ranked: Iterable[tuple[str, TopicLayout]] = sorted(announced.items(), key=rank)
    chosen: dict[str, TopicLayout] = {}
    for topic, layout in ranked:
        if len(chosen) < topics_max:
            chosen[topic] = layout
        else:
            refusals.add(
                topic,
                f"of a broker, at most {topics_max} are taken (topics_per_broker_max)",
            )
    return chosen
