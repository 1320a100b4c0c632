"""A message queue that a consumer owns: its state, and the report of it to operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from ariane.broker.v1.client_question_pb2 import ClientQueueState, QueueHold
from ariane_sdk.client.hold import Hold
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.message_queue import MessageQueue


class OwnedQueue(Protocol):
    """One queue that a consumer owns: filled by pulls, emptied by a listener or by polls."""

    not_before_s: float
    """When the queue may be pulled again, by the monotonic clock."""
    log_epoch: int
    """Epoch of the broker's log at the last pull; 0 if unknown."""
    replica_begin: int | None
    """Where a replica stood in for a primary; None: nowhere. What it gave may be of a later epoch
    than ``log_epoch``, until a primary has found that its log still has what was before."""
    first_offset: int
    """Where this consumer began; who owned the queue before has had replicas store that."""
    stored_offset: int | None
    """The stored consumer offset; None if this consumer has stored none."""
    is_doubted: bool
    """Whether the broker may have lost the stored offset: it was away meanwhile."""
    window: QueueWindow
    """Messages that were pulled and are not finished."""
    pulled_s: float | None
    """When its last pull was answered, by the loop's time; None if never."""
    delivered_s: float | None
    """When the application last got messages of it, the same way."""

    @property
    def queue(self) -> MessageQueue:
        """The queue."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the application has paused it."""
        ...

    @property
    def hold(self) -> Hold | None:
        """Why nothing of it is handed out now; None if nothing holds it."""
        ...

    @property
    def released(self) -> bool:
        """Whether the queue is being given up: no more messages are handed out."""
        ...

    @property
    def wants_records(self) -> bool:
        """Whether the queue is to be pulled."""
        ...

    @property
    def done_offset(self) -> int:
        """The consumer offset that may be stored: all messages before it are done."""
        ...

    @property
    def in_flight_count(self) -> int:
        """Messages that the application has and has not finished."""
        ...

    @property
    def waiting_count(self) -> int:
        """Messages that wait for the application."""
        ...

    def start(self) -> None:
        """Begin to hand messages out."""
        ...

    def wake(self) -> None:
        """Note that messages have arrived in the window."""
        ...

    def deliver_nothing_new(self) -> None:
        """Begin to give the queue up."""
        ...

    async def release(self, timeout_s: float) -> int:
        """Give the queue up, and wait a while for messages in work.

        Returns:
            The consumer offset to be stored.
        """
        ...


MakeOwned: TypeAlias = Callable[[MessageQueue, int, Callable[[], None]], OwnedQueue]
"""Makes an owned queue. Arguments: the queue, the first queue offset to consume, and a function to
call when it may be pulled again."""


def position_to_store(owned: OwnedQueue | None, done_offset: int) -> QueuePosition:
    """The consumer offset that a broker can judge by the epoch of its log.

    Args:
        owned: The queue; None if it is not owned any more.
        done_offset: Up to where it is done, exclusive.
    """
    if owned is None:
        return QueuePosition(done_offset, 0)
    begin = owned.replica_begin
    return QueuePosition(done_offset if begin is None else min(done_offset, begin), owned.log_epoch)


def holds_of(owned_queues: Iterable[OwnedQueue], group: str, now_s: float) -> list[QueueHold]:
    """What is not handed out of queues; what holds all queues is said once."""
    held = [(owned.queue, hold) for owned in owned_queues if (hold := owned.hold) is not None]
    everywhere = {hold.reason: (queue, hold) for queue, hold in held if hold.everywhere}
    single = [(queue, hold) for queue, hold in held if not hold.everywhere]
    known = [*everywhere.values(), *single]
    return [hold.to_wire(group, queue, now_s) for queue, hold in known]


def state_of(owned: OwnedQueue, now_s: float) -> ClientQueueState:
    """How far a queue is, and what of it is unfinished."""
    queue, window = owned.queue, owned.window
    state = ClientQueueState(
        topic=queue.topic,
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        consumer_offset=owned.done_offset,
        next_pull_offset=window.next_pull_offset,
        in_flight_count=owned.in_flight_count,
        waiting_count=owned.waiting_count,
        size_bytes=window.size_bytes,
        paused=owned.paused,
    )
    if (oldest_ms := window.oldest_store_ms) is not None:
        state.oldest_store_time.FromMilliseconds(oldest_ms)
    if owned.pulled_s is not None:
        state.since_pull.FromMilliseconds(round((now_s - owned.pulled_s) * 1000))
    if owned.delivered_s is not None:
        state.since_delivery.FromMilliseconds(round((now_s - owned.delivered_s) * 1000))
    return state
