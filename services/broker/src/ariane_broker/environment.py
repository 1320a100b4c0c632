"""The environment of a broker: settings, clock, disk, threads."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from random import Random, SystemRandom

from ariane_broker.settings import BrokerSettings
from ariane_servicekit import (
    Clock,
    StopRequest,
)
from ariane_storage.disk.clock import Clock as StoreClock
from ariane_storage.disk.clock import SystemClock as StoreSystemClock
from ariane_storage.disk.disk import Disk


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads in which the broker waits for its disk.

    Attributes:
        flusher: For flushes that senders wait for.
        keeper: For all other work on the store.
        state: For recovery and state files.
        cold: Several, for reads of what is not in memory.
    """

    flusher: Executor
    keeper: Executor
    state: Executor
    cold: Executor


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a broker.

    Attributes:
        settings: Its settings.
        stop: Ends the process when the disk fails.
        clock: The clock of all parts but the store, which has its own.
        disk: The disk.
        threads: Threads that wait for the disk.
        store_clock: The clock of the store: wall time for timestamps, and monotonic time.
        chance: Draws ids and what spreads load.
    """

    settings: BrokerSettings
    stop: StopRequest
    clock: Clock
    disk: Disk
    threads: Threads
    store_clock: StoreClock = field(default_factory=StoreSystemClock)
    chance: Random = field(default_factory=SystemRandom)
