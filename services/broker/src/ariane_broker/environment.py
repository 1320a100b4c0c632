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
    """Threads in which the broker waits for its disk."""

    flusher: Executor
    """For flushes that senders wait for."""
    keeper: Executor
    """For all other work on the store."""
    state: Executor
    """For recovery and state files."""
    cold: Executor
    """Several, for reads of what is not in memory."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a broker."""

    settings: BrokerSettings
    """Its settings."""
    stop: StopRequest
    """Ends the process when the disk fails."""
    clock: Clock
    """The clock of all parts but the store, which has its own."""
    disk: Disk
    """The disk."""
    threads: Threads
    """Threads that wait for the disk."""
    store_clock: StoreClock = field(default_factory=StoreSystemClock)
    """The clock of the store: wall time for timestamps, and monotonic time."""
    chance: Random = field(default_factory=SystemRandom)
    """Draws ids and what spreads load."""
