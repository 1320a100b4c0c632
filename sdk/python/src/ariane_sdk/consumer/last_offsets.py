"""The offset of a queue that a consumer gives up: there its next owner begins.

Nobody else knows it. So it is stored again until replicas have it, too: the primary may die before
the next owner has asked for it.

The next owner waits while the broker has no primary, so this one does, too. What a replica gave
meanwhile may be of an epoch that this consumer does not know: it is stored once the primary has
taken the offset before that, and so has found that its log lost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue, position_to_store
from ariane_sdk.consumer.offsets.offset_keeping import OffsetKeeping
from ariane_sdk.consumer.pulling.pulled import LOST_REASONS
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.failover import PATIENCE_S, Failover
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

RETRY_S: Final = 1.0
"""Delay before it is stored again."""

FULL_REASON: Final = "STORE_FULL"
"""The primary has the offset in memory: nobody waits until its disk has room."""


class LastOffsets:
    """Stores the last offsets of a consumer's queues."""

    def __init__(
        self,
        keeping: OffsetKeeping,
        broker_of: Callable[[MessageQueue], BrokerRoute],
        failover: Failover,
        clock: Clock,
    ) -> None:
        self.is_closing = False
        """Whether the consumer closes: then nobody is waited for."""
        self._keeping = keeping
        self._broker_of = broker_of
        self._failover = failover
        self._clock = clock

    async def store(self, owned: OwnedQueue, done_offset: int) -> None:
        """Store the last offset of a queue; a failure is logged.

        Args:
            owned: The queue.
            done_offset: Up to where it is done, exclusive.
        """
        position = position_to_store(owned, done_offset)
        try:
            await self._store(owned.queue, position)
            if position.queue_offset < done_offset:
                await self._store(owned.queue, QueuePosition(done_offset, 0))
        except CallError as error:
            logger.warning("the last offset of %s is not stored: %s", owned.queue, error)

    async def _store(self, queue: MessageQueue, position: QueuePosition) -> None:
        """Store a position; raises ``CallError`` if it is refused, or nobody takes it for long."""
        deadline_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            try:
                broker = self._broker_of(queue)
                refused = await self._keeping.store(broker, {queue: position}, last=True)
                for error in refused.values():
                    raise error
            except CallError as error:
                late = self.is_closing or self._clock.monotonic_s() > deadline_s
                is_final = error.reason in {*LOST_REASONS, FULL_REASON}
                if late or is_final or not (error.retriable or error.outcome_unknown):
                    raise
                self._failover.note(error, [queue.topic])
            else:
                return
            await self._clock.sleep(RETRY_S)
