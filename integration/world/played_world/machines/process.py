"""One life of a program: a loop and threads, until it ends or is killed.

The loop is a greenlet, and so is each thread at work. It may be left in the middle: for a call of
the disk that takes its time, for a lock, or for ever, if the process is killed there. A greenlet
that is left for ever is kept, so that nothing of it is ever run again. One that has come to the end
of a turn, or of its work, is used again: a new one costs more than most turns.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from greenlet import getcurrent, greenlet

from played_world.machines.played_loop import PlayedLoop
from played_world.machines.played_threads import PlayedThreads
from played_world.mistakes import may_end

if TYPE_CHECKING:
    from random import Random

    from played_world.machines.machine import Machine
    from played_world.world import World

GRAVEYARD: Final[list[object]] = []
"""What killed processes have left: nothing in it may be collected, for that would run code."""

LISTENER_THREADS: Final = "ariane-listener"
"""The name of threads in which plain functions listen."""

TURN_S: Final = (20e-6, 200e-6)
"""How long a turn of the loop takes."""


class Process:
    """A process on a machine."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        main: Callable[[Process], Coroutine[Any, Any, object]],
        on_end: Callable[[Process], None],
    ) -> None:
        self.world: World = machine.world
        self.machine = machine
        self.name = name
        self.process_id = self.world.next_process_id()
        self.chance: Random = self.world.timeline.chance(f"{name}/{self.process_id}")
        self.is_dead = False
        """Whether it has ended, by itself or not."""
        self.outcome: object = None
        """How it has ended by itself: its result, or an error."""
        self.slowness = 1.0
        """How many times as long as usual its turns take."""
        self.drags_s = 0.0
        """How long its listeners take, at least."""
        self.pauses = 0
        """How often it has stood still, or nearly, from outside."""
        self.leaves: Callable[[], object] | None = None
        """What a client does when it is to stop in order; None while it has not begun."""
        self.loop = PlayedLoop(self)
        self.disk_calls = 0
        self.dies_at_disk_call: int | None = None
        self._on_death_at_disk: Callable[[], None] = _nothing
        self._on_end = on_end
        self._hub = self.world.hub
        self._turns = greenlet(self._run_turns, self._hub)
        self._threads: dict[int, PlayedThreads] = {}
        self.may_be_woken = True
        """Whether it has no turn, and none is due."""
        self._is_loop_entered = False
        self._frozen_until = 0.0
        self._delayed: list[Callable[[], None]] = []
        self._suspended: dict[greenlet, bool] = {}
        self._kept: list[object] = []
        coroutine = main(self)
        self._main: asyncio.Task[object] = self.loop.create_task(coroutine)
        self._main.add_done_callback(self._ended)
        self.world.timeline.note(f"start {name} {self.process_id}")

    # The loop.

    def leave_by(self, task: asyncio.Task[object] | None) -> None:
        """Stop in order by cancelling a task."""
        if task is not None:
            self.leaves = partial(task.cancel, "leaves")

    def wake(self) -> None:
        """There is something for the loop to do."""
        if self.may_be_woken and not self.is_dead:
            self.may_be_woken = False
            self.world.timeline.after(self._turn_s(), self._turn)

    def _turn_s(self) -> float:
        low, high = TURN_S
        return (low + (high - low) * self.world.scheduling.random()) * self.slowness

    def _turn(self) -> None:
        if self.is_dead:
            return
        if self.world.timeline.now < self._frozen_until:
            self._delayed.append(self._turn)
            return
        self._enter(self._turns, is_loop=True)

    def _run_turns(self) -> None:
        loop, timeline, ready = self.loop, self.world.timeline, self.loop.ready
        while True:
            loop.run_ready()
            while ready and not self.is_dead:
                cost_s = self._turn_s()
                if not timeline.pass_by(cost_s):
                    timeline.after(cost_s, self._turn)
                    break
                loop.run_ready()  # Nobody else has anything to do before.
            else:
                self.may_be_woken = True
            self._hub.switch()

    def _enter(self, work: greenlet, *, is_loop: bool) -> None:
        """Go on with a turn or with the work of a thread, until it ends or waits."""
        if self.is_dead:
            return
        if self.world.timeline.now < self._frozen_until:
            self._delayed.append(partial(self._enter, work, is_loop=is_loop))
            return
        self._suspended.pop(work, None)
        world = self.world
        world.running = self
        events._set_running_loop(self.loop if is_loop else None)  # noqa: SLF001
        if world.hooked is not self.loop:
            world.hooked = self.loop
            sys.set_asyncgen_hooks(
                firstiter=self.loop._asyncgen_firstiter_hook,  # type: ignore[attr-defined]  # noqa: SLF001
                finalizer=self.loop._asyncgen_finalizer_hook,  # type: ignore[attr-defined]  # noqa: SLF001
            )
        self._is_loop_entered = is_loop
        try:
            work.switch()
        finally:
            events._set_running_loop(None)  # noqa: SLF001
            world.running = None

    # Waiting in the middle.

    def block(self, seconds: float) -> None:
        """Wait for the disk, in the loop or in a thread: nothing else of it goes on."""
        work, is_loop = getcurrent(), self._is_loop_entered
        self.world.timeline.after(seconds, partial(self._enter, work, is_loop=is_loop))
        self._leave(work, is_loop=is_loop)

    def park(self) -> Callable[[], None]:
        """Return what wakes the caller, which is to call ``wait_parked`` next."""
        work, is_loop = getcurrent(), self._is_loop_entered

        def wake() -> None:
            self.world.timeline.after(0.0, partial(self._enter, work, is_loop=is_loop))

        return wake

    def wait_parked(self) -> None:
        """Wait until it is woken."""
        self._leave(getcurrent(), is_loop=self._is_loop_entered)

    def _leave(self, work: greenlet, *, is_loop: bool) -> None:
        self._suspended[work] = is_loop
        self._hub.switch()

    @property
    def is_at_disk(self) -> bool:
        """Whether its loop or one of its threads waits for the disk, or for who does."""
        return bool(self._suspended)

    # Threads.

    def threads_of(self, executor: Executor | None) -> PlayedThreads:
        """The threads that play those of an executor; None: the loop's own."""
        if isinstance(executor, PlayedThreads):
            return executor
        threads = self._threads.get(id(executor))
        if threads is None:
            count = getattr(executor, "_max_workers", 4)
            # Of the house only databases and listeners bring executors of their own.
            name = getattr(executor, "_thread_name_prefix", "")
            is_database = executor is not None and name != LISTENER_THREADS
            way = self.world.databases if is_database else None
            threads = self._threads[id(executor)] = PlayedThreads(self, count, way)
            self._kept.append(executor)
        return threads

    def new_threads(self, count: int) -> PlayedThreads:
        """An executor."""
        return PlayedThreads(self, count)

    def run_in_thread(self, work: Callable[[], None]) -> None:
        """Let a thread work, from now on."""
        self._enter(self.world.worker(work), is_loop=False)

    # The end.

    def freeze(self, seconds: float) -> None:
        """Stop for a while, as by SIGSTOP."""
        self.pauses += 1
        self._frozen_until = max(self._frozen_until, self.world.timeline.now + seconds)
        self.world.timeline.at(self._frozen_until, self._thaw_in_time)

    def _thaw_in_time(self) -> None:
        if self.world.timeline.now >= self._frozen_until:
            self.thaw()

    def thaw(self) -> None:
        """Go on, as by SIGCONT."""
        self._frozen_until = 0.0
        delayed, self._delayed = self._delayed, []
        for act in delayed:
            self.world.timeline.after(0.0, act)

    def die_at_disk_call(self, number: int, on_death: Callable[[], None]) -> None:
        """Be killed at a call of the disk, and call back then."""
        self.dies_at_disk_call, self._on_death_at_disk = number, on_death

    def at_disk_call(self) -> None:
        """Count a call of the disk; the process may be killed here, and does not return then."""
        self.disk_calls += 1
        if self.disk_calls == self.dies_at_disk_call:
            work = getcurrent()
            self._on_death_at_disk()
            self.kill("at a call of the disk")
            self._kept.append(work)
            self._hub.switch()

    def kill(self, how: str) -> None:
        """End: nothing of it runs again, not even the clearing away."""
        if not self.is_dead:
            self.world.timeline.note(f"kill {self.name} {self.process_id} {how}")
            self._die()

    def _die(self) -> None:
        self.is_dead = True
        left = (self._turns, self._kept, self._suspended, asyncio.all_tasks(self.loop))
        GRAVEYARD.append((self, *left))
        self.world.network.forget(self)
        self.machine.release(self)
        self._on_end(self)

    def _ended(self, task: asyncio.Task[object]) -> None:
        """The program has come to its end by itself."""
        self.outcome = task.exception() if not task.cancelled() else "cancelled"
        if self.outcome is None:
            self.outcome = task.result()
        self.world.timeline.note(f"end {self.name} {self.process_id} {self.outcome!r:.200}")
        if isinstance(self.outcome, BaseException) and not may_end(self.outcome):
            self.world.finds(self, "ended", {"message": "by itself", "exception": self.outcome})
        self._die()


def _nothing() -> None:
    """Nobody wants to know."""
