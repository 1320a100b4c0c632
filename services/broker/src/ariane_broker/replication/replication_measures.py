"""Metrics of a broker with replicas, on primaries and replicas alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ariane_broker.replication.operating import SetStatus
from ariane_servicekit.observability.measures import Measures, Value, one
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class ReplicationMeasures:
    """The sources of these metrics.

    Attributes:
        status: Returns the status of the set, as this broker sees it.
        store: The store.
    """

    status: Callable[[], SetStatus]
    store: Store

    def make(self, measures: Measures) -> None:
        """Make the instruments."""
        for name, unit, description, read in (
            (
                "ariane.replication.primary",
                "1",
                "1 while the broker is primary, 0 while it is a replica.",
                lambda: one(int(self.status().has_lease)),
            ),
            (
                "ariane.replication.epoch",
                "1",
                "Epoch of the set; it grows with every election.",
                lambda: one(self.status().replica_set.epoch),
            ),
            (
                "ariane.replication.in_sync",
                "{broker}",
                "Brokers in sync, the primary included, as this broker knows.",
                lambda: one(len(self.status().replica_set.in_sync)),
            ),
            (
                "ariane.replication.brokers",
                "{broker}",
                "Brokers of the set, in sync or not.",
                lambda: one(len(self.status().replica_set.addresses)),
            ),
            (
                "ariane.replication.following",
                "1",
                "0 while the broker is neither primary nor follows one.",
                lambda: one(int(not self.status().trouble)),
            ),
            (
                "ariane.replication.missing",
                "By",
                "Bytes of the log that are missing here or known to be damaged.",
                lambda: one(self._missing()),
            ),
            (
                "ariane.replication.behind",
                "By",
                "At the primary: bytes that each replica lacks.",
                self._behind,
            ),
        ):
            measures.gauge(name, unit, description, read)

    def _missing(self) -> int:
        begin = self.status().replica_set.begin
        return sum(one.end - one.begin for one in self.store.copying.missing(begin))

    def _behind(self) -> Iterator[Value]:
        for copy in self.status().copies:
            yield (
                max(0, self.store.max_offset - copy.written),
                {"broker.id": str(copy.broker_id)},
            )
