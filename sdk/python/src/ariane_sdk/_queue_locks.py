"""The locks that a consumer in order holds on its queues, and for how long it may rely on them.

::

    asked ──── answered        asked again              the broker never answered:
    |<------- lock_life_s (30 s) ------->|  consume no more
    |<------------------ lease of the broker (60 s) ------------------>|  another member may own it

Time is counted from before the question, by a clock that never jumps, and a member relies on a lock
for less time than the broker keeps it. A process that was frozen for longer finds at its next look
that it holds nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ariane_sdk._clock import Clock
from ariane_sdk._log import logger
from ariane_sdk._message import MessageQueue
from ariane_sdk._route import BrokerRoute
from ariane_sdk._settings import ConsumerSettings
from ariane_sdk.errors import CallError

RENEW_RETRY_S: Final = 1.0
"""How long to wait before a broker that did not renew is asked again."""


class LockCalls(Protocol):
    """Asks brokers for locks."""

    async def lock(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> tuple[dict[MessageQueue, int], float]: ...

    async def unlock(self, broker: BrokerRoute, epochs: dict[MessageQueue, int]) -> None: ...


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock of one queue.

    Attributes:
        epoch: Comes along with every pull and every stored offset.
        good_until_s: Until when to rely on it, by the monotonic clock.
    """

    epoch: int
    good_until_s: float


class QueueLocks:
    """The queue locks of one consumer."""

    def __init__(
        self,
        calls: LockCalls,
        *,
        broker_of: Callable[[MessageQueue], BrokerRoute],
        on_lost: Callable[[MessageQueue], None],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        """Hold nothing yet.

        Args:
            calls: Asks brokers.
            broker_of: Where a queue is now; raises ``CallError`` when nobody knows.
            on_lost: Told of a queue that must not be consumed any longer.
            settings: How often to renew, and how long to rely on a lock.
            clock: Measures that.
        """
        self._calls = calls
        self._broker_of = broker_of
        self._on_lost = on_lost
        self._settings = settings
        self._clock = clock
        self._held: dict[MessageQueue, HeldLock] = {}

    def holds(self, queue: MessageQueue) -> bool:
        """Whether the queue may be consumed now."""
        lock = self._held.get(queue)
        return lock is not None and self._clock.monotonic_s() < lock.good_until_s

    def epoch_of(self, queue: MessageQueue) -> int | None:
        """The epoch of the lock of a queue; nothing if there is none."""
        lock = self._held.get(queue)
        return None if lock is None else lock.epoch

    async def acquire(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """Take what is free; the queues that are held now.

        Raises:
            CallError: The broker did not tell.
        """
        asked_s = self._clock.monotonic_s()
        epochs, lease_s = await self._calls.lock(broker, queues)
        good_until_s = asked_s + min(lease_s, self._settings.lock_life_s)
        for queue, epoch in epochs.items():
            self._held[queue] = HeldLock(epoch, good_until_s)
        return [queue for queue in queues if queue in epochs]

    async def give_back(self, broker: BrokerRoute, queues: Sequence[MessageQueue]) -> None:
        """Let others have queues at once; a broker that cannot be told finds out by itself."""
        epochs = {queue: self._held.pop(queue).epoch for queue in queues if queue in self._held}
        if not epochs:
            return
        try:
            await self._calls.unlock(broker, epochs)
        except CallError as error:
            logger.info("locks of %s expire by themselves: %s", broker.broker_name, error)

    def lose(self, queue: MessageQueue) -> None:
        """Somebody else owns the queue."""
        self._held.pop(queue, None)

    async def renew_by_and_by(self) -> None:
        """One round: wait until locks are to be renewed, and renew them."""
        await self._clock.sleep(self._settings.lock_renew_interval_s)
        while not await self.renew():
            await self._clock.sleep(RENEW_RETRY_S)

    async def renew(self) -> bool:
        """Renew all locks; whether every broker answered."""
        by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in self._held:
            by_broker[queue.broker_name].append(queue)
        answered = await asyncio.gather(*map(self._renew_at, by_broker.values()))
        now_s = self._clock.monotonic_s()
        for queue in [queue for queue, lock in self._held.items() if lock.good_until_s <= now_s]:
            logger.warning("the lock of %s was not renewed in time", queue)
            self._lost(queue)
        return all(answered)

    async def _renew_at(self, queues: Sequence[MessageQueue]) -> bool:
        before = {queue: self._held[queue].epoch for queue in queues}
        asked_s = self._clock.monotonic_s()
        try:
            epochs, lease_s = await self._calls.lock(self._broker_of(queues[0]), queues)
        except CallError as error:
            logger.info("locks of broker %s not renewed: %s", queues[0].broker_name, error)
            return False
        good_until_s = asked_s + min(lease_s, self._settings.lock_life_s)
        for queue, epoch in before.items():
            if self.epoch_of(queue) != epoch:
                continue  # Given back, or taken anew, meanwhile.
            if epochs.get(queue) == epoch and self.holds(queue):
                self._held[queue] = HeldLock(epoch, good_until_s)
            elif epochs.get(queue) == epoch:
                # Who found it no longer good has stopped, and only begins anew with a new lock.
                logger.warning("the lock of %s was renewed too late", queue)
                self._lost(queue)
            else:
                # Also when the lock is ours again: somebody may have had it in between.
                logger.warning("another member took over %s", queue)
                self._lost(queue)
        return True

    def _lost(self, queue: MessageQueue) -> None:
        self.lose(queue)
        self._on_lost(queue)
