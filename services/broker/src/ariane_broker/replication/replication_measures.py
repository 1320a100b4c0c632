"""Metrics of a broker with replicas, on primaries and replicas alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ariane_broker.replication.copies import Copy
from ariane_broker.replication.operating import SetStatus
from ariane_servicekit.observability.measures import Measures, Value
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class ReplicationMeasures:
    """The sources of these metrics."""

    names: tuple[str, str]
    """Cluster and broker name; all values have them, to tell sets apart."""
    status: Callable[[], SetStatus]
    """Returns the status of the set, as this broker sees it."""
    store: Store
    """The store."""

    def make(self, measures: Measures) -> None:
        """Make the instruments."""
        for name, unit, description, read in (
            (
                "ariane.replication.primary",
                "1",
                "1 while the broker is primary, 0 while it is a replica.",
                lambda: self._one(int(self.status().has_lease)),
            ),
            (
                "ariane.replication.epoch",
                "1",
                "Epoch of the set; it grows with every election.",
                lambda: self._one(self.status().replica_set.epoch),
            ),
            (
                "ariane.replication.in_sync",
                "{broker}",
                "Brokers in sync, the primary included, as this broker knows.",
                lambda: self._one(len(self.status().replica_set.in_sync)),
            ),
            (
                "ariane.replication.in_sync_min",
                "{broker}",
                "With fewer brokers in sync the primary takes no messages.",
                lambda: self._one(self.status().in_sync_min),
            ),
            (
                "ariane.replication.brokers",
                "{broker}",
                "Brokers of the set, in sync or not.",
                lambda: self._one(len(self.status().replica_set.addresses)),
            ),
            (
                "ariane.replication.following",
                "1",
                "0 while the broker is neither primary nor follows one.",
                lambda: self._one(int(not self.status().trouble)),
            ),
            (
                "ariane.replication.missing",
                "By",
                "Bytes of the log that are missing here or known to be damaged.",
                lambda: self._one(self._missing()),
            ),
            (
                "ariane.replication.behind",
                "By",
                "At the primary: bytes that each replica lacks.",
                self._behind,
            ),
            (
                "ariane.replication.longest_wait",
                "s",
                "At the primary: the longest wait of a send for each replica, lately.",
                self._waits,
            ),
        ):
            measures.gauge(name, unit, description, read)

    @property
    def _attributes(self) -> Mapping[str, str]:
        cluster_name, broker_name = self.names
        return {"cluster.name": cluster_name, "broker.name": broker_name}

    def _one(self, value: float) -> Iterator[Value]:
        yield value, self._attributes

    def _missing(self) -> int:
        begin = self.status().replica_set.begin
        return sum(one.end - one.begin for one in self.store.copying.missing(begin))

    def _behind(self) -> Iterator[Value]:
        for copy in self.status().copies:
            yield max(0, self.store.max_offset - copy.written), self._of(copy)

    def _waits(self) -> Iterator[Value]:
        status = self.status()
        for copy in status.copies:
            yield copy.waits.longest_s(status.now_s), self._of(copy)

    def _of(self, copy: Copy) -> Mapping[str, str]:
        return {**self._attributes, "broker.id": str(copy.broker_id)}
