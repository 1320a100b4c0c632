"""Opening the windows of groups: where each begins in a queue that it has not received from."""

from __future__ import annotations

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.queue_window import QueueWindow
from ariane_broker.receive.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.receive_log import ReceiveLog
from ariane_broker.receive.receive_order import ReceiveOrder
from ariane_broker.receive.receive_table import ReceiveTable
from ariane_record.names import retry_topic
from ariane_storage.store import Store


class OpenWindows:
    """Opens windows."""

    def __init__(
        self, store: Store, log: ReceiveLog, table: ReceiveTable, offsets: ConsumerOffsets
    ) -> None:
        self._store = store
        self._log = log
        self._table = table
        self._offsets = offsets

    def open(self, order: ReceiveOrder, queue: QueueKey) -> QueueWindow:
        """The window of an order's group in a queue, which agrees with its consumer offset.

        Raises:
            StorageError: That the group begins there could not be written down.
        """
        group = order.group
        low, high = self._store.queue_bounds(*queue)
        window = self._log.window(group, queue)
        if window is None:
            begin = self._begin(order, queue, low, high)
            epoch = self._offsets.reset_epoch(group, queue)
            self._log.write(
                [ReceiveEvent(EventKind.BEGIN, group, queue, offset=begin, serial=epoch)]
            )
            window = self._table.of_group(group)[queue]
        window.raise_floor(low)
        return window

    def _begin(self, order: ReceiveOrder, queue: QueueKey, low: int, high: int) -> int:
        """Where a group begins in a queue."""
        group = order.group
        stored = self._offsets.find(group, queue)
        if stored is not None:
            # What the primary before has handed out may not be confirmed here yet.
            return min(max(stored, low), self._store.queue_end(*queue))
        # A queue that was added later holds nothing that the group did not want.
        known = bool(self._offsets.of_group(group, queue.topic))
        if order.start_newest and not known and queue.topic != retry_topic(group):
            return high
        return low
