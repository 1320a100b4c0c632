"""One topic of a producer: its route, and its open rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

from ariane_record.encoding.message_properties import TopicProperties
from ariane_sdk.checks.demand import Demand
from ariane_sdk.errors import (
    CallError,
    IllegalArgument,
    QueueNotFound,
    QueueOrderUnknown,
    SendError,
)
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.row import ChooseQueue, Row
from ariane_sdk.producer.queues.latency import BrokerLatencies, LeastLatency
from ariane_sdk.producer.queues.queue_choice import CallFlow, GroupQueues, StickyRoundRobin
from ariane_sdk.routing.route import Route

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of a topic's writable queues, which come sorted."""


RowKey: TypeAlias = tuple[MessageQueue | None, int, Demand | None, bool]
"""What the messages of an open row have in common: their queue, or None for the row that takes the
next message for any queue; their kind of delay; the level that they must reach; and whether they
must go to that queue."""

PINNED: Final = True
MOVABLE: Final = False
"""The last part of a ``RowKey``."""


class SendOptions(NamedTuple):
    """What a sender demands of one send; at most one of the first two fields is given."""

    message_queue: MessageQueue | None = None
    """The queue that the message must go to."""
    selector: QueueSelector | None = None
    """A function that chooses that queue."""
    demand: Demand | None = None
    """The level to reach; None for the broker's own."""
    half_of: str = ""
    """The producer group of a half message; empty for every other message."""

    @property
    def names_queue(self) -> bool:
        """Whether the sender names the queue of the message."""
        return self.message_queue is not None or self.selector is not None


NO_OPTIONS = SendOptions()


def options_of(
    message_queue: MessageQueue | None,
    selector: QueueSelector | None,
    demand: Demand | None = None,
) -> SendOptions:
    """Collect what a sender demands of one send."""
    if message_queue is None and selector is None and demand is None:
        return NO_OPTIONS
    return SendOptions(message_queue, selector, demand)


class ParkedMessage(NamedTuple):
    """A message that waits for an answer of name servers."""

    message: Message
    options: SendOptions
    future: asyncio.Future[SendResult] | None
    size_bytes: int


class Parking:
    """The messages of a topic that wait for an answer, and the task that asks for it."""

    def __init__(self) -> None:
        self.messages: list[ParkedMessage] = []
        """The messages, in their order."""
        self.task: asyncio.Task[None] | None = None
        """The task; None while nothing is asked."""


PutNow: TypeAlias = Callable[
    ["TopicInfo", Message, SendOptions, "asyncio.Future[SendResult] | None"], Row
]
"""Puts a message into the open row of its queue, and returns the row."""


class TopicInfo:
    """Queue choice and open rows of one topic."""

    def __init__(
        self,
        topic: str,
        *,
        id_digits: int = 0,
        sequenced: bool = True,
        sticky_first: int,
        latencies: BrokerLatencies | None = None,
    ) -> None:
        """Start without a route; unique ids have ``id_digits``, and rows perhaps sequences.

        The round through the queues begins with ``sticky_first``, which may be any number. With
        ``latencies`` slow brokers are skipped.
        """
        self.topic = topic
        """The topic."""
        self.next_queue: ChooseQueue = self._refuse
        """Chooses the queue of the next row that is not pinned, if possible on a broker that the
        given function welcomes; raises SendError if no broker takes messages."""
        self.properties = TopicProperties(topic, id_bytes=id_digits, sequenced=sequenced)
        """Encodes the properties of its messages."""
        self.route: Route | None = None
        """The route; None until a name server has returned it."""
        self.row: Row | None = None
        """The row that takes the next message for any queue, at once and without a demand."""
        self.open_rows: dict[RowKey, Row] = {}
        """All other open rows, by what their messages have in common."""
        self.for_route = Parking()
        """What waits for the route."""
        self.for_order = Parking()
        """What waits for the order of queues: messages of message groups."""
        self.refusal: SendError | None = None
        """Why the topic has no route."""
        self.trouble: CallError | None = None
        """Why name servers, which are asked again, have not given the route yet."""
        self.groups_held = False
        """Whether message groups keep their old queues whatever the route says: earlier messages
        are still in flight there."""
        self.send_lock = asyncio.Lock()
        """Held by the call that sends many messages to the topic; later calls must not overtake
        it."""
        self.flow = CallFlow()
        """Counts large sends that follow one another."""
        self._sticky_first = sticky_first
        self._latencies = latencies
        self.queue_count = 0
        """Number of queues of the route that take messages."""
        self._group_queues: GroupQueues | None = None
        self._last_group_queues: GroupQueues | None = None

    def follow(self, route: Route) -> None:
        """Choose from the queues of this route from now on; open rows keep their queues."""
        self.route = route
        self._close_rows(pinned=False)
        queues = route.write_queues
        self.queue_count = len(queues)
        if not queues:
            self.next_queue = self._refuse
        elif self._latencies is None:
            self.next_queue = StickyRoundRobin(queues, self._sticky_first).move_on
        else:
            self.next_queue = LeastLatency(queues, self._sticky_first, self._latencies).move_on
        if not self.groups_held:
            self.follow_groups()
        elif self._group_queues is None:
            # The route had no queues for a moment; earlier messages are still in flight to the old
            # ones.
            self._group_queues = self._last_group_queues

    def follow_groups(self) -> None:
        """Let the queues of message groups follow the route, too."""
        self.groups_held = False
        queues = self.route.group_queues if self.route is not None else ()
        self._group_queues = GroupQueues(queues) if queues else None
        if self._group_queues is not None:
            self._last_group_queues = self._group_queues

    def close_pinned(self) -> None:
        """Close the rows of particular queues: the next message for one begins a new row."""
        self._close_rows(pinned=True)

    def _close_rows(self, *, pinned: bool) -> None:
        self.open_rows = {key: row for key, row in self.open_rows.items() if key[3] != pinned}

    @property
    def group_queues(self) -> Sequence[MessageQueue]:
        """The sorted queues among which message groups are divided; empty if unknown."""
        return () if self._group_queues is None else self._group_queues.queues

    def count_per_queue(self, count: int, count_min: int) -> int:
        """Number of messages for each queue when ``count`` messages are spread over the queues.

        At least ``count_min``. With 0 as ``count_min`` one queue gets all of them.
        """
        if not count_min or not self.queue_count:
            return count
        queue_count = max(1, min(self.queue_count, count // count_min))
        return -(-count // queue_count)

    @property
    def groups_wait(self) -> bool:
        """Whether messages of message groups must wait for the order of queues.

        They also wait while earlier ones still do: none may overtake another.
        """
        waiting = self.for_order.task is not None or bool(self.for_order.messages)
        return waiting or (self.route is not None and self.route.groups_wait)

    def check_groups(self) -> None:
        """Check that the queues of message groups can be known.

        Raises:
            QueueOrderUnknown: No name server knows the order of the queues.
        """
        if self.groups_wait:
            raise self._order_unknown()

    def pinned_queue(self, message: Message, options: SendOptions) -> MessageQueue | None:
        """Return the queue that a message must go to, or None if any will do.

        Raises:
            IllegalArgument: The queue is of another topic.
            QueueNotFound: The route has no such queue to write.
            QueueOrderUnknown: The queue of its message group is unknown.
            SendError: No broker takes messages for the topic.
        """
        queue = options.message_queue
        if queue is None and options.selector is not None:
            queue = options.selector(self._write_queues(), message)
        if queue is not None:
            if queue.topic != self.topic:
                raise IllegalArgument(f"{queue} is no queue of topic {self.topic!r}")
            if queue not in self._write_queues():
                raise QueueNotFound(f"the route has no queue {queue} to write", retriable=True)
            return queue
        if message.message_group:
            if self._group_queues is None:
                raise self._order_unknown() if self.groups_wait else self._refusal()
            return self._group_queues.queue_of(message.message_group)
        return None

    def choose_queue(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        """Call ``next_queue`` of the route that is current then."""
        return self.next_queue(is_welcome)

    def _refuse(self, _: Callable[[str], bool]) -> NoReturn:
        raise self._refusal()

    def _write_queues(self) -> Sequence[MessageQueue]:
        return self.route.write_queues if self.route is not None else ()

    def _order_unknown(self) -> QueueOrderUnknown:
        cause = "no name server that answers has the order of its queues (ariane topic order)"
        if self.route is not None and self.route.provisional:
            cause = (
                "name servers have just started and may not know it yet; create it, or try later"
            )
        return QueueOrderUnknown(
            f"topic {self.topic!r}: the queues of its message groups are unknown: {cause}",
            retriable=True,
            metadata={"topic": self.topic},
        )

    def _refusal(self) -> SendError:
        return SendError(
            f"no broker takes messages of topic {self.topic} now (ariane topic show {self.topic})",
            reason="TOPIC_NOT_WRITABLE",
            retriable=True,
            metadata={"topic": self.topic},
        )
