"""Writing changes down: into the log first, into memory then, in the same turn of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.receive.receipts import SECRET_BYTES
from ariane_broker.receive.receive_events import EventKind, ReceiveEvent, event_record
from ariane_broker.receive.receive_table import ReceiveTable
from ariane_broker.topics.system_topics import RECEIVE_TOPIC


class ReceiveLog:
    """Writes changes down."""

    def __init__(
        self,
        log: BrokerLog,
        table: ReceiveTable,
        *,
        now_ms: Callable[[], int],
        draw_bytes: Callable[[int], bytes],
    ) -> None:
        """Take the parts.

        Args:
            log: The log.
            table: What groups have in hand.
            now_ms: Milliseconds since the epoch.
            draw_bytes: So many random bytes, which nobody can guess.
        """
        self._log = log
        self._table = table
        self._now_ms = now_ms
        self._draw_bytes = draw_bytes

    def write(self, events: Sequence[ReceiveEvent]) -> None:
        """Write changes down, all or none.

        Raises:
            StorageError: Nothing has changed.
        """
        if not self._table.secret:
            secret = ReceiveEvent(EventKind.SECRET, holder=self._draw_bytes(SECRET_BYTES))
            events = [secret, *events]
        self._log.append_records(RECEIVE_TOPIC, [event_record(events, self._now_ms())])
        for event in events:
            self._table.apply(event)

    async def promised(self) -> None:
        """Wait until all that was written is as safe as the broker promises.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        await self._log.promised()
