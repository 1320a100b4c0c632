"""The world: machines, what connects them, and what was found in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from greenlet import getcurrent, greenlet

from played_world.machines.machine import Machine
from played_world.machines.network import Network
from played_world.machines.played_database import DATABASE, DatabaseWay
from played_world.machines.played_locks import played_threading
from played_world.machines.timeline import Timeline

if TYPE_CHECKING:
    from played_world.machines.process import Process


class World:
    """Everything, by one seed."""

    def __init__(self, seed: int, trace: TextIO | None = None) -> None:
        self.seed = seed
        self.timeline = Timeline(seed, trace)
        self.scheduling = self.timeline.chance("scheduling")
        self.hub = getcurrent()
        self.machines: dict[str, Machine] = {}
        self.network = Network(self)
        database = self.machine(DATABASE)
        self.databases = DatabaseWay(self.timeline.chance("databases"), self.network, database)
        self.findings: list[str] = []
        """What no process may do, in words."""
        self.running: Process | None = None
        """The process whose code runs now."""
        self.hooked: object = None
        """The loop that hears of asynchronous generators: the last one that ran."""
        self._process_id = 1000
        self.idle_workers: list[_Worker] = []
        """Threads that have no work."""
        self._play_locks()

    def machine(self, name: str) -> Machine:
        """A machine by its name; made when it is first asked for."""
        machine = self.machines.get(name)
        if machine is None:
            address = f"10.0.0.{len(self.machines)}"
            machine = self.machines[name] = Machine(self, name, address)
        return machine

    def machine_at(self, address: str) -> Machine:
        """The machine with an address."""
        return next(each for each in self.machines.values() if each.address == address)

    def next_process_id(self) -> int:
        """The number of the next process."""
        self._process_id += 1
        return self._process_id

    def worker(self, work: Callable[[], None]) -> greenlet:
        """A greenlet that does some work of a thread once it is entered."""
        worker = self.idle_workers.pop() if self.idle_workers else _Worker(self)
        worker.work = work
        return worker.greenlet

    def finds(self, process: Process, what: str, context: dict[str, Any]) -> None:
        """Note what must not happen."""
        error = context.get("exception")
        text = f"{process.name}: {what}: {context.get('message')}: {error!r}"
        self.timeline.note(f"finding {text}")
        self.findings.append(text)

    def _play_locks(self) -> None:
        """Let the store find played locks where it looks for those of threads."""
        threading: SimpleNamespace = played_threading(self)
        for name, module in sorted(sys.modules.items()):
            if name.startswith("ariane_storage.") and hasattr(module, "threading"):
                module.threading = threading  # type: ignore[attr-defined]


class _Worker:
    """Does one piece of work after the other, unless it is left for ever in one of them."""

    def __init__(self, world: World) -> None:
        self.work: Callable[[], None]
        self.greenlet = greenlet(self._run, world.hub)
        self._world = world

    def _run(self) -> None:
        while True:
            self.work()
            self._world.idle_workers.append(self)
            self._world.hub.switch()
