"""The queues that a consumer owns: taking over, pulling, work, giving up, and their offsets.

In order, a queue has one lock at its broker, and goes from one member to the next like this::

              falls to this member           its lock is held, its offset known
    not ours ─────────────────────> taken over ─────────────────────────────────> in work
        ^                            asked for     ^                                 |
        | its lock is given back,    every second  | still falls      falls to another
        | or owed to its broker         |          | to this one      one, or its lock is
        |                               v          |                  not good  |
        +──────────────────────────── not in use ──+                            v
                                          ^────── offset stored ───────── given up

Only "taken over" waits for other members, and that wait ends by itself: a member that gives a queue
up stores its offset and unlocks it within a time limit; if it does neither, its lock expires. Each
member computes the owner of a queue for itself, from the answers of brokers. Members that disagree
for a while, because they learn late of routes or of one another, wait for each other's locks
meanwhile; they agree with the first rebalance after all have the same facts.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from logging import INFO, WARNING
from typing import Final

from ariane.broker.v1.client_question_pb2 import ClientQueueState, QueueHold
from ariane_sdk.client.caution import Caution, InWork
from ariane_sdk.client.listener import LOOK_S
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.delivery.owned_queue import (
    MakeOwned,
    OwnedQueue,
    holds_of,
    position_to_store,
    state_of,
)
from ariane_sdk.consumer.delivery.standstill import StandstillWatch
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.consumer.group.queue_notices import QueueNotices
from ariane_sdk.consumer.last_offsets import LastOffsets
from ariane_sdk.consumer.offsets.group_start import GroupStart
from ariane_sdk.consumer.offsets.offset_keeping import OffsetKeeping
from ariane_sdk.consumer.pulling.pull_loops import PullLoops
from ariane_sdk.consumer.pulling.pulled import LOST_REASONS
from ariane_sdk.errors import ArianeError, CallError, ConsumerOffsetRefused
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.broker_addresses import broker_named, broker_of
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

STILL_LOCKED_REASONS: Final = frozenset({"CONSUMER_OFFSET_RESET", "QUEUE_CUT"})
"""Why a queue is dropped although its lock is good."""

ACQUIRE_RETRY_S: Final = 1.0
"""Delay before a broker is asked again for the offset to begin at."""

STORE_FAILURES_WARNED: Final = 3
"""After so many failures in a row to store offsets, one is logged as a warning."""


class OwnedQueues:
    """The queues of a consumer, in three states: being taken over, consumed, being given up."""

    def __init__(
        self,
        session: Session,
        plan: ConsumerPlan,
        *,
        keeping: OffsetKeeping,
        locks: QueueLocks | None,
        make_owned: MakeOwned,
        on_lost: Callable[[], None],
        on_fatal: Callable[[CallError], None],
        damaged_bodies: DamagedBodies,
    ) -> None:
        """Own nothing yet; ``locks`` is None unless queues are consumed in order.

        ``on_lost`` is called when a queue was dropped that may fall to this consumer again,
        ``on_fatal`` when the group does not let this consumer in any longer.
        """
        self.others_left_s: Callable[[str], float] = lambda _broker_name: 0.0
        """How long other members may still take to come back to a broker, which is named."""
        self._routes = session.routes
        self._failover = session.failover
        self._group = plan.group
        self._filters = plan.filters
        self._keeping = keeping
        self._last_offsets = LastOffsets(keeping, self.broker_of, session.failover, plan.clock)
        self._starts = GroupStart(
            session.calls,
            keeping,
            session.routes.cached,
            group=plan.group,
            start=plan.start,
            clock=plan.clock,
        )
        self._locks = locks
        self._make_owned = make_owned
        self._on_lost = on_lost
        self._settings = plan.settings
        self._notices = QueueNotices(plan.settings, locked=locks is not None)
        self._clock = plan.clock
        self._wanted: set[MessageQueue] = set()
        self._acquiring: set[MessageQueue] = set()
        self._forget_count = 0
        self._store_failures = 0
        self._owned: dict[MessageQueue, OwnedQueue] = {}
        self._releases: dict[MessageQueue, asyncio.Task[None]] = {}
        self._acquisitions: dict[asyncio.Task[None], None] = {}
        self._pull_loops = PullLoops(
            session,
            plan,
            locks=locks,
            on_lost=self.drop,
            on_fatal=on_fatal,
            damaged_bodies=damaged_bodies,
        )
        self._acquired = asyncio.Event()
        self._acquired.set()

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues in work."""
        return frozenset(self._owned)

    @property
    def lost_count(self) -> int:
        """How many damaged messages were passed over."""
        return self._pull_loops.lost_count

    def states(self) -> list[ClientQueueState]:
        """The report of the queues in work, for operators."""
        now_s = asyncio.get_running_loop().time()
        return [state_of(owned, now_s) for _, owned in sorted(self._owned.items())]

    def holds(self, broker_name: str) -> list[QueueHold]:
        """What is not handed out of the queues of a broker."""
        there = [each for each in self._owned.values() if each.queue.broker_name == broker_name]
        return holds_of(there, self._group, asyncio.get_running_loop().time())

    def find(self, queue: MessageQueue) -> OwnedQueue | None:
        """A queue in work."""
        return self._owned.get(queue)

    def uses(self, queue: MessageQueue) -> bool:
        """Whether a queue is in work, being taken over, or being given up."""
        acquired = queue in self._acquiring and queue in self._wanted
        return acquired or queue in self._owned or queue in self._releases

    def look_again(self) -> None:
        """Pull queues that want messages again."""
        for queue in self._owned:
            self._pull_loops.look_again_at(queue)

    def in_work(self) -> Iterable[OwnedQueue]:
        """All queues in work."""
        return self._owned.values()

    async def kept_offset(self, queue: MessageQueue) -> int | None:
        """The stored consumer offset of a queue; None if there is none.

        Raises:
            CallError: It cannot be read now.
        """
        return await self._keeping.kept(self.broker_of(queue), queue)

    def broker_of(self, queue: MessageQueue) -> BrokerRoute:
        """The broker of a queue.

        Raises:
            ServiceUnavailable: It is in no route now.
        """
        return broker_of(self._routes, queue)

    async def wait_acquired(self) -> None:
        """Wait until no queue is being taken over."""
        await self._acquired.wait()

    def change_to(self, wanted: Iterable[MessageQueue], *, handover_s: float) -> None:
        """Give up queues that are not wanted, and take over wanted ones.

        Args:
            wanted: The queues to own.
            handover_s: How long earlier owners may keep queues.
        """
        self._starts.note_topics(self._filters.keys())
        self._wanted = set(wanted)
        for queue in [queue for queue in self._owned if queue not in self._wanted]:
            self._give_up(queue, store=True)
        new = self._wanted - self._owned.keys() - self._acquiring
        by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in sorted(new):
            by_broker[queue.broker_name].append(queue)
        for broker_name, queues in by_broker.items():
            self._acquiring.update(queues)
            self._acquired.clear()
            take_over = self._take_over(queues, handover_s)
            task = start_task(take_over, f"take-over-{broker_name}")
            self._acquisitions[task] = None
            task.add_done_callback(self._acquisitions.pop)
        # Filters may have changed with the queues.
        self._pull_loops.look_again()

    def forget(self, queues: Iterable[MessageQueue]) -> None:
        """Drop queues without storing offsets: these were reset elsewhere."""
        self._forget_count += 1
        reset = set(queues)
        for queue in [queue for queue in self._owned if queue in reset]:
            self._give_up(queue, store=False)

    def drop(self, queue: MessageQueue, error: CallError | None = None) -> None:
        """Stop a queue at once that another member owns, or whose offset was reset.

        Also a queue that has lost its end, including messages before this consumer's position.

        Args:
            queue: The queue.
            error: The broker's error, if there was one.
        """
        if error is not None:
            logger.warning("%s is dropped: %s", queue, error)
        if error is not None and error.reason == "QUEUE_CUT":
            fields = error.metadata
            kept = QueuePosition(int(fields.get("end", 0)), int(fields.get("log_epoch", 0)))
            self._keeping.note_cut(queue, kept)
        if self._locks is not None and (error is None or error.reason not in STILL_LOCKED_REASONS):
            self._locks.lose(queue)
        if queue in self._owned:
            self._give_up(queue, store=False, timeout_s=0.0)
            self._on_lost()

    def caution_of(self, queue: MessageQueue) -> Caution:
        """The broker's advice for a queue, as of when it was taken over."""
        return self._keeping.caution_of(queue)

    async def report(self, queue: MessageQueue, consumer_offset: int, in_work: InWork) -> None:
        """Report the messages in work to the broker of a queue.

        Raises:
            CallError: The report failed; or the queue is lost, and dropped.
        """
        broker = self.broker_of(queue)
        owned = self._owned.get(queue)
        position = position_to_store(owned, consumer_offset)
        error = await self._keeping.report(broker, queue, position, in_work)
        if error is not None:
            if error.reason in LOST_REASONS and self._owned.get(queue) is owned:
                self.drop(queue, error)
            raise error

    async def watch_loop(self) -> None:
        """Warn of queues that stand still."""
        watch = StandstillWatch(self._group)

        async def look() -> None:
            await self._clock.sleep(LOOK_S)
            watch.look(self._owned.values(), self._clock.monotonic_s())

        await loop_for_ever(look, self._clock)

    async def store_loop(self) -> None:
        """Store offsets every few seconds."""
        await loop_for_ever(self._store_by_and_by, self._clock)

    async def _store_by_and_by(self) -> None:
        await self._clock.sleep(self._settings.offset_store_interval_s)
        try:
            await self.store(durable=False)
        except CallError as error:
            self._store_failures += 1
            # A broker that restarts is away for one turn or two. After that somebody should look:
            # whatever is consumed meanwhile comes again if this consumer ends.
            level = WARNING if self._store_failures == STORE_FAILURES_WARNED else INFO
            logger.log(level, "offsets of group %s are stored later: %s", self._group, error)
            self._failover.note(error, dict.fromkeys(queue.topic for queue in self._owned))
        else:
            self._store_failures = 0

    async def store(self, *, durable: bool, last: bool = False, broker_name: str = "") -> None:
        """Store the offsets that have changed, of one broker if it is named; or the ``last`` ones.

        Raises:
            ConsumerOffsetRefused: Some were refused; the others are stored.
            CallError: A broker did not store them; the others did.
        """
        by_broker: dict[str, dict[MessageQueue, QueuePosition]] = defaultdict(dict)
        for queue, owned in self._owned.items():
            consumer_offset = owned.done_offset
            has_changed = consumer_offset != owned.stored_offset or owned.is_doubted
            if broker_name in {"", queue.broker_name} and (durable or has_changed):
                by_broker[queue.broker_name][queue] = position_to_store(owned, consumer_offset)
        refused: dict[MessageQueue, CallError] = {}
        failures: list[BaseException] = []
        store = partial(self._store_together, durable=durable, last=last)
        for answer in await asyncio.gather(
            *map(store, by_broker.values()),
            return_exceptions=True,
        ):
            if isinstance(answer, BaseException):
                failures.append(answer)
            else:
                refused |= answer
        if failures:
            raise failures[0]
        if refused:
            raise ConsumerOffsetRefused(refused)

    async def store_queue(self, queue: MessageQueue) -> None:
        """Store the offset of one queue durably; a failure is logged, and it is stored later."""
        owned = self._owned.get(queue)
        if owned is None or (owned.done_offset == owned.stored_offset and not owned.is_doubted):
            return
        position = position_to_store(owned, owned.done_offset)
        try:
            await self._store_together({queue: position}, durable=True)
        except CallError as error:
            logger.warning("the offset of %s is stored later: %s", queue, error)

    def deliver_nothing_new(self) -> None:
        """Begin to give all queues up: the listener finishes what it has."""
        self._wanted = set()
        for owned in self._owned.values():
            owned.deliver_nothing_new()

    async def close(self) -> None:
        """Finish the messages in the listener, store offsets, and give all queues up."""
        self.deliver_nothing_new()
        self._last_offsets.is_closing = True
        for task in self._acquisitions:
            task.cancel()
        await asyncio.gather(*self._acquisitions, return_exceptions=True)
        timeout_s = self._settings.release_timeout_s
        await asyncio.gather(*(owned.release(timeout_s) for owned in self._owned.values()))
        await self._notices.lost(list(self._owned))
        await self._pull_loops.close()
        await asyncio.gather(*self._releases.values(), return_exceptions=True)
        try:
            await self.store(durable=True, last=True)
        except ArianeError as error:
            logger.warning("the last offsets of group %s may be lost: %s", self._group, error)
        for owned in [each for each in self._owned.values() if each.replica_begin is not None]:
            await self._last_offsets.store(owned, owned.done_offset)
        self._owned.clear()
        if self._locks is not None:
            await self._locks.give_back_all()

    async def _store_together(
        self, offsets: Mapping[MessageQueue, QueuePosition], *, durable: bool, last: bool = False
    ) -> dict[MessageQueue, CallError]:
        """Store offsets of queues of one broker; return the errors of refused ones."""
        broker = broker_named(self._routes, next(iter(offsets)).broker_name)
        asked = {queue: owned for queue in offsets if (owned := self._owned.get(queue)) is not None}
        # The application has gone back: by itself no consumer ever does.
        back = [
            queue
            for queue, owned in asked.items()
            if offsets[queue].queue_offset < (owned.stored_offset or 0)
        ]
        doubted = [owned for owned in asked.values() if owned.is_doubted]
        for owned in doubted:
            owned.is_doubted = False
        try:
            refused = await self._keeping.store(
                broker, offsets, durable=durable, last=last, back=back
            )
        except BaseException:
            for owned in doubted:
                owned.is_doubted = True
            raise
        for queue, error in refused.items():
            if error.reason not in LOST_REASONS:
                logger.warning("the offset of %s is not stored: %s", queue, error)
            elif self._owned.get(queue) is asked.get(queue):
                # Else it was given up meanwhile, and perhaps taken over again, under another lock.
                self.drop(queue, error)
        for queue, owned in asked.items():
            if queue not in refused:
                owned.stored_offset = offsets[queue].queue_offset
        return refused

    async def _take_over(self, queues: Sequence[MessageQueue], handover_s: float) -> None:
        """Read the offsets to begin at in queues of one broker, and begin."""
        unknown: set[MessageQueue] = set()
        try:
            await self._wait_for_others(queues, handover_s)
            releases = [self._releases[queue] for queue in queues if queue in self._releases]
            await asyncio.gather(*releases, return_exceptions=True)
            while missing := self._missing(queues, unknown):
                try:
                    # A queue that was given up meanwhile is begun again after that has ended.
                    ready = [queue for queue in missing if queue not in self._releases]
                    unknown.update(await self._begin(ready))
                except CallError as error:
                    logger.info("queues that are taken over later: %d: %s", len(missing), error)
                    self._failover.note(error, dict.fromkeys(queue.topic for queue in missing))
                # At once: two members that wait for each other's queues would wait for ever.
                await self._give_back_idle([q for q in queues if q not in self._wanted])
                if self._missing(queues, unknown):
                    await self._wait_for_others(queues, ACQUIRE_RETRY_S)
        finally:
            await self._give_back_idle(queues)
            self._acquiring.difference_update(queues)
            if not self._acquiring:
                self._acquired.set()
            if self._missing(queues, unknown):
                # It was wanted again while it was given back: no other member would take it over.
                self._on_lost()

    async def _wait_for_others(self, queues: Sequence[MessageQueue], wait_s: float) -> None:
        """Wait so long at least, and until others may have stored the offsets of wanted queues."""
        wait_s = max(wait_s, self.others_left_s(queues[0].broker_name))
        while wait_s > 0:
            await self._clock.sleep(wait_s)
            wait_s = self.others_left_s(queues[0].broker_name)
            if self._wanted.isdisjoint(queues):
                return

    async def _give_back_idle(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues that were locked while taking over and are not owned."""
        owned = self._owned.keys() | self._releases.keys()
        await self._give_back([queue for queue in queues if queue not in owned])

    def _missing(
        self, queues: Iterable[MessageQueue], unknown: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Queues that are wanted, not owned, and known to their broker."""
        left = self._wanted - self._owned.keys() - set(unknown)
        return [queue for queue in queues if queue in left]

    async def _begin(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Own queues of one broker; some may be locked by other members yet.

        Returns:
            Queues that the broker does not know.
        """
        if not queues:
            return ()
        broker = broker_named(self._routes, queues[0].broker_name)
        forgotten = self._forget_count
        if self._locks is not None:
            queues = await self._locks.acquire(broker, queues)
        offsets, unknown = await self._starts.begin(broker, queues)
        if forgotten != self._forget_count:
            return ()  # These offsets may be those from before a reset.
        ready = {
            queue: begin
            for queue, begin in offsets.items()
            # In doubt: its next message may have killed a member; the broker decides soon.
            if not self._keeping.caution_of(queue).in_doubt and queue not in self._owned
        }
        await self._notices.gained(list(ready))
        begun = forgotten == self._forget_count
        for queue, begin in ready.items():
            # Its lock may have been lost meanwhile; then it is requested again.
            locked = self._locks is None or self._locks.holds(queue)
            if begun and locked and queue in self._wanted and queue not in self._owned:
                self._own(queue, begin)
        await self._notices.lost([queue for queue in ready if queue not in self._owned])
        return unknown

    def _own(self, queue: MessageQueue, begin: QueuePosition) -> None:
        on_room = partial(self._pull_loops.look_again_at, queue)
        owned = self._make_owned(queue, begin.queue_offset, on_room)
        owned.log_epoch = begin.log_epoch
        owned.stored_offset = begin.queue_offset
        self._owned[queue] = owned
        owned.start()
        self._pull_loops.add(owned)

    def _give_up(self, queue: MessageQueue, *, store: bool, timeout_s: float | None = None) -> None:
        owned = self._owned.pop(queue)
        self._pull_loops.remove(queue)
        if timeout_s is None:
            timeout_s = self._settings.release_timeout_s
        release = self._release(owned, store=store, timeout_s=timeout_s)
        task = self._releases[queue] = start_task(release, f"release-{queue}")
        task.add_done_callback(lambda _: self._releases.pop(queue, None))

    async def _release(self, owned: OwnedQueue, *, store: bool, timeout_s: float) -> None:
        consumer_offset = await owned.release(timeout_s)
        await self._notices.lost([owned.queue], to_other=True)
        is_known = consumer_offset == owned.first_offset == owned.stored_offset
        try:
            if store and (owned.is_doubted or not is_known):
                await self._last_offsets.store(owned, consumer_offset)
        finally:
            await self._give_back([owned.queue])

    async def _give_back(self, queues: Iterable[MessageQueue]) -> None:
        """Let other members lock queues; their offsets are stored."""
        if self._locks is not None:
            await self._locks.give_back(queues)
