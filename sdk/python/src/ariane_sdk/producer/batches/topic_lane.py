"""One topic as a producer sees it: its route, and the batches that are open for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, TypeAlias

from ariane_record.encoding.plain_topic import PlainTopic
from ariane_sdk.checks.demand import Demand
from ariane_sdk.errors import (
    IllegalArgument,
    QueueNotFound,
    QueueOrderUnknown,
    SendError,
)
from ariane_sdk.message import Message, MessageQueue, SendResult
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.queue_choice import (
    SPREAD_SHARES_MAX,
    CallFlow,
    GroupQueues,
    StickyRoundRobin,
)
from ariane_sdk.producer.batches.send_batch import ChooseQueue
from ariane_sdk.producer.batches.singles_batch import SinglesBatch
from ariane_sdk.producer.sending.latency import BrokerLatencies, LeastLatency
from ariane_sdk.routing.route import Route

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of a topic's writable queues, which come sorted."""


class QueueWish(NamedTuple):
    """What the sender of a message wants of it; at most one of the first two is given.

    Attributes:
        message_queue: This one.
        selector: The one that this function chooses.
        demand: How safe it must be; nothing more than the broker promises if there is none.
    """

    message_queue: MessageQueue | None = None
    selector: QueueSelector | None = None
    demand: Demand | None = None

    @property
    def names_queue(self) -> bool:
        """Whether it says where the message must go."""
        return self.message_queue is not None or self.selector is not None


NO_WISH = QueueWish()


def wish_of(
    message_queue: MessageQueue | None,
    selector: QueueSelector | None,
    demand: Demand | None = None,
) -> QueueWish:
    """What the sender of a message wants of it."""
    if message_queue is None and selector is None and demand is None:
        return NO_WISH
    return QueueWish(message_queue, selector, demand)


class ParkedMessage(NamedTuple):
    """A message whose topic has no known route yet."""

    message: Message
    wish: QueueWish
    future: asyncio.Future[SendResult] | None
    size_bytes: int


class TopicLane:
    """Queue choice and open batches of one topic.

    Attributes:
        topic: The topic.
        choose_queue: ``next_queue`` of whatever route there is then, as one object for all batches.
        next_queue: Chooses the queue of the next batch that any queue will do for, preferably on a
            broker that the given function welcomes; raises SendError if no broker takes messages.
        has_several_queues: Whether batches for no particular queue can go to one while another is
            in use.
        plain: What its plain messages have in common.
        bundle: The bundle that takes its plain messages, if it is still open; or nothing.
        row: Its row there.
        route: Where its queues are; nothing until a name server has told.
        open_unpinned: The batch that takes the next message for no particular queue.
        open_shares: The batches among which messages for no particular queue are spread, by the
            queue they go to and kind of delay.
        open_pinned: The batches of those for a particular queue.
        open_delayed: The batches of delayed messages, by queue (or none) and kind of delay.
        parked: Messages that wait for the route.
        parked_groups: Messages of message groups that wait for the order of queues.
        route_task: Asks for the route.
        order_task: Asks for the order of queues.
        groups_held: Whether message groups stay in the queues where they were, whatever the route
            says now: earlier messages are on their way there.
        turn: Who takes many messages at once for the topic; later calls must not overtake it.
        flow: Tells whether large sends come one after the other.
        singles_flow: The same of shares of single sends.
        refusal: Why there is no route.
    """

    __slots__ = (
        "_group_queues",
        "_last_group_queues",
        "_latencies",
        "_queue_count",
        "_sticky_first",
        "bundle",
        "choose_queue",
        "flow",
        "groups_held",
        "has_several_queues",
        "next_queue",
        "open_delayed",
        "open_pinned",
        "open_shares",
        "open_unpinned",
        "order_task",
        "parked",
        "parked_groups",
        "plain",
        "refusal",
        "route",
        "route_task",
        "row",
        "singles_flow",
        "topic",
        "turn",
    )

    def __init__(
        self,
        topic: str,
        *,
        id_digits: int = 0,
        sticky_first: int,
        latencies: BrokerLatencies | None = None,
    ) -> None:
        """Know nothing but the name.

        Args:
            topic: The topic.
            id_digits: Length of the unique ids of messages, for who makes messages.
            sticky_first: Where the round through the queues begins; any number.
            latencies: What is known of brokers, if the slow are to be passed over.
        """
        self.topic = topic
        self.choose_queue: ChooseQueue = self._choose_queue
        self.next_queue: ChooseQueue = self._refuse
        self.has_several_queues = False
        self.plain = PlainTopic(topic, id_bytes=id_digits)
        self.bundle: Bundle | None = None
        self.row = 0
        self.route: Route | None = None
        self.open_unpinned: SinglesBatch | None = None
        self.open_shares: dict[tuple[MessageQueue, int], SinglesBatch] = {}
        self.open_pinned: dict[MessageQueue, SinglesBatch] = {}
        self.open_delayed: dict[tuple[MessageQueue | None, int], SinglesBatch] = {}
        self.parked: list[ParkedMessage] = []
        self.parked_groups: list[ParkedMessage] = []
        self.route_task: asyncio.Task[None] | None = None
        self.order_task: asyncio.Task[None] | None = None
        self.refusal: SendError | None = None
        self.groups_held = False
        self.turn = asyncio.Lock()
        self.flow = CallFlow()
        self.singles_flow = CallFlow(SPREAD_SHARES_MAX)
        self._sticky_first = sticky_first
        self._latencies = latencies
        self._queue_count = 0
        self._group_queues: GroupQueues | None = None
        self._last_group_queues: GroupQueues | None = None

    def follow(self, route: Route) -> None:
        """Choose from the queues of this route from now on; open batches go where they were to."""
        self.route = route
        self.open_shares.clear()
        queues = route.write_queues
        self._queue_count = len(queues)
        self.has_several_queues = len(queues) > 1
        if not queues:
            self.next_queue = self._refuse
        elif self._latencies is None:
            self.next_queue = StickyRoundRobin(queues, self._sticky_first).move_on
        else:
            self.next_queue = LeastLatency(queues, self._sticky_first, self._latencies).move_on
        if not self.groups_held:
            self.follow_groups()
        elif self._group_queues is None:
            # For a moment there were none; earlier messages are still on their way to these.
            self._group_queues = self._last_group_queues

    def follow_groups(self) -> None:
        """Choose queues of message groups by the route, too."""
        self.groups_held = False
        queues = self.route.group_queues if self.route is not None else ()
        self._group_queues = GroupQueues(queues) if queues else None
        if self._group_queues is not None:
            self._last_group_queues = self._group_queues

    def close_pinned(self) -> None:
        """Have what comes now for a particular queue begin a batch of its own."""
        self.open_pinned.clear()
        self.open_delayed.clear()

    @property
    def group_queues(self) -> Sequence[MessageQueue]:
        """The sorted queues among which message groups are divided now; none if nobody knows."""
        return () if self._group_queues is None else self._group_queues.queues

    def share_count(self, count: int, count_min: int) -> int:
        """How many of so many messages go to one queue, so that all queues get some.

        Not fewer than the second number; 0 if they are not to be spread.
        """
        if not count_min or not self._queue_count:
            return count
        shares = max(1, min(self._queue_count, count // count_min))
        return -(-count // shares)

    @property
    def groups_wait(self) -> bool:
        """Whether messages of message groups must wait for the order of queues.

        Also while earlier ones still do: none may overtake them.
        """
        waiting = self.order_task is not None or bool(self.parked_groups)
        return waiting or (self.route is not None and self.route.groups_wait)

    def check_groups(self) -> None:
        """See that message groups may have queues.

        Raises:
            QueueOrderUnknown: Nobody can tell to which queues they belong.
        """
        if self.groups_wait:
            raise self._order_unknown()

    def pinned_queue(self, message: Message, wish: QueueWish) -> MessageQueue | None:
        """The queue that a message must go to, or nothing when any will do.

        Raises:
            IllegalArgument: The queue is of another topic.
            QueueNotFound: The route has no such queue to write.
            QueueOrderUnknown: Nobody can tell to which queue its message group belongs.
            SendError: No broker takes messages for the topic.
        """
        queue = wish.message_queue
        if queue is None and wish.selector is not None:
            queue = wish.selector(self._write_queues(), message)
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

    def _choose_queue(self, is_welcome: Callable[[str], bool]) -> MessageQueue:
        return self.next_queue(is_welcome)

    def _refuse(self, _: Callable[[str], bool]) -> NoReturn:
        raise self._refusal()

    def _write_queues(self) -> Sequence[MessageQueue]:
        return self.route.write_queues if self.route is not None else ()

    def _order_unknown(self) -> QueueOrderUnknown:
        cause = "no name server that answers was told the order of its queues (ariane topic order)"
        if self.route is not None and self.route.provisional:
            cause = (
                "name servers have just started and may not know it yet; create it, or try later"
            )
        return QueueOrderUnknown(
            f"topic {self.topic!r}: nobody knows to which queues message groups belong: {cause}",
            retriable=True,
            metadata={"topic": self.topic},
        )

    def _refusal(self) -> SendError:
        return SendError(
            f"no broker takes messages for topic {self.topic!r} now",
            reason="TOPIC_NOT_WRITABLE",
            retriable=True,
            metadata={"topic": self.topic},
        )
