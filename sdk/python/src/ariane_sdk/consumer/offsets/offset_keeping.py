"""Where the offsets of a consumer are kept: in the brokers, or in a file of the client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ariane_sdk.client.broker_calls import BrokerCalls, OffsetEpochs
from ariane_sdk.client.caution import NO_CAUTION, Caution, InWork
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute


class OffsetKeeping(Protocol):
    """Keeps consumer offsets of one group."""

    async def load(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, QueuePosition]:
        """The offsets that are kept for queues of a broker; others are left out.

        Raises:
            CallError: Nobody can tell now.
        """
        ...

    async def store(
        self,
        broker: BrokerRoute,
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,
    ) -> dict[MessageQueue, CallError]:
        """Keep offsets of queues of a broker.

        Args:
            broker: The broker.
            offsets: The next queue offset to be consumed, by queue.
            durable: Whether to return only once they are on a disk.

        Returns:
            Why some were refused; empty when all are kept.

        Raises:
            CallError: None may be kept.
        """
        ...

    def caution_of(self, queue: MessageQueue) -> Caution:
        """What to beware of in a queue, as of the last ``load``."""
        ...

    def note_cut(self, queue: MessageQueue, kept: QueuePosition) -> None:
        """Note that a queue has lost its end.

        Args:
            queue: The queue.
            kept: Up to where an offset that was known before means what it did.
        """
        ...

    async def tell(
        self, broker: BrokerRoute, queue: MessageQueue, position: QueuePosition, in_work: InWork
    ) -> CallError | None:
        """Keep the offset of one queue, and say what is in work there.

        Returns:
            Why that was refused; nothing when it was heard.

        Raises:
            CallError: It may not have been heard.
        """
        ...


class BrokerOffsets:
    """Offsets of a clustering group: each broker keeps those of its queues.

    What is stored carries the epochs that fence it: of the lock of a queue that is consumed in
    order, of the last reset that this consumer knows of, so that it does not undo a newer one, and
    of the log that the messages were read from, which may have lost its end since.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        *,
        group: str,
        client_id: str,
        lock_epoch_of: Callable[[MessageQueue], int | None] = lambda _: None,
    ) -> None:
        """Keep nothing here.

        Args:
            calls: Asks the brokers.
            group: The consumer group.
            client_id: The consumer.
            lock_epoch_of: The epoch of the lock of a queue; nothing if there is none.
        """
        self._calls = calls
        self._group = group
        self._client_id = client_id
        self._lock_epoch_of = lock_epoch_of
        self._reset_epochs: dict[MessageQueue, int] = {}
        self._cautions: dict[MessageQueue, Caution] = {}

    async def load(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, QueuePosition]:
        """The offsets that the broker keeps."""
        known = await self._calls.known_offsets(broker, self._group, queues)
        offsets: dict[MessageQueue, QueuePosition] = {}
        for queue, entry in known.items():
            self._reset_epochs[queue] = entry.reset_epoch
            self._cautions[queue] = entry.caution
            if entry.queue_offset is not None:
                offsets[queue] = QueuePosition(entry.queue_offset, entry.log_epoch)
        return offsets

    async def store(
        self,
        broker: BrokerRoute,
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,
    ) -> dict[MessageQueue, CallError]:
        """Have the broker keep offsets."""
        return await self._store(broker, offsets, durable=durable)

    def caution_of(self, queue: MessageQueue) -> Caution:
        """What the broker said of a queue."""
        return self._cautions.get(queue, NO_CAUTION)

    def note_cut(self, queue: MessageQueue, kept: QueuePosition) -> None:
        """Nothing: the broker keeps no offset beyond its own log."""

    async def tell(
        self, broker: BrokerRoute, queue: MessageQueue, position: QueuePosition, in_work: InWork
    ) -> CallError | None:
        """Tell the broker what is in work."""
        refused = await self._store(broker, {queue: position}, in_work=in_work)
        return refused.get(queue)

    async def _store(
        self,
        broker: BrokerRoute,
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,
        in_work: InWork | None = None,
    ) -> dict[MessageQueue, CallError]:
        return await self._calls.store_offsets(
            broker,
            self._group,
            {queue: position.queue_offset for queue, position in offsets.items()},
            client_id=self._client_id,
            durable=durable,
            epochs={
                queue: OffsetEpochs(
                    self._lock_epoch_of(queue), self._reset_epochs.get(queue), position.log_epoch
                )
                for queue, position in offsets.items()
            },
            in_work=in_work,
        )
