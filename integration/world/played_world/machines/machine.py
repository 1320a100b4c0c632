"""A machine: a clock, a disk, an address, and the processes on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ariane_servicekit.clock import SystemClock
from ariane_storage.testing.faulty_disk import FaultyDisk
from played_world.machines.played_disk import DiskHealth, PlayedDisk
from played_world.machines.process import Process
from played_world.machines.timeline import EPOCH_MS

if TYPE_CHECKING:
    from ariane_storage.disk.disk import FileLock
    from played_world.world import World

_HOUR_MS: Final = 3_600_000


class MachineClock(SystemClock):
    """The clocks of a machine, as kit, store and client ask for them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ahead_ms = 0
        """How far the wall clock is ahead of the world's."""
        self.rate = 1.0
        """How fast its clocks go."""

    def now_ms(self) -> int:
        """The wall clock."""
        return EPOCH_MS + round(self._world.timeline.now * 1000 * self.rate) + self.ahead_ms

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._world.timeline.now * self.rate

    def monotonic_s(self) -> float:
        """The same, as the client calls it."""
        return self.monotonic()

    def steady_ms(self) -> int:
        """The same in milliseconds, as the store calls it."""
        return round(self.monotonic() * 1000)

    def local_hour(self, now_ms: int) -> int:
        """Hour of the day."""
        return now_ms // _HOUR_MS % 24

    def file_stamp(self, now_ms: int) -> str:
        """A stamp that grows with time."""
        return f"{now_ms:017d}"

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Machine:
    """A machine."""

    def __init__(self, world: World, name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.clock = MachineClock(world)
        chances = (world.timeline.chance(f"{what}/{name}") for what in ("disk", "flushes"))
        self.health = DiskHealth(*chances)
        self.content = FaultyDisk()
        self.is_up = True
        """Whether it has power."""
        self.processes: dict[Process, None] = {}
        """Those that live."""
        self.locks: dict[Process, list[FileLock]] = {}
        """What each of them has locked."""
        self._boots = 0
        self._write_boot_id()

    def start(
        self,
        name: str,
        main: Callable[[Process], Coroutine[Any, Any, object]],
        on_end: Callable[[Process], None],
    ) -> Process:
        """Start a program."""
        process = Process(self, name, main, on_end)
        self.processes[process] = None
        return process

    def disk(self, process: Process) -> PlayedDisk:
        """The disk, as a process uses it."""
        return PlayedDisk(process, self.content, self.health)

    def release(self, process: Process) -> None:
        """A process has ended: the system takes back what it had."""
        self.processes.pop(process, None)
        for lock in self.locks.pop(process, ()):
            lock.release()

    def lose_power(self) -> None:
        """Kill all processes, and lose what was not flushed. Nobody hears of it."""
        self.is_up = False
        for process in list(self.processes):
            process.kill("without power")
        self.content = self.content.lose_power(self.health.chance.getrandbits(32))

    def make_true(self) -> None:
        """Let the disk do what it has only said to have done."""
        self.health.lies = False
        self.content.flush_fails_at = None
        paths = self.content.paths()
        self.content.sync(files=paths, folders=sorted({path.parent for path in paths}))

    def boot(self) -> None:
        """Have power again."""
        self.is_up = True
        self._boots += 1
        self._write_boot_id()

    def _write_boot_id(self) -> None:
        path = Path("/proc/sys/kernel/random/boot_id")
        self.content.make_folders(path.parent)
        self.content.write(path, f"{self.name}-{self._boots}".encode())
