"""The locks that a consumer in order holds on its queues, and for how long it may rely on them.

::

    asked ──── answered        asked again              the broker never answered:
    |<------- lock_life_s (30 s) ------->|  consume no more
    |<------------------ lease of the broker (60 s) ------------------>|  another member may own it

Time is counted from before the request, by the monotonic clock, and a member relies on a lock for
less time than the broker keeps it. A process that was frozen for longer finds its locks expired at
its next check.

A lock that a broker may have granted is held, or owed, until it is known to be released::

          acquire: granted          give_back; not used; lost
    free ────────────────> held ──────────────────────────────────────> owed ────────> free
      |                    renewed every 20 s,                          released at the broker,
      |                    as long as it is used                        tried every second
      |                                                                   ^     |
      +───────────── acquire: unknown whether it was granted ─────────────+     | acquire
                                                                         held <─+

An unused lock that is still renewed would block the whole group for as long as this process lives.
Calls to one broker are made one at a time, so that none overtakes another.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

RELIED_SHARE: Final = 3 / 4
"""A lock is relied on for this share of the time that its broker allows: 30 s of 40 s with a lease
of 60 s."""

RENEW_SHARE: Final = 1 / 2
"""Locks are renewed after this share of the allowed time: 20 s."""

RENEW_RETRY_S: Final = 1.0
"""Delay before a broker that did not renew is asked again."""

RETURN_RETRY_S: Final = 1.0
"""Delay before a failed release of locks is repeated."""

ANY_EPOCH: Final = 0
"""Releases a lock of any epoch."""


class LockCalls(Protocol):
    """Calls brokers for locks."""

    async def lock(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], float]:
        """Take or renew locks; return their epochs, and for how long they may be relied on."""
        ...

    async def unlock(self, broker: BrokerRoute, epochs: dict[MessageQueue, int]) -> None:
        """Give locks back."""
        ...


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock of one queue."""

    epoch: int
    """Its epoch, which is sent with every pull and every stored offset."""
    good_until_s: float
    """Until when it is relied on, by the monotonic clock."""


class QueueLocks:
    """The queue locks of one consumer."""

    def __init__(
        self,
        calls: LockCalls,
        *,
        broker_named: Callable[[str], BrokerRoute],
        is_used: Callable[[MessageQueue], bool],
        on_lost: Callable[[MessageQueue], None],
        clock: Clock,
    ) -> None:
        """Start without locks; only those of queues that are used are renewed.

        A queue is used that is consumed, taken over or being given up. ``broker_named``
        raises ``CallError`` if the broker is unknown. ``on_lost`` is called with a queue that must
        not be consumed any longer.
        """
        self._calls = calls
        self._broker_named = broker_named
        self._is_used = is_used
        self._on_lost = on_lost
        self._clock = clock
        self._held: dict[MessageQueue, HeldLock] = {}
        self._holding = asyncio.Event()
        self._reliable_s: dict[str, float] = {}
        self._hurried = asyncio.Event()
        self._owed: dict[MessageQueue, int] = {}
        self._given: set[MessageQueue] = set()
        self._owing = asyncio.Event()
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def holds(self, queue: MessageQueue) -> bool:
        """Whether the queue may be consumed now."""
        lock = self._held.get(queue)
        return lock is not None and self._clock.monotonic_s() < lock.good_until_s

    def epoch_of(self, queue: MessageQueue) -> int | None:
        """The epoch of the lock of a queue; None without a lock."""
        lock = self._held.get(queue)
        return None if lock is None else lock.epoch

    async def acquire(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """Lock queues that are free; return the queues that are held now.

        Raises:
            CallError: The broker refused or did not answer.
        """
        async with self._turns[broker.broker_name]:
            asked_s = self._clock.monotonic_s()
            owed = {queue: self._owed.pop(queue) for queue in queues if queue in self._owed}
            try:
                epochs, reliable_s = await self._calls.lock(broker, queues)
            except BaseException as error:
                if not isinstance(error, CallError) or error.outcome_unknown:
                    owed = {queue: ANY_EPOCH for queue in queues if queue not in self._held}
                self._owe(owed)
                raise
            good_until_s = self._good_until_s(broker.broker_name, asked_s, reliable_s)
            for queue, epoch in epochs.items():
                self._held[queue] = HeldLock(epoch, good_until_s)
                self._holding.set()
        return [queue for queue in queues if queue in epochs]

    async def give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Release queues: at once, or as soon as their brokers are reachable."""
        given = {queue: self._held.pop(queue).epoch for queue in queues if queue in self._held}
        self._owe(given)
        self._given.update(given)
        # A member that joins takes hundreds of queues at once, each given back by its own task:
        # those that wait for their turn go together, in one call.
        await self._return(given, among=self._given)

    async def give_back_all(self) -> None:
        """Release all locks; at an unreachable broker they expire by themselves."""
        await self.give_back(list(self._held))
        await self._return(self._owed, among=set(self._owed))

    def lose(self, queue: MessageQueue) -> None:
        """Drop a lock. Mostly another member has it; in case it is still ours, it is owed."""
        lock = self._held.pop(queue, None)
        if lock is not None:
            self._owe({queue: lock.epoch})

    def stop_relying(self, queue: MessageQueue) -> None:
        """Drop an expired lock of a queue; its consumer has stopped."""
        if queue in self._held and not self.holds(queue):
            logger.warning("the lock of %s was not renewed in time", queue)
            self._lost(queue)

    async def return_by_and_by(self) -> None:
        """One round: wait until locks are owed, wait a while, and release them."""
        await self._owing.wait()
        await self._clock.sleep(RETURN_RETRY_S)
        await self._return(self._owed, among=set(self._owed))
        if not self._owed:
            self._owing.clear()

    async def renew_by_and_by(self) -> None:
        """One round: wait until there are locks and half of their time is over, and renew them."""
        await self._holding.wait()
        begun_s = self._clock.monotonic_s()
        while (left_s := begun_s + self._renew_interval_s() - self._clock.monotonic_s()) > 0:
            await self._sleep_unless_hurried(left_s)
        while not await self.renew():
            await self._clock.sleep(RENEW_RETRY_S)
        if not self._held:
            self._holding.clear()

    def _renew_interval_s(self) -> float:
        return min(self._reliable_s.values()) * RENEW_SHARE

    async def _sleep_unless_hurried(self, seconds: float) -> None:
        """Sleep; wake early if a broker gives a lock for less time than all before."""
        self._hurried.clear()
        waits = (
            asyncio.ensure_future(self._clock.sleep(seconds)),
            asyncio.ensure_future(self._hurried.wait()),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def renew(self) -> bool:
        """Renew all used locks; return whether every broker answered."""
        idle = [queue for queue in self._held if not self._is_used(queue)]
        if idle:
            logger.warning("locks that nobody uses are given back: %s", idle)
            self._owe({queue: self._held.pop(queue).epoch for queue in idle})
        answered = await asyncio.gather(*map(self._renew_at, _broker_names(self._held)))
        for queue in list(self._held):
            self.stop_relying(queue)
        return all(answered)

    async def _renew_at(self, broker_name: str) -> bool:
        """Renew the locks of one broker's queues; return whether it answered."""
        async with self._turns[broker_name]:
            before = {
                queue: lock.epoch
                for queue, lock in self._held.items()
                if queue.broker_name == broker_name
            }
            if not before:
                return True
            queues = list(before)
            asked_s = self._clock.monotonic_s()
            try:
                broker = self._broker_named(broker_name)
                epochs, reliable_s = await self._calls.lock(broker, queues)
            except CallError as error:
                logger.info("locks of broker %s not renewed: %s", broker_name, error)
                return False
            good_until_s = self._good_until_s(broker_name, asked_s, reliable_s)
            for queue, epoch in before.items():
                self._take_renewal(queue, epoch, epochs.get(queue), good_until_s)
        return True

    def _good_until_s(self, broker_name: str, asked_s: float, reliable_s: float) -> float:
        """Until when locks of a broker are relied on; remembers the broker's time."""
        if reliable_s < min(self._reliable_s.values(), default=reliable_s):
            self._hurried.set()
        self._reliable_s[broker_name] = reliable_s
        return asked_s + reliable_s * RELIED_SHARE

    def _take_renewal(
        self, queue: MessageQueue, epoch: int, granted: int | None, good_until_s: float
    ) -> None:
        """Apply a broker's answer about one lock.

        Args:
            queue: The queue.
            epoch: Epoch of the lock that was to be renewed.
            granted: Epoch of the lock that this member has now; None without one.
            good_until_s: Until when it is relied on.
        """
        if self.epoch_of(queue) != epoch:
            if granted is not None:
                self._owe({queue: granted})  # The lock was given back, or lost, meanwhile.
        elif granted == epoch and self.holds(queue):
            self._held[queue] = HeldLock(epoch, good_until_s)
        elif granted == epoch:
            # A consumer that found it expired has stopped, and begins anew only with a new lock.
            logger.warning("the lock of %s was renewed too late", queue)
            self._lost(queue)
        else:
            # Also when the lock is ours again: another member may have had it in between.
            logger.warning("another member took over %s", queue)
            self._lost(queue)
            if granted is not None:
                self._owe({queue: granted})

    def _lost(self, queue: MessageQueue) -> None:
        self.lose(queue)
        self._on_lost(queue)

    def _owe(self, epochs: Mapping[MessageQueue, int]) -> None:
        self._owed.update(epochs)
        if self._owed:
            self._owing.set()

    async def _return(
        self, queues: Iterable[MessageQueue], *, among: Collection[MessageQueue]
    ) -> None:
        """Release owed locks; locks of unreachable brokers stay owed.

        Args:
            queues: What to release.
            among: These and others that may go with them, as of when it is their turn.
        """
        await asyncio.gather(*(self._return_at(name, among) for name in _broker_names(queues)))

    async def _return_at(self, broker_name: str, queues: Collection[MessageQueue]) -> None:
        async with self._turns[broker_name]:
            # Some may have been acquired anew meanwhile.
            epochs = {
                queue: epoch
                for queue, epoch in self._owed.items()
                if queue in queues and queue.broker_name == broker_name
            }
            self._given.difference_update(epochs)
            if not epochs:
                return
            try:
                await self._calls.unlock(self._broker_named(broker_name), epochs)
            except CallError as error:
                logger.info("locks of broker %s are given back later: %s", broker_name, error)
                return
            for queue, epoch in epochs.items():
                if self._owed.get(queue) == epoch:
                    del self._owed[queue]


def _broker_names(queues: Iterable[MessageQueue]) -> list[str]:
    return sorted({queue.broker_name for queue in queues})
