"""A lane: the calls of a group that want the same messages, and where there may be some for them.

::

    first call     looks at all queues, some in each turn; each is watched from that turn on
    arrived        queue 7 | queue 3 |            something has happened there since
    waiting calls  A B C                          A is served from queue 7, then from queue 3, ...

A queue is noted when messages come that the lane wants, when messages of it become visible or are
settled, and when a look has not found all that is in it. So a waiting call looks at these queues
only, however many the topics have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from ariane_broker.filters.filter import interest_of
from ariane_broker.log.held_requests import HeldRequests, Watch
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.receive_order import HandedOut, ReceiveOrder
from ariane_servicekit import AnswerLease
from ariane_servicekit.errors import ServiceError
from ariane_storage.errors import StorageError
from ariane_storage.reading.filter import Filter

Filters = Mapping[str, Filter | None]


@dataclass(slots=True, eq=False)
class Waiter:
    """A waiting call."""

    number: int
    """Grows with every call of the group that waits."""
    order: ReceiveOrder
    """Its order."""
    filters: Filters
    """The filter of each topic; None: all messages."""
    lease: AnswerLease
    """Memory for its answer."""
    watch: Watch = field(default_factory=Watch)
    """Ends its wait."""
    served: list[HandedOut] = field(default_factory=list)
    """The messages handed out to it."""
    failure: ServiceError | StorageError | None = None
    """The error that it raises."""
    crowded: bool = False
    """Whether there was no memory for its answer at its turn."""


class Lane:
    """The calls of a group that want the same messages."""

    def __init__(
        self,
        held: HeldRequests,
        wanted: object,
        filters: Filters,
        on_arrival: Callable[[], None],
    ) -> None:
        """Begin without queues; ``on_arrival`` is called in each turn in which one is noted.

        ``wanted`` is what its calls have in common.
        """
        self.wanted = wanted
        """What its calls have in common."""
        self.waiters: dict[Waiter, None] = {}
        """The calls that wait, in the order in which they came."""
        self.user_count = 0
        """Calls that look at queues or wait."""
        self._held = held
        self._filters = filters
        self._on_arrival = on_arrival
        self._watch = held.watch({}, on_arrival)

    @property
    def is_due(self) -> bool:
        """Whether there may be something for a call that waits."""
        return bool(self.waiters and self._watch.arrived)

    @property
    def first(self) -> Waiter:
        """The call that has waited longest."""
        return next(iter(self.waiters))

    def watch(self, queues: Iterable[QueueKey]) -> None:
        """Note arrivals in some queues from now on; a look in this same turn misses nothing."""
        known = self._watch.queues
        fresh = {
            queue: interest_of(self._filters.get(queue.topic))
            for queue in queues
            if queue not in known
        }
        if fresh:
            self._held.watch_also(self._watch, fresh)

    def note(self, queues: Iterable[QueueKey]) -> None:
        """Note that there may be something in queues, those that are the lane's."""
        mine = [queue for queue in queues if queue in self._watch.queues]
        if mine:
            self.put_back(mine)
            self._on_arrival()

    def take(self, count: int) -> list[QueueKey]:
        """Take the queues that were noted first, ``count`` at most, to look at them."""
        arrived = self._watch.arrived
        queues = list(islice(arrived, count))
        for queue in queues:
            del arrived[queue]
        return queues

    def put_back(self, queues: Iterable[QueueKey]) -> None:
        """Note that there may be more in queues that were looked at, behind all others."""
        self._watch.arrived.update(dict.fromkeys(queues))

    def close(self) -> None:
        """Note no arrivals any more."""
        self._held.forget(self._watch)
