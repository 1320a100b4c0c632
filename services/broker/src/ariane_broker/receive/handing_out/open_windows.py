"""Opening windows: the offset at which a group begins in a queue that is new to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.receive_order import ReceiveOrder
from ariane_broker.receive.in_hand.queue_window import QueueWindow
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class OpenWindows:
    """Opens windows."""

    store: Store
    log: ReceiveLog
    table: ReceiveTable
    offsets: ConsumerOffsets

    def begin(self, group: str, queues: Iterable[QueueKey]) -> int:
        """Begin the windows of queues that are new to a group, in one record of the log.

        Returns:
            Their number.

        Raises:
            StorageError: It could not be written.
        """
        beginnings = []
        for queue in self.table.without_window(group, queues):
            with suppress(QueueUnderRepair):
                low, _ = self.store.queue_bounds(*queue)
                beginnings.append(self._beginning(group, queue, self._begin(group, queue, low)))
        if beginnings:
            self.log.write(beginnings)
        return len(beginnings)

    def open(self, order: ReceiveOrder, queue: QueueKey) -> tuple[QueueWindow, int]:
        """The window of an order's group in a queue, which agrees with its consumer offset.

        Returns:
            The window, and the end of what can be read of the queue.

        Raises:
            StorageError: The beginning could not be written.
        """
        group = order.group
        low, end = self.store.queue_bounds(*queue)
        window = self.log.window(group, queue)
        if window is None:
            self.log.write([self._beginning(group, queue, self._begin(group, queue, low))])
            window = self.table.of_group(group)[queue.topic][queue.queue_id]
        if low:
            window.raise_floor(low)
        self.table.use(group, queue)
        return window, int(end)

    def _begin(self, group: str, queue: QueueKey, low: int) -> int:
        """The offset at which a group begins in a queue. All of a later added queue is wanted."""
        stored = self.offsets.find(group, queue)
        if stored is None:
            return low
        # The earlier primary may have handed out messages that are not confirmed here yet.
        return min(max(stored, low), self.store.queue_end(*queue))

    def _beginning(self, group: str, queue: QueueKey, begin: int) -> ReceiveEvent:
        epoch = self.offsets.reset_epoch(group, queue)
        return ReceiveEvent(EventKind.BEGIN, group, queue, offset=begin, serial=epoch)
