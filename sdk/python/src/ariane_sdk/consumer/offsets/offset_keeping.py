"""The storage of a consumer's offsets: in the brokers, or in a file of the client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ariane.broker.v1.offset_service_pb2 import (
    STORE_RULE_BEGIN,
    STORE_RULE_LAST,
    STORE_RULE_MOVE,
    StoreRule,
)
from ariane_sdk.client.broker_calls import BrokerCalls, OffsetEpochs
from ariane_sdk.client.caution import NO_CAUTION, Caution, InWork
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.errors import CallError
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.route import BrokerRoute


class OffsetKeeping(Protocol):
    """Stores the consumer offsets of one group."""

    knows_all: bool
    """Whether it has the offsets at all brokers itself, also at those that are away."""

    async def load(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, QueuePosition]:
        """The stored offsets of queues of a broker that are about to be taken over.

        Queues without one are left out.

        Raises:
            CallError: They cannot be read now.
        """
        ...

    async def kept(self, broker: BrokerRoute, queue: MessageQueue) -> int | None:
        """The stored offset of a queue of a broker, whoever has it; None without one.

        Raises:
            CallError: It cannot be read now.
        """
        ...

    async def store(
        self,
        broker: BrokerRoute,
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,
        last: bool = False,
        back: Collection[MessageQueue] = (),
    ) -> dict[MessageQueue, CallError]:
        """Store offsets of queues of a broker.

        Args:
            broker: The broker.
            offsets: The next queue offset to be consumed, by queue.
            durable: Whether to return only once they are on a disk.
            last: Likewise, and on those of replicas: this consumer gives the queues up.
            back: Queues in which this consumer has gone back. In all others a lower offset than the
                stored one changes nothing: a member that owns the queue now is further.

        Returns:
            The errors of refused ones; empty if all are stored.

        Raises:
            CallError: Possibly none is stored.
        """
        ...

    async def has_any(self, broker: BrokerRoute, queues: Sequence[MessageQueue]) -> bool:
        """Whether there is an offset in any of some queues of a broker.

        Raises:
            CallError: That is not known now.
        """
        ...

    async def begin(
        self, broker: BrokerRoute, offsets: Mapping[MessageQueue, QueuePosition]
    ) -> None:
        """Store offsets durably in queues of a broker that have none; leave the others as they are.

        Raises:
            CallError: Possibly none is stored.
        """
        ...

    def caution_of(self, queue: MessageQueue) -> Caution:
        """The broker's advice for a queue, as of the last ``load``."""
        ...

    def note_cut(self, queue: MessageQueue, kept: QueuePosition) -> None:
        """Note that a queue has lost its end.

        Args:
            queue: The queue.
            kept: Up to where earlier offsets still mean the same messages.
        """
        ...

    async def report(
        self, broker: BrokerRoute, queue: MessageQueue, position: QueuePosition, in_work: InWork
    ) -> CallError | None:
        """Store the offset of one queue, and report the messages in work there.

        Returns:
            The error of a refusal; None without one.

        Raises:
            CallError: The report may not have arrived.
        """
        ...


class BrokerOffsets:
    """Offsets of a clustering group: each broker stores those of its queues.

    Stored offsets carry the epochs that fence them: of the lock of a queue that is consumed in
    order; of the last reset that this consumer knows, so that it does not undo a newer one; and of
    the log that the messages were read from, which may have lost its end since.
    """

    knows_all = False

    def __init__(
        self,
        calls: BrokerCalls,
        *,
        group: str,
        client_id: str,
        lock_epoch_of: Callable[[MessageQueue], int | None] = lambda _: None,
    ) -> None:
        """``lock_epoch_of`` returns the epoch of a queue's lock; None without a lock."""
        self._calls = calls
        self._group = group
        self._client_id = client_id
        self._lock_epoch_of = lock_epoch_of
        self._reset_epochs: dict[MessageQueue, int] = {}
        self._cautions: dict[MessageQueue, Caution] = {}

    async def load(
        self, broker: BrokerRoute, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, QueuePosition]:
        """The offsets that the broker has."""
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
        last: bool = False,
        back: Collection[MessageQueue] = (),
    ) -> dict[MessageQueue, CallError]:
        """Let the broker store offsets."""
        rules = dict.fromkeys(offsets, STORE_RULE_LAST) if last else {}
        rules |= dict.fromkeys(back, STORE_RULE_MOVE)
        return await self._store(broker, offsets, durable=durable or last, rules=rules)

    async def kept(self, broker: BrokerRoute, queue: MessageQueue) -> int | None:
        """The offset that the broker has."""
        # Not by ``load``: epochs of queues in work must stay as they were when work began, or what
        # was consumed before a reset would count after it.
        return (await self._calls.stored_offsets(broker, self._group, [queue])).get(queue)

    async def has_any(self, broker: BrokerRoute, queues: Sequence[MessageQueue]) -> bool:
        """Whether the broker has an offset in any of the queues."""
        # Likewise.
        return bool(await self._calls.stored_offsets(broker, self._group, queues))

    async def begin(
        self, broker: BrokerRoute, offsets: Mapping[MessageQueue, QueuePosition]
    ) -> None:
        """Let the broker store offsets where the group has none."""
        await self._calls.store_offsets(
            broker,
            self._group,
            {queue: position.queue_offset for queue, position in offsets.items()},
            durable=True,  # A group that loses its begin is new again, or gets all old messages.
            epochs={
                queue: OffsetEpochs(log_epoch=position.log_epoch)
                for queue, position in offsets.items()
            },
            rules=dict.fromkeys(offsets, STORE_RULE_BEGIN),
        )

    def caution_of(self, queue: MessageQueue) -> Caution:
        """The broker's advice for a queue."""
        return self._cautions.get(queue, NO_CAUTION)

    def note_cut(self, queue: MessageQueue, kept: QueuePosition) -> None:
        """Do nothing: the broker stores no offset beyond its own log."""

    async def report(
        self, broker: BrokerRoute, queue: MessageQueue, position: QueuePosition, in_work: InWork
    ) -> CallError | None:
        """Report the messages in work to the broker."""
        refused = await self._store(broker, {queue: position}, in_work=in_work)
        return refused.get(queue)

    async def _store(
        self,
        broker: BrokerRoute,
        offsets: Mapping[MessageQueue, QueuePosition],
        *,
        durable: bool = False,
        in_work: InWork | None = None,
        rules: Mapping[MessageQueue, StoreRule.ValueType] = MappingProxyType({}),
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
            rules=rules,
        )
