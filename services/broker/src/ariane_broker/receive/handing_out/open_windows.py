"""Opening the windows of groups: where each begins in a queue that it has not received from."""

from __future__ import annotations

from collections.abc import Iterable

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.receive_order import ReceiveOrder
from ariane_broker.receive.in_hand.queue_window import QueueWindow
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
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
        low, _ = self._store.queue_bounds(*queue)
        window = self._log.window(group, queue)
        if window is None:
            self._log.write([self._beginning(group, queue, self._begin(group, queue, low))])
            window = self._table.of_group(group)[queue]
        window.raise_floor(low)
        return window

    def open_newest(self, order: ReceiveOrder, queues: Iterable[QueueKey]) -> None:
        """Have a group that asks for it begin in topics new to it with what comes from now on.

        It does so in all queues at once: as soon as it stands in one, the topic is not new to it.

        Raises:
            StorageError: That it begins there could not be written down.
        """
        if not order.start_newest:
            return
        group = order.group
        unopened = [queue for queue in queues if self._table.window(group, queue) is None]
        new = {
            topic
            for topic in {queue.topic for queue in unopened} - {retry_topic(group)}
            if not self._offsets.of_group(group, topic)
        }
        events = [
            self._beginning(group, queue, self._store.queue_bounds(*queue)[1])
            for queue in unopened
            if queue.topic in new
        ]
        if events:
            self._log.write(events)

    def _begin(self, group: str, queue: QueueKey, low: int) -> int:
        """Where a group begins in a queue; one that was added later holds nothing unwanted."""
        stored = self._offsets.find(group, queue)
        if stored is None:
            return low
        # What the primary before has handed out may not be confirmed here yet.
        return min(max(stored, low), self._store.queue_end(*queue))

    def _beginning(self, group: str, queue: QueueKey, begin: int) -> ReceiveEvent:
        epoch = self._offsets.reset_epoch(group, queue)
        return ReceiveEvent(EventKind.BEGIN, group, queue, offset=begin, serial=epoch)
