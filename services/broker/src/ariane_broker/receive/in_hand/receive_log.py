"""Writing changes: to the log first, then to memory, in the same turn of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.broker_log import SYSTEM_QUEUE_ID, BrokerLog
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.queue_window import QueueWindow
from ariane_broker.receive.in_hand.receipts import SECRET_BYTES
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent, encode_events
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.topics.system_topics import RECEIVE_TOPIC

_QUEUE: Final = QueueKey(RECEIVE_TOPIC, SYSTEM_QUEUE_ID)


class ReceiveLog:
    """Writes changes of receiving."""

    def __init__(
        self,
        log: BrokerLog,
        table: ReceiveTable,
        offsets: ConsumerOffsets,
        *,
        draw_bytes: Callable[[int], bytes],
    ) -> None:
        """``draw_bytes`` returns this many random bytes that cannot be guessed."""
        self._log = log
        self._table = table
        self._offsets = offsets
        self._draw_bytes = draw_bytes
        self._secret_is_fresh = False

    def window(self, group: str, queue: QueueKey) -> QueueWindow | None:
        """The window of a group in a queue, which agrees with its consumer offset.

        Members that owned the queue may have stored a later offset: all before it is settled.

        Raises:
            StorageError: That could not be written.
        """
        window = self._table.window(group, queue)
        stored = self._offsets.find(group, queue)
        if window is not None and stored is not None and stored > window.floor:
            self.write([ReceiveEvent(EventKind.FLOOR, group, queue, offset=int(stored))])
        return window

    def stored_offset(self, group: str, queue: QueueKey) -> int:
        """The group's consumer offset, before which all is settled; 0 if there is none."""
        return int(self._offsets.find(group, queue) or 0)

    def write(self, events: Sequence[ReceiveEvent]) -> None:
        """Write changes, all or none.

        Raises:
            StorageError: Nothing has changed.
        """
        if not self._table.secret:
            secret = ReceiveEvent(EventKind.SECRET, holder=self._draw_bytes(SECRET_BYTES))
            events = [secret, *events]
            self._secret_is_fresh = True
        self._log.append_own(_QUEUE, encode_events(events))
        for event in events:
            self._table.apply(event)

    def forget(self, group: str, topic: str = "") -> None:
        """Forget what a group has in hand, of all topics or of one: it has begun nowhere there.

        Raises:
            StorageError: Nothing has changed.
        """
        known = self._table.of_group(group)
        if topic in known or (known and not topic):
            self.write([ReceiveEvent(EventKind.FORGET, group, QueueKey(topic, 0))])

    @property
    def is_secured(self) -> bool:
        """Whether ``secured`` would return at once."""
        return bool(self._table.secret) and not self._secret_is_fresh

    @property
    def waits(self) -> bool:
        """Whether there is anything to wait for in ``promised``."""
        return self._log.promise.waits

    async def secured(self) -> None:
        """Ensure that the log has a confirmed secret: receipts stay valid at the next primary.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
            StorageError: It could not be written.
        """
        if not self._table.secret:
            self.write([])
        if self._secret_is_fresh:
            await self.promised()
            self._secret_is_fresh = False

    async def promised(self) -> None:
        """Wait until all written changes are flushed and replicated as the broker promises.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        await self._log.promised()
