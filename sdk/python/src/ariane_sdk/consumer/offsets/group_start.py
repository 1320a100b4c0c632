"""Where a group begins in queues in which it has no offset.

::

    the group has an offset in ...
    the queue                 there
    the topic, at any broker  at the first message: the queue was added while the group was away
    neither                   at the start position, in all queues of the topic at once
    it is not known           as if it was in the topic, after a while: a broker of the topic is
                              away that may have it. A file of offsets has those of all brokers

All members that find a topic new to the group begin it in all queues, and a broker takes only the
first beginning of each queue. So members that start together agree, and a queue without an offset
is a new one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Final

from ariane.broker.v1.pull_service_pb2 import TIME_BOUNDARY_LOWER
from ariane_record.names import retry_topic
from ariane_sdk.client.broker_calls import BrokerCalls
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.offsets.offset_keeping import OffsetKeeping
from ariane_sdk.consumer.offsets.start_position import StartPosition, start_offsets
from ariane_sdk.errors import CallError, ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

BEGIN_S: Final = 1.0
"""How long another member may take to begin at all brokers of a topic. Only after that is a queue
without an offset taken for a new one."""

AWAY_WAIT_S: Final = 60.0
"""How long a group without an offset waits for a broker of the topic that is away and may have one.
A restart takes less. After that its messages count as wanted: again is better than never."""


class GroupStart:
    """The beginnings of one group, as one of its consumers decides them. Lives on one loop."""

    def __init__(
        self,
        calls: BrokerCalls,
        keeping: OffsetKeeping,
        cached_route: Callable[[str], Route | None],
        *,
        group: str,
        start: StartPosition,
        clock: Clock,
    ) -> None:
        """``start`` is for topics that are new to the group; "latest" means from now on."""
        self._calls = calls
        self._keeping = keeping
        self._cached_route = cached_route
        self._returning = retry_topic(group)
        self._start = start
        self._clock = clock
        self._born_s = clock.monotonic_s()
        self._first_queues: dict[str, Collection[MessageQueue]] = {}
        self._consumed_s: dict[str, float] = {}
        """When each topic was first seen to have offsets of the group."""
        self._doubted_s: dict[str, float] = {}
        """Since when it is not known whether it has."""
        self._opened: dict[str, Collection[MessageQueue]] = {}
        """The queues of topics that were new to the group, and in which this consumer began it."""
        self._opened_without: dict[str, AbstractSet[str]] = {}
        """Names of the brokers of these topics that were away then."""
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def note_topics(self, topics: AbstractSet[str]) -> None:
        """Note the queues of topics that are new to this consumer."""
        for topic in topics - self._first_queues.keys():
            # All queues of a topic that does not exist yet are new later.
            self._first_queues[topic] = frozenset(self._queues(topic))

    async def begin(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> tuple[dict[MessageQueue, QueuePosition], set[MessageQueue]]:
        """The offsets to begin at in queues of one broker; new ones are stored before.

        A stored offset of the group always counts. Unknown offsets are read from the broker, never
        guessed.

        Returns:
            The queue offsets, and queues that the broker does not know. A queue that is in neither
            is to be asked for again, also if only another broker of its topic did not answer.

        Raises:
            CallError: A broker of a topic refused or did not answer, and the group has no offset in
                any of the queues.
        """
        offsets = await self._keeping.load(broker, queues)
        for queue in offsets:
            self._see_consumed(queue.topic)
        missing: dict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            if queue not in offsets:
                missing[queue.topic].append(queue)
        unknown: set[MessageQueue] = set()
        for topic, fresh in missing.items():
            try:
                async with self._turns[topic]:
                    unknown.update(set(fresh) & await self._begin(broker, topic, fresh))
            except CallError as error:
                if not offsets:
                    raise
                # A topic that is new to the group must not hold up those that it consumes.
                logger.info("the group begins later in queues of %s: %s", topic, error)
        if missing:
            left = [queue for queue in queues if queue not in offsets and queue not in unknown]
            offsets |= await self._keeping.load(broker, left)
        return offsets, unknown

    async def _begin(
        self, broker: BrokerRoute, topic: str, fresh: Sequence[MessageQueue]
    ) -> set[MessageQueue]:
        """Begin in queues without an offset, or leave them for later; return unknown ones."""
        if topic == self._returning or self._start == "earliest":
            # Messages of the retry topic were the group's before, so all of them count.
            return await self._begin_at(broker, dict.fromkeys(fresh, "earliest"))
        if topic in self._opened:
            # The broker could not be asked then; or all queues were made anew.
            starts = {q: self._start_in(q, late=True) for q in fresh}
            return await self._begin_at(broker, starts)
        if not await self._is_consumed(topic):
            return await self._open(broker, topic, fresh)
        if self._clock.monotonic_s() - self._see_consumed(topic) < BEGIN_S:
            return set()
        return await self._begin_at(broker, dict.fromkeys(fresh, "earliest"))

    async def _is_consumed(self, topic: str) -> bool:
        """Whether the group has an offset in any queue of a topic, or had one."""
        if topic in self._consumed_s:
            return True
        route = self._cached_route(topic)
        by_broker = () if route is None else _by_broker(route)
        try:
            known = await asyncio.gather(*(self._keeping.has_any(*each) for each in by_broker))
        except CallError:
            self._doubted_s.setdefault(topic, self._clock.monotonic_s())
            raise
        if any(known):
            return True
        away = frozenset() if route is None or self._keeping.knows_all else route.away_brokers
        return bool(away) and self._is_assumed(topic, ", ".join(sorted(away)))

    def _is_assumed(self, topic: str, away: str) -> bool:
        """Assume that a group has offsets in a topic at brokers that are away, after a while.

        Raises:
            ServiceUnavailable: They may still come back.
        """
        now_s = self._clock.monotonic_s()
        since_s = self._doubted_s.setdefault(topic, now_s)
        if now_s - since_s < AWAY_WAIT_S:
            text = f"whether the group is new to {topic} is not known while {away} is away"
            if now_s == since_s:
                logger.warning("%s; waiting for up to %.0f s", text, AWAY_WAIT_S)
            raise ServiceUnavailable(text, retriable=True)
        logger.warning(
            "the group may have consumed %s at %s, which does not come back: where it has no offset"
            " it begins at the first message",
            topic,
            away,
        )
        return True

    def _see_consumed(self, topic: str) -> float:
        return self._consumed_s.setdefault(topic, self._clock.monotonic_s())

    async def _open(
        self, broker: BrokerRoute, topic: str, fresh: Sequence[MessageQueue]
    ) -> set[MessageQueue]:
        """Begin in all queues of a topic that is new to the group."""
        route = self._cached_route(topic)
        others = [] if route is None else _by_broker(route)
        begins = [
            self._begin_at(other, {queue: self._start_in(queue, late=False) for queue in queues})
            for other, queues in others
            if other.broker_name != broker.broker_name
        ]
        here = (q for q in self._queues(topic) if q.broker_name == broker.broker_name)
        own = dict.fromkeys((*fresh, *here))
        starts = {queue: self._start_in(queue, late=False) for queue in own}
        self._opened[topic] = frozenset({*self._queues(topic), *fresh})
        self._opened_without[topic] = frozenset() if route is None else route.away_brokers
        unknown, *failures = await asyncio.gather(
            self._begin_at(broker, starts), *begins, return_exceptions=True
        )
        for failure in failures:
            if isinstance(failure, CallError):
                logger.warning("the group begins later in queues of %s: %s", topic, failure)
            elif isinstance(failure, BaseException):
                raise failure
        if isinstance(unknown, BaseException):
            raise unknown
        return unknown

    def _start_in(self, queue: MessageQueue, *, late: bool) -> StartPosition | None:
        """The beginning in a queue of a topic that is new to the group; None: since this one began.

        A queue that was added since is wanted from its first message, one of a broker that was away
        then is none.
        """
        topic = queue.topic
        is_known = late and queue.broker_name in self._opened_without[topic]
        if late and not is_known and queue not in self._opened[topic]:
            return "earliest"
        first_queues = self._first_queues.get(queue.topic, ())
        late = late or queue not in first_queues or queue.topic in self._doubted_s
        if self._start == "latest" and late:
            return None
        return self._start

    async def _begin_at(
        self, broker: BrokerRoute, starts: dict[MessageQueue, StartPosition | None]
    ) -> set[MessageQueue]:
        """Let the group begin at start positions in queues of one broker; return unknown ones.

        Raises:
            CallError: The broker refused or did not answer.
        """
        begins: dict[MessageQueue, QueuePosition] = {}
        for topic, start in dict.fromkeys((q.topic, start) for q, start in starts.items()):
            found = await self._find(broker, topic, start)
            begins |= {
                queue: found[queue]
                for queue, wanted in starts.items()
                if queue in found and (queue.topic, wanted) == (topic, start)
            }
        if begins:
            await self._keeping.begin(broker, begins)
        return starts.keys() - begins.keys()

    async def _find(
        self, broker: BrokerRoute, topic: str, start: StartPosition | None
    ) -> dict[MessageQueue, QueuePosition]:
        if start is not None:
            return await start_offsets(self._calls, broker, topic, start)
        # By the broker's clock: the client's may differ. The answer is younger than its time.
        broker_time = await self._calls.broker_time(broker, topic)
        age = timedelta(seconds=self._clock.monotonic_s() - self._born_s)
        since = broker_time - age
        return await self._calls.queue_offsets_at(broker, topic, since, TIME_BOUNDARY_LOWER)

    def _queues(self, topic: str) -> Collection[MessageQueue]:
        route = self._cached_route(topic)
        return () if route is None else route.read_queues


def _by_broker(route: Route) -> list[tuple[BrokerRoute, list[MessageQueue]]]:
    queues: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in route.read_queues:
        queues[queue.broker_name].append(queue)
    return [
        (each, queues[each.broker_name]) for each in route.brokers if each.broker_name in queues
    ]
