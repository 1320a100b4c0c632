"""The replication room of a primary: its reign, its record of replicas, and confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ariane_broker.environment import Environment
from ariane_broker.errors.replication import too_few_in_sync
from ariane_broker.log.group_flush import GroupFlush
from ariane_broker.log.held_requests import Arrivals
from ariane_broker.log.offset_waits import OnDone
from ariane_broker.log.promise import (
    AcknowledgedLevel,
    Condition,
    Demand,
    Promise,
    flush_conditions,
)
from ariane_broker.queue_key import QueueKey
from ariane_broker.replication.confirmation import (
    Confirmation,
    ReplicatedPromise,
    by_enough,
    fenced,
)
from ariane_broker.replication.copies import Copies
from ariane_broker.replication.operating import PrimaryOperations
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.reign import Reign
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.shared_row import SharedRow
from ariane_broker.replication.store_mark import StoreMark
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import Loop
from ariane_storage.state_file import StateFile
from ariane_storage.store import Store
from ariane_storage.store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class Elected:
    """An election that was won."""

    row: SharedRow
    """The shared row."""
    replica_set: ReplicaSet
    """The row after the election."""
    asked_at_s: float
    """When the election was requested, by the monotonic clock."""
    confirmed: int = 0
    """Everything before this commit-log offset is known to be confirmed."""


def primary_of(
    environment: Environment, elected: Elected, store: Store, arrivals: Arrivals
) -> Primary:
    """The primary's side of replication."""
    settings, monotonic = environment.settings, environment.clock.monotonic
    reign = Reign(
        elected.row,
        elected.replica_set,
        settings.broker_id,
        elected_at_s=elected.asked_at_s,
        lease_s=settings.primary_lease_s,
        monotonic=monotonic,
        on_deposed=lambda: environment.stop.request("another broker is primary now", anew=True),
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
        known_confirmed=elected.confirmed,
        on_hidden=lambda end: _hide(store, arrivals, end),
    )


def _hide(store: Store, arrivals: Arrivals, end: int) -> None:
    """Wake held requests of all queues once the log before an offset is confirmed."""
    queues = [QueueKey(*queue) for queue in store.queues()]
    if queues:
        arrivals.appended(queues, [end] * len(queues))


class PrimaryPromises:
    """The promises of a primary."""

    def __init__(self, settings: BrokerSettings, flush: GroupFlush, primary: Primary) -> None:
        self._primary = primary
        self._is_replicated = settings.acknowledge == "replicated"
        self._in_sync_min = settings.in_sync_min if self._is_replicated else 1
        self._own = flush_conditions(settings.flush_mode, flush)
        self._flushed = flush_conditions("sync", flush)
        self.own = self._promise(self._own, self._in_sync_min, is_replicated=self._is_replicated)

    def demanded(self, demand: Demand) -> Promise:
        """As ``Promises``."""
        return self._promise(
            self._flushed if demand.level is AcknowledgedLevel.FLUSHED else self._own,
            max(demand.in_sync_min, self._in_sync_min),
            is_replicated=self._is_replicated or demand.in_sync_min > 1,
        )

    def check(self, demand: Demand) -> None:
        """As ``Promises``."""
        in_sync = self._primary.in_sync_count
        if in_sync < demand.in_sync_min:
            raise too_few_in_sync(in_sync, demand.in_sync_min)

    def _promise(
        self, own: Sequence[Condition], in_sync_min: int, *, is_replicated: bool
    ) -> Promise:
        primary = self._primary
        if not is_replicated:
            return Promise(fenced(own, lambda: primary.reign.holds))
        confirmed: Callable[[int, OnDone], None] = primary.confirmation.when_confirmed
        if in_sync_min > 1:
            confirmed = by_enough(confirmed, lambda: primary.in_sync_count >= in_sync_min)
        return ReplicatedPromise(own, confirmed, lambda: primary.has_copies)


def primary_operations(
    environment: Environment,
    primary: Primary,
    save_state: Callable[[], Awaitable[None]],
    say_farewell: Callable[[], Awaitable[None]],
) -> PrimaryOperations:
    """What operators may ask of a primary.

    Args:
        environment: Its settings and clock.
        primary: The primary.
        save_state: Saves what replicas need of it.
        say_farewell: Has consumers store their offsets before it goes.
    """
    settings = environment.settings
    return PrimaryOperations(
        (settings.cluster_name, settings.broker_name),
        primary,
        primary.reign.row,
        monotonic=environment.clock.monotonic,
        save_state=save_state,
        say_farewell=say_farewell,
        on_resigned=lambda: environment.stop.request("the role was handed over", anew=True),
    )


def mark_loops(environment: Environment, primary: Primary | None) -> list[Loop]:
    """The loop that raises the mark of a primary's store, once a lease."""
    if primary is None:
        return []
    settings, reign = environment.settings, primary.reign
    file = StateFile(StoreFiles(settings.store_path).store_mark, environment.disk)
    mark = StoreMark(file, settings.broker_id, environment.threads.state, reign.mark)

    async def turn() -> None:
        await mark.tend()
        reign.mark = mark.value

    interval_s = settings.primary_lease_s
    return [Loop("store-mark", turn, interval_s=interval_s, clock=environment.clock)]
