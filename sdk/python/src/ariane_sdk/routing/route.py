"""A route: where the message queues of a topic are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from ariane_ordering import queues_in_order
from ariane_sdk.message_queue import MessageQueue

PRIMARY_ID = 0
"""The broker id of a primary; replicas have others."""

NEW_TOPIC_QUEUES_MAX: Final = 4
"""Queues per broker that a producer uses in a topic that its send creates, as in RocketMQ."""


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The queues of a topic on one broker."""

    cluster_name: str
    """The cluster of the broker."""
    broker_name: str
    """The broker."""
    addresses: Mapping[int, str]
    """The "host:port" by broker id; 0 is the primary."""
    read_queue_count: int
    """Queues to read: 0 up to this, exclusive."""
    write_queue_count: int
    """Queues to write: 0 up to this, exclusive."""
    readable: bool = True
    """Whether the topic may be read there now."""
    writable: bool = True
    """Whether it may be written there now."""
    zone: str = ""
    """The machine room of the primary, or nothing."""
    ordered: bool = False
    """Whether the topic is of type FIFO there."""
    filter_servers: tuple[str, ...] = ()
    """The "host:port" of the FilterServers beside it."""

    @property
    def primary_address(self) -> str:
        """Address for sends; empty without a living primary."""
        return self.addresses.get(PRIMARY_ID, "")

    @property
    def replica_addresses(self) -> tuple[str, ...]:
        """Addresses of the replicas, for reads."""
        others = sorted(self.addresses.keys() - {PRIMARY_ID})
        return tuple(self.addresses[one] for one in others)

    @property
    def read_address(self) -> str:
        """Address for reads: the primary's, or else the first replica's."""
        return self.addresses[min(self.addresses)] if self.addresses else ""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the message queues of one topic are."""

    topic: str
    """The topic."""
    brokers: tuple[BrokerRoute, ...]
    """The brokers that have it, by cluster and name."""
    complete: bool = field(default=True, compare=False)
    """Whether those are all brokers. False while the name servers that were asked had just started:
    then some may be missing."""
    queue_order: str = ""
    """For a topic whose messages stay in order: how many queues each broker has for it, also those
    that are away now; "broker:queues" joined by ";". Empty for others."""
    away_brokers: frozenset[str] = frozenset()
    """Names of brokers that had the topic lately, and left: groups may have offsets there."""
    away_zones: Mapping[str, str] = field(default_factory=dict)
    """The machine rooms of these brokers by name; one without is left out."""
    read_queues: tuple[MessageQueue, ...] = field(init=False)
    """The queues to read, sorted; every allocation divides these."""
    write_queues: tuple[MessageQueue, ...] = field(init=False)
    """The queues to write, sorted."""
    primary_addresses: Mapping[str, str] = field(init=False, compare=False, repr=False)
    """Address for sends of each broker with a living primary."""
    provisional: bool = False
    """Whether this is a guess of the route that a send will create the topic with, made while it is
    unknown whether the topic exists."""
    group_queues: tuple[MessageQueue, ...] = field(init=False)
    """The queues among which message groups are divided: those of ``queue_order``, so that no group
    moves while a broker is away; without one, ``write_queues``. None while ``groups_wait``."""
    groups_wait: bool = field(init=False)
    """Whether message groups have no queues on this route: the topic is of type FIFO, or may be,
    and its ``queue_order`` is not known."""

    def __post_init__(self) -> None:
        readable = (
            MessageQueue(self.topic, broker.broker_name, queue_id)
            for broker in self.brokers
            if broker.readable and broker.read_address
            for queue_id in range(broker.read_queue_count)
        )
        writable = (
            MessageQueue(self.topic, broker.broker_name, queue_id)
            for broker in self.brokers
            if broker.writable and broker.primary_address
            for queue_id in range(broker.write_queue_count)
        )
        object.__setattr__(self, "read_queues", tuple(sorted(readable)))
        object.__setattr__(self, "write_queues", tuple(sorted(writable)))
        addresses = {
            broker.broker_name: broker.primary_address
            for broker in self.brokers
            if broker.primary_address
        }
        object.__setattr__(self, "primary_addresses", addresses)
        ordered = tuple(
            MessageQueue(self.topic, *queue) for queue in queues_in_order(self.queue_order)
        )
        must_wait = not ordered and (self.ordered or self.provisional)
        object.__setattr__(self, "groups_wait", must_wait)
        unordered = () if must_wait else self.write_queues
        object.__setattr__(self, "group_queues", ordered or unordered)

    @property
    def ordered(self) -> bool:
        """Whether the topic is of type FIFO."""
        return any(broker.ordered for broker in self.brokers)

    def broker(self, broker_name: str) -> BrokerRoute | None:
        """The route's entry of one broker."""
        for broker in self.brokers:
            if broker.broker_name == broker_name:
                return broker
        return None

    @property
    def places(self) -> dict[str, tuple[str, str]]:
        """Cluster and name of the broker at each address."""
        return {
            address: (broker.cluster_name, broker.broker_name)
            for broker in self.brokers
            for address in broker.addresses.values()
        }

    def without(self, places: Mapping[str, tuple[str, str]]) -> Self:
        """This route without addresses where other brokers are by now.

        Args:
            places: Cluster and name of the broker at each address.
        """
        if all(places.get(at, place) == place for at, place in self.places.items()):
            return self
        brokers = (
            replace(
                broker,
                addresses={
                    broker_id: address
                    for broker_id, address in broker.addresses.items()
                    if places.get(address) in {None, (broker.cluster_name, broker.broker_name)}
                },
            )
            for broker in self.brokers
        )
        return replace(self, brokers=tuple(brokers))

    def at_primaries_of(self, other: Self) -> Self:
        """This route, its primaries where another route has them: a broker is there for all topics.

        Brokers without a primary stay so: nobody is asked whether they have the topic.
        """
        now = {
            (broker.cluster_name, broker.broker_name): broker.addresses
            for broker in other.brokers
            if broker.primary_address
        }
        brokers = (
            replace(broker, addresses=now[broker.cluster_name, broker.broker_name])
            if broker.primary_address and (broker.cluster_name, broker.broker_name) in now
            else broker
            for broker in self.brokers
        )
        return replace(self, brokers=tuple(brokers))

    def as_template(self, topic: str, *, provisional: bool = False) -> Self:
        """The first route of a topic that a send will create.

        Args:
            topic: A topic that does not exist yet; this is the route of the template, which the
                brokers announce that create topics.
            provisional: See the class.
        """
        brokers = (
            replace(
                broker,
                read_queue_count=min(NEW_TOPIC_QUEUES_MAX, broker.read_queue_count),
                write_queue_count=min(NEW_TOPIC_QUEUES_MAX, broker.write_queue_count),
            )
            for broker in self.brokers
        )
        return type(self)(topic, tuple(brokers), self.complete, provisional=provisional)

    def with_missing_of(self, other: Self) -> Self:
        """This route completed from another one: missing brokers, and the order of queues."""
        known = {(broker.cluster_name, broker.broker_name) for broker in self.brokers}
        other = other.without(self.places)
        missing = [b for b in other.brokers if (b.cluster_name, b.broker_name) not in known]
        brokers = sorted(
            (*self.brokers, *missing), key=lambda broker: (broker.cluster_name, broker.broker_name)
        )
        order = self.queue_order or other.queue_order
        away = (self.away_brokers | other.away_brokers) - {each.broker_name for each in brokers}
        return replace(self, brokers=tuple(brokers), queue_order=order, away_brokers=away)
