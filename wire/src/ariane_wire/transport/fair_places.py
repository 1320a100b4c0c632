"""Places for connections that are not yet the server's, shared by hosts.

Where all are taken, a host with few takes one of the host with most at once: whoever fills them
from some hosts keeps out nobody who comes from another. Among hosts with as many, one that has had
its time makes room. So it is with those that wait, where these are bounded: for those before it
nobody is turned away who comes last from a host of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

PATIENCE_S: Final = 1.0
"""How long a connection keeps its place although others wait."""

Waiter = asyncio.Future[None]


class FairPlaces:
    """So many tasks at a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, count_max: int, waiting_max: int | None = None
    ) -> None:
        """Nobody has a place yet.

        Args:
            loop: Of the tasks.
            count_max: Places in all.
            waiting_max: How many may wait for one; None for however many.
        """
        self._loop = loop
        self._count_max = count_max
        self._waiting_max = waiting_max
        self._held: dict[str, dict[asyncio.Task[None], float]] = {}
        """Tasks by host, each since when; the oldest first, but for those moved."""
        self._hosts: dict[asyncio.Task[None], str] = {}
        self._named: WeakKeyDictionary[asyncio.Task[None], str] = WeakKeyDictionary()
        """The hosts of tasks that have no place yet, where a proxy has named them."""
        self._leaving: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, dict[Waiter, asyncio.Task[None]]] = {}
        """Tasks by host, the oldest first; the host whose turn it is first."""
        self._arrived: dict[Waiter, str] = {}
        """The hosts of all that wait, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, task: asyncio.Task[None], host: str) -> None:
        """Wait until there is a place, and give it to a task until that is done.

        Args:
            task: As for ``ask``.
            host: As for ``ask``.
        """
        waiter = self.ask(task, host)
        if waiter is not None:
            await waiter

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return self._count() >= self._count_max

    def ask(self, task: asyncio.Task[None], host: str) -> Waiter | None:
        """Give a place to a task until that is done, or note that it waits for one.

        A task that is ended for another keeps its place until it has given back what it holds. Of
        too many that wait, the youngest one of the host with most is ended; of several such hosts
        the one that has waited longest.

        Args:
            task: Ended where it has to make room.
            host: Of its connection.

        Returns:
            Done when the task has its place, or is over; None where it has it now.
        """
        if not self.is_full:
            self._enter(task, host)
            return None
        waiter = self._loop.create_future()
        queue = self._waiting.setdefault(host, {})
        queue[waiter] = task
        self._arrived[waiter] = host
        greediest, held = self._greediest()
        # Half as many: hosts with as good as as many do not take from each other all the time.
        if len(held) >= 2 * (len(self._held.get(host, ())) + len(queue)):
            self._end_oldest(greediest)
        elif self._waiting_max is not None and len(self._arrived) > self._waiting_max:
            self._turn_away()
        task.add_done_callback(lambda _: self._give_up(waiter, host))
        self._look_later()
        return waiter

    def move(self, task: asyncio.Task[None], host: str) -> None:
        """Count a task for another host: the one for which a proxy speaks.

        One that has no place yet is counted so once it has one. Among those of that host it is the
        youngest, whenever it came.
        """
        known = self._hosts.get(task)
        if known is None:
            self._named[task] = host
        if known is None or known == host:
            return
        since_s = self._held[known][task]
        self._drop(task)
        self._held.setdefault(host, {})[task] = since_s
        self._hosts[task] = host

    def close(self) -> None:
        """End all tasks."""
        if self._timer is not None:
            self._timer.cancel()
        waiting = [task for queue in self._waiting.values() for task in queue.values()]
        for task in (*self._hosts, *waiting):
            task.cancel()

    def _count(self) -> int:
        return len(self._hosts) + len(self._leaving)

    def _enter(self, task: asyncio.Task[None], host: str) -> None:
        host = self._named.pop(task, host)
        self._held.setdefault(host, {})[task] = self._loop.time()
        self._hosts[task] = host
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._drop(task)
        self._leaving.discard(task)
        while self._waiting and not self.is_full:
            host = self._next_host()
            waiter, waiting = next(iter(self._waiting[host].items()))
            self._forget(waiter, host)
            if host in self._waiting:
                # Others of it wait: they stand behind those of hosts that have waited meanwhile.
                self._waiting[host] = self._waiting.pop(host)
            if not waiter.done():
                self._enter(waiting, host)
                waiter.set_result(None)
        self._look_later()

    def _drop(self, task: asyncio.Task[None]) -> None:
        host = self._hosts.pop(task, None)
        if host is not None:
            held = self._held[host]
            del held[task]
            if not held:
                del self._held[host]

    def _give_up(self, waiter: Waiter, host: str) -> None:
        self._forget(waiter, host)
        if not waiter.done():
            waiter.set_result(None)

    def _forget(self, waiter: Waiter, host: str) -> None:
        if self._arrived.pop(waiter, None) is not None:
            queue = self._waiting[host]
            del queue[waiter]
            if not queue:
                del self._waiting[host]

    def _next_host(self) -> str:
        """Of those who wait, the host with fewest places; of several the one whose turn it is."""
        found, fewest = "", self._count_max + 1
        for host in self._waiting:
            count = len(self._held.get(host, ()))
            if count < fewest:
                found, fewest = host, count
            if not count:
                break
        return found

    def _greediest(self) -> tuple[str, dict[asyncio.Task[None], float]]:
        """The host with most places; of several the one whose oldest has had its longest."""
        found: tuple[str, dict[asyncio.Task[None], float]] = ("", {})
        most, since_s = 0, 0.0
        for host, held in self._held.items():
            count = len(held)
            if count >= most:
                first_s = next(iter(held.values()))
                if count > most or first_s < since_s:
                    found, most, since_s = (host, held), count, first_s
        return found

    def _end_oldest(self, host: str) -> None:
        task = next(iter(self._held[host]))
        self._drop(task)
        self._leaving.add(task)
        task.cancel()

    def _turn_away(self) -> None:
        """End one of those who wait of the host of which most do.

        Its youngest, so that those before it come to their turn. Of several such hosts the one that
        has waited longest: those who wait are looked at meanwhile, so an honest one is long done.
        """
        most = max(map(len, self._waiting.values()))
        hosts = {host for host, queue in self._waiting.items() if len(queue) == most}
        oldest = next(waiter for waiter, host in self._arrived.items() if host in hosts)
        host = self._arrived[oldest]
        queue = self._waiting[host]
        waiter = next(reversed(queue)) if len(hosts) == 1 else oldest
        task = queue[waiter]
        self._forget(waiter, host)
        task.cancel()

    def _look_later(self) -> None:
        """See to it that those who wait do not wait for one that has had its time."""
        if self._timer is not None or len(self._arrived) <= len(self._leaving):
            return
        _, held = self._greediest()
        if held:
            since_s = next(iter(held.values()))
            self._timer = self._loop.call_at(since_s + PATIENCE_S, self._look)

    def _look(self) -> None:
        self._timer = None
        host, held = self._greediest()
        with suppress(StopIteration):
            since_s = next(iter(held.values()))
            if len(self._arrived) > len(self._leaving) and (
                since_s + PATIENCE_S <= self._loop.time()
            ):
                self._end_oldest(host)
        self._look_later()
