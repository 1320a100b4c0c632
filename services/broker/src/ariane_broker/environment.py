"""What a broker is given from outside: settings, clock, disk, threads."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

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
    """Where the broker waits on its disk.

    Attributes:
        flusher: For flushes that senders wait for.
        keeper: For all else that the store needs done.
        state: For recovery and state files.
    """

    flusher: Executor
    keeper: Executor
    state: Executor


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker is given.

    Attributes:
        settings: What it was told.
        stop: How it ends the process when its disk fails.
        clock: Tells the time to everything but the store, which has its own.
        disk: Where everything is kept.
        threads: Where it waits on its disk.
        store_clock: Tells the time to the store: what it stamps records with, and a steady one.
    """

    settings: BrokerSettings
    stop: StopRequest
    clock: Clock
    disk: Disk
    threads: Threads
    store_clock: StoreClock = field(default_factory=StoreSystemClock)
