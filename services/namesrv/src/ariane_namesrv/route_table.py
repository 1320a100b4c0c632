"""The route table: which brokers live, and where topics are.

All knowledge of a name server about brokers is in this table, in memory; the brokers themselves
report it. One loop calls; no method waits. The table depends only on these reports and on the
clock:

* A broker is one ``(cluster, name, id)``. It is alive until it unregisters or is silent too long.
* Two living processes cannot have the same key. A new process at the *same address* is a restart,
since the old one cannot hold the port any more, and replaces it; at another address it is refused
for as long as the first one is heard of. Primaries of one set have the same key: the one of the
later epoch replaces the other at once, and one of an earlier epoch is refused.
* A broker of another name at the *same address* is gone for the same reason, and is forgotten:
clients would take one for the other.
* A registration replaces all topics of its broker, unless it is older than the known one: calls
that arrive late change nothing.
* A route has the primary's layout. Without a living primary it has that of the replica with the
lowest id, for reading only.
* A broker that left is named as away in the routes of its topics (``away_brokers.py``). A wiped one
is not expected.
* A wipe of the write permission belongs to a broker's name and outlives registrations, silence and
restarts of that broker: only a restore ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_namesrv.away_brokers import AwayBroker, AwayBrokers
from ariane_namesrv.registration import (
    PRIMARY_ID,
    BrokerEntry,
    BrokerKey,
    BrokerRoute,
    Permission,
    Registration,
)
from ariane_servicekit import Clock, ServiceError, get_logger

_log = get_logger(__name__)


class RouteTable:
    """Registered brokers and the index of their topics.

    Args:
        clock: Measures silence.
        brokers_max: How many brokers may be registered.
    """

    def __init__(self, clock: Clock, *, brokers_max: int = 1000) -> None:
        self._clock = clock
        self._brokers_max = brokers_max
        self._entries: dict[BrokerKey, BrokerEntry] = {}
        self._keys_by_topic: dict[str, set[BrokerKey]] = {}
        self._wiped: set[str] = set()
        self._away = AwayBrokers(clock, brokers_max=brokers_max)

    # Calls of brokers

    def register(self, registration: Registration) -> None:
        """Register a broker; replaces what it announced before.

        Raises:
            ServiceError: BROKER_NAME_TAKEN while another living process has the key; SERVICE_BUSY
                when the table is full.
        """
        key = registration.key
        entry = self._entries.get(key)
        if entry is None:
            self._check_room()
        elif self._is_other(entry, registration):
            raise _name_taken(entry.registration)
        elif _is_late(entry.registration, registration):
            self._hear(entry)
            return
        if entry is None or entry.registration.incarnation != registration.incarnation:
            _log.info(
                "broker_registered",
                **_names(key),
                address=registration.address,
                topic_count=len(registration.topics),
                refused_topic_count=registration.refused_topic_count,
                restarted=entry is not None,
            )
        self._forget_others_at(registration.address, key)
        self._unindex(key)
        self._away.come_back(*key[:2])
        for topic in registration.topics:
            self._keys_by_topic.setdefault(topic, set()).add(key)
        self._entries[key] = BrokerEntry(
            registration, self._clock.monotonic(), self._clock.now_ms()
        )

    def heartbeat(self, key: BrokerKey, incarnation: str, topics_version: int) -> Registration:
        """Note that a broker is alive; return its registration.

        Raises:
            ServiceError: BROKER_NOT_REGISTERED if it must register (again).
        """
        entry = self._entries.get(key)
        if entry is None:
            raise _not_registered(key, "it is unknown here")
        known = entry.registration
        if known.incarnation != incarnation:
            raise _not_registered(key, "another process registered")
        if known.topics_version != topics_version:
            raise _not_registered(key, "its topics have changed")
        self._hear(entry)
        return known

    def unregister(self, key: BrokerKey, incarnation: str) -> bool:
        """Remove a broker at once; return False if this process of it is not known."""
        entry = self._entries.get(key)
        if entry is None or entry.registration.incarnation != incarnation:
            return False
        self._remove(key)
        _log.info("broker_left", **_names(key))
        return True

    def expire(self) -> list[BrokerKey]:
        """Remove brokers that were silent for too long, and return them."""
        now_s = self._clock.monotonic()
        silent = [key for key, entry in self._entries.items() if not entry.is_live(now_s)]
        for key in silent:
            silence_s = now_s - self._entries[key].heard_at_s
            _log.warning("broker_expired", **_names(key), silence_s=round(silence_s, 1))
            self._remove(key)
        return silent

    # Calls of clients

    def route(self, topic: str) -> list[BrokerRoute]:
        """Return where a topic is, sorted by cluster and broker name; empty if no broker has it."""
        keys = sorted(self._keys_by_topic.get(topic, ()))
        # Keys of one name are neighbours, the lowest id first.
        return [
            self._broker_route(topic, [self._entries[key].registration for key in group])
            for _, group in groupby(keys, key=lambda key: key[:2])
        ]

    def away(self, topic: str) -> dict[str, str]:
        """Return the zones of brokers that had a topic when they left, by sorted names."""
        return self._away.of(topic)

    def away_brokers(self, cluster_name: str = "") -> list[AwayBroker]:
        """Return the brokers of a cluster, or of all, that routes name as away."""
        return self._away.all(cluster_name)

    def topics(self, cluster_name: str = "") -> list[str]:
        """Return the topics of a cluster, or of all, sorted."""
        return sorted(
            topic
            for topic, keys in self._keys_by_topic.items()
            if not cluster_name or any(key.cluster_name == cluster_name for key in keys)
        )

    def topics_of(self, key: BrokerKey) -> Collection[str]:
        """Return a broker's topics that are in routes; none for an unknown broker."""
        entry = self._entries.get(key)
        return () if entry is None else entry.registration.topics.keys()

    def brokers(self, cluster_name: str = "") -> list[BrokerEntry]:
        """Return the brokers of a cluster, or of all, sorted by cluster, name and id."""
        return [
            self._entries[key]
            for key in sorted(self._entries)
            if not cluster_name or key.cluster_name == cluster_name
        ]

    # Calls of operators

    @property
    def wiped(self) -> frozenset[str]:
        """Names of brokers whose write permission was wiped."""
        return frozenset(self._wiped)

    def replace_wiped(self, broker_names: Iterable[str]) -> None:
        """Take over the wipes that an earlier process of this name server stored."""
        self._wiped = set(broker_names)

    def count_writable_topics(self, broker_name: str) -> int:
        """Return how many topics a wipe of this name makes read-only, or a restore writable.

        Raises:
            ServiceError: BROKER_NOT_REGISTERED if neither a broker nor a wipe has the name.
        """
        registrations = [
            entry.registration
            for key, entry in self._entries.items()
            if key.broker_name == broker_name
        ]
        if not registrations and broker_name not in self._wiped:
            raise ServiceError(
                ErrorReason.ERROR_REASON_BROKER_NOT_REGISTERED,
                f"no broker {broker_name} is registered",
                {"broker": broker_name},
            )
        return len(
            {
                topic
                for registration in registrations
                if registration.writable
                for topic, layout in registration.topics.items()
                if Permission.WRITE in layout.permission
            }
        )

    def forget(self, broker_name: str, cluster_name: str = "") -> list[AwayBroker]:
        """Name a broker that does not come back as away no longer; return what it had.

        Args:
            broker_name: Its name.
            cluster_name: Its cluster; empty for all clusters.

        Raises:
            ServiceError: BROKER_ALIVE if it is registered, be it as a replica only.
        """
        self.expire()
        for entry in self.brokers(cluster_name):
            if entry.registration.key.broker_name == broker_name:
                raise _alive(entry, self._clock.monotonic() - entry.heard_at_s)
        forgotten = self._away.forget(broker_name, cluster_name)
        for one in forgotten:
            _log.warning("broker_forgotten", cluster=one.cluster_name, broker=one.broker_name)
        return forgotten

    # Internals

    def _broker_route(self, topic: str, registrations: list[Registration]) -> BrokerRoute:
        first = registrations[0]  # The primary, if it is alive.
        layout = first.topics[topic]
        permission = layout.permission
        if (
            first.key.broker_id != PRIMARY_ID
            or not first.writable
            or first.key.broker_name in self._wiped
        ):
            permission &= ~Permission.WRITE
        return BrokerRoute(
            cluster_name=first.key.cluster_name,
            broker_name=first.key.broker_name,
            addresses={
                **first.replica_addresses,
                **{one.key.broker_id: one.address for one in registrations},
            },
            read_queue_count=layout.read_queue_count,
            write_queue_count=layout.write_queue_count,
            permission=permission,
            zone=first.zone,
            filter_server_addresses=first.filter_server_addresses,
            ordered=layout.ordered,
        )

    def _is_other(self, entry: BrokerEntry, registration: Registration) -> bool:
        known = entry.registration
        if known.incarnation == registration.incarnation:
            return False
        if registration.epoch > known.epoch or not entry.is_live(self._clock.monotonic()):
            return False
        return known.address != registration.address or registration.epoch < known.epoch

    def _check_room(self) -> None:
        if len(self._entries) >= self._brokers_max:
            self.expire()
        if len(self._entries) >= self._brokers_max:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_BUSY,
                f"as many brokers are registered as may be: {self._brokers_max}",
                {"limit": self._brokers_max},
            )

    def _hear(self, entry: BrokerEntry) -> None:
        entry.heard_at_s = self._clock.monotonic()
        entry.heard_at_ms = self._clock.now_ms()

    def _forget_others_at(self, address: str, key: BrokerKey) -> None:
        """Remove brokers of other names that had the address of a broker."""
        others = [
            other
            for other, entry in self._entries.items()
            if other[:2] != key[:2] and entry.registration.address == address
        ]
        for other in others:
            _log.warning("broker_address_taken", **_names(other), address=address, by=key)
            self._remove(other)

    def _remove(self, key: BrokerKey) -> None:
        self._unindex(key)
        left = self._entries.pop(key)
        if key.broker_name in self._wiped or any(key[:2] == other[:2] for other in self._entries):
            return
        self._away.leave(*key[:2], left.registration.topics, left.registration.zone)

    def _unindex(self, key: BrokerKey) -> None:
        entry = self._entries.get(key)
        for topic in entry.registration.topics if entry is not None else ():
            keys = self._keys_by_topic[topic]
            keys.discard(key)
            if not keys:
                del self._keys_by_topic[topic]


def _is_late(known: Registration, arrived: Registration) -> bool:
    return (
        known.incarnation == arrived.incarnation and arrived.topics_version < known.topics_version
    )


def _names(key: BrokerKey) -> dict[str, object]:
    return {"cluster": key.cluster_name, "broker": key.broker_name, "broker_id": key.broker_id}


def _name_taken(holder: Registration) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_BROKER_NAME_TAKEN,
        f"a living broker at {holder.address} bears the name {holder.key.broker_name} and the id "
        f"{holder.key.broker_id} in cluster {holder.key.cluster_name}",
        {**_names(holder.key), "address": holder.address},
    )


def _alive(entry: BrokerEntry, silence_s: float) -> ServiceError:
    holder, left_s = entry.registration, entry.registration.silence_s_max - silence_s
    return ServiceError(
        ErrorReason.ERROR_REASON_BROKER_ALIVE,
        f"broker {holder.key.broker_name} at {holder.address} is registered, and was heard of "
        f"{silence_s:.0f} s ago; if it is silent, it leaves in {max(0.0, left_s):.0f} s",
        {**_names(holder.key), "address": holder.address},
    )


def _not_registered(key: BrokerKey, cause: str) -> ServiceError:
    return ServiceError(
        ErrorReason.ERROR_REASON_BROKER_NOT_REGISTERED,
        f"broker {key.broker_name} {key.broker_id} of cluster {key.cluster_name} must register: "
        f"{cause}",
        {**_names(key), "cause": cause},
    )
