"""One message queue whose messages the application fetches as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ariane_sdk.consumer.polling.column_window import ColumnWindow
from ariane_sdk.consumer.polling.polled_queue import PolledQueue
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.settings import ConsumerSettings

if TYPE_CHECKING:
    import pyarrow as pa


class PolledColumns(PolledQueue):
    """Holds the batches that were pulled until they are polled."""

    window: ColumnWindow

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        *,
        names: Sequence[str],
        settings: ConsumerSettings,
        paused: set[MessageQueue],
        on_room: Callable[[], None],
        on_arrival: Callable[[PolledQueue], None],
    ) -> None:
        """As ``PolledQueue``; ``names`` are the columns of the batches."""
        self._names = names
        super().__init__(
            queue,
            begin_offset,
            settings=settings,
            paused=paused,
            on_room=on_room,
            on_arrival=on_arrival,
        )

    def take_batch(self) -> pa.RecordBatch | None:
        """Hand out the next batch; None if there is none."""
        if self.paused or self.released:
            return None
        had_room, position = self.wants_records, self.position
        batch = self.window.take_batch()
        if batch is not None:
            self._handed_out(position, had_room=had_room)
        return batch

    def _window_at(self, queue_offset: int) -> ColumnWindow:
        return ColumnWindow(self.queue, queue_offset, self._names)


def polled_queue(
    queue: MessageQueue,
    begin_offset: int,
    names: Sequence[str] | None,
    settings: ConsumerSettings,
    *,
    paused: set[MessageQueue],
    on_room: Callable[[], None],
    on_arrival: Callable[[PolledQueue], None],
) -> PolledQueue:
    """A queue that is polled: for columns of these names, or for messages where there are none."""
    if names is None:
        return PolledQueue(
            queue,
            begin_offset,
            settings=settings,
            paused=paused,
            on_room=on_room,
            on_arrival=on_arrival,
        )
    return PolledColumns(
        queue,
        begin_offset,
        names=names,
        settings=settings,
        paused=paused,
        on_room=on_room,
        on_arrival=on_arrival,
    )
