"""The replication room of a primary: its reign, its copies, and who waits for them."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.log.arrivals import Arrivals
from ariane_broker.log.group_flush import GroupFlush
from ariane_broker.log.promise import Promise, flush_conditions
from ariane_broker.outside import Outside
from ariane_broker.replication.confirmation import Confirmation
from ariane_broker.replication.copies import Copies
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.promises import ReplicatedPromise, fenced
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import SharedRow
from ariane_broker.settings import BrokerSettings
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class Elected:
    """An election that was won.

    Attributes:
        row: The shared row.
        replica_set: What it says since.
        asked_at_s: When the election was asked for, by the monotonic clock.
    """

    row: SharedRow
    replica_set: ReplicaSet
    asked_at_s: float


def primary_of(outside: Outside, elected: Elected, store: Store, arrivals: Arrivals) -> Primary:
    """The primary's side of replication."""
    settings, monotonic = outside.settings, outside.clock.monotonic
    reign = Reign(
        elected.row,
        elected.replica_set,
        settings.broker_id,
        elected_at_s=elected.asked_at_s,
        lease_s=settings.primary_lease_s,
        monotonic=monotonic,
        on_deposed=lambda: outside.stop.request("another broker is primary now", anew=True),
    )
    copies = Copies(
        elected.replica_set.in_sync - {settings.broker_id},
        monotonic(),
        flushed=settings.flush_mode == "sync",
        behind_s_max=settings.replica_behind_s_max,
    )
    return Primary(
        reign,
        store,
        copies,
        Confirmation(lambda: reign.holds, wait_s_max=settings.replication_wait_s),
        monotonic=monotonic,
        is_sync_flush=settings.flush_mode == "sync",
        is_replicated=settings.acknowledge == "replicated",
        in_sync_min=settings.in_sync_min,
        on_confirmed=arrivals.confirm,
    )


def primary_promise(settings: BrokerSettings, flush: GroupFlush, primary: Primary) -> Promise:
    """What an acknowledgement of a primary waits for."""
    own = flush_conditions(settings.flush_mode, flush)
    if settings.acknowledge == "replicated":
        return ReplicatedPromise(
            own, primary.confirmation.when_confirmed, lambda: primary.has_copies
        )
    return Promise(fenced(own, lambda: primary.reign.holds))
