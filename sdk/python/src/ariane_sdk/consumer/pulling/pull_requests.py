"""Requests of pulls: each queue gets as much as its window has room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ariane.broker.v1.pull_service_pb2 import PullPosition, PullRecordsRequest
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.pulling.pulled import projection_of
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.timestamps import duration_from

HOLD_S_IN_TURN: Final = 0.1
"""How long a pull is held while other queues wait for their turn."""

QueueKey: TypeAlias = tuple[str, int]
"""Topic and queue id."""


class Arrived(NamedTuple):
    """The answer for a queue while it is not taken in yet."""

    next_offset: int
    """Where the next pull begins."""
    message_count: int
    """Number of messages."""
    size_bytes: int
    """Bytes of their records."""
    log_epoch: int
    """The epoch of the broker's log when they were read."""


@dataclass(frozen=True, slots=True)
class PullRequests:
    """Makes the requests of one consumer."""

    plan: ConsumerPlan
    """What the consumer is to be; its filters may change."""
    lock_epoch_of: Callable[[MessageQueue], int | None]
    """The epoch of the lock of a queue; None without a lock."""

    def request(
        self,
        ready: Mapping[QueueKey, OwnedQueue],
        arrived: Mapping[QueueKey, Arrived],
        *,
        hold_s: float,
    ) -> PullRecordsRequest:
        """Make the request of a pull.

        Args:
            ready: The queues to be pulled.
            arrived: The answers that are not in the windows of their queues yet.
            hold_s: How long the broker holds it.
        """
        filters, settings = self.plan.filters, self.plan.settings
        topics = dict.fromkeys(topic for topic, _ in ready)
        return PullRecordsRequest(
            consumer_group=self.plan.group,
            client_id=self.plan.client_id,
            positions=[self._wanted(owned, arrived.get(key)) for key, owned in ready.items()],
            subscriptions=[filters[topic].to_wire(topic) for topic in topics if topic in filters],
            record_count_max=settings.pull_record_count_max,
            size_bytes_max=settings.pull_bytes_max,
            hold_duration=duration_from(hold_s),
            projection=projection_of(ready.values(), filters),
        )

    def _wanted(self, owned: OwnedQueue, arrived: Arrived | None) -> PullPosition:
        """Ask for as much of one queue as its window has room for."""
        window, settings = owned.window, self.plan.settings
        if owned.replica_begin is not None:
            # The broker judges whether its log still has what came before; no message is wanted.
            return PullPosition(
                topic=owned.queue.topic,
                queue_id=owned.queue.queue_id,
                queue_offset=owned.replica_begin,
                record_count_max=1,
                lock_epoch=self.lock_epoch_of(owned.queue),
                log_epoch=owned.log_epoch,
            )
        arrived = arrived or Arrived(window.next_pull_offset, 0, 0, owned.log_epoch)
        count_room = settings.queue_message_count_max - window.message_count
        span_room = settings.queue_span_max - window.span
        return PullPosition(
            topic=owned.queue.topic,
            queue_id=owned.queue.queue_id,
            queue_offset=arrived.next_offset,
            record_count_max=max(1, min(count_room, span_room) - arrived.message_count),
            size_bytes_max=settings.queue_bytes_max - window.size_bytes - arrived.size_bytes,
            lock_epoch=self.lock_epoch_of(owned.queue),
            log_epoch=arrived.log_epoch,
        )
