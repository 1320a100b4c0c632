"""The dead letters that were sent back: one bit for each, rebuilt from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parked.queue_progress import QueueProgress, copied_marks, encoded_marks
from ariane_broker.log.derived.log_rows import records_where, text_begins
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_record import PropertyName, RecordFields
from ariane_record.names import DEAD_LETTER_PREFIX
from ariane_storage.log.records.fields import Int64s
from ariane_storage.log.scan import Stretch

FILE_NAME: Final = "config/redrivenDeadLetters.json"

_HEAD: Final = f"{PropertyName.REDRIVEN_FROM}\x01{DEAD_LETTER_PREFIX}"


def with_mark(sent_back: RecordFields, letter: RecordFields) -> RecordFields:
    """Add the broker's mark to a record that is sent back, which no producer can forge.

    The mark is in the header field in which other records name the record that they take out. It
    names a place inside the dead letter, where no record begins or ends.
    """
    return replace(sent_back, half_offset=letter.commit_log_offset + 1)


class RedrivenTable(SnapshotState):
    """The dead letters of all groups that were sent back, by queue."""

    name: Final = "redriven dead letters"
    """Name of this state in the process's log."""
    matters_since_ms: Final = None
    """None: any record of the log may matter."""

    def __init__(self, deleted_end: Callable[[str], int] = lambda _: 0) -> None:
        """``deleted_end``: what the log says of a topic below this offset is of an earlier one."""
        self._deleted_end = deleted_end
        self._progress: dict[QueueKey, QueueProgress] = {}
        self.change_count = 0
        """Grows with every change."""

    def pending(self, queue: QueueKey, queue_offsets: Int64s) -> NDArray[np.bool_]:
        """Which of the dead letters of a queue were not sent back: bool[count]."""
        progress = self._progress.get(queue)
        if progress is None:
            return np.ones(len(queue_offsets), np.bool_)
        return progress.pending(queue_offsets)

    def mark(self, queue: QueueKey, queue_offsets: Int64s) -> None:
        """Note that dead letters of a queue were sent back."""
        self._progress.setdefault(queue, QueueProgress()).mark(queue_offsets)
        self.change_count += 1

    def forget_topic(self, topic: str) -> Iterator[None]:
        """Forget the dead letters of a deleted topic: new ones will have their queue offsets.

        Yields once for each queue that is examined.
        """
        for queue in list(self._progress):
            if queue.topic == topic and self._progress.pop(queue, None) is not None:
                self.change_count += 1
            yield None

    # The state over the log.

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget that letters behind the ends of their queues were sent back."""
        for queue, progress in self._progress.items():
            progress.lower_end(end_of(queue))

    def replay(self, stretch: Stretch) -> None:
        """Note the dead letters that a stretch of the log shows as sent back."""
        marked = text_begins(stretch, stretch.places.properties_starts, _HEAD)
        found: dict[QueueKey, list[int]] = {}
        for record in records_where(stretch, marked):
            if not record.half_offset:
                continue  # A producer wrote this.
            source = record.properties[PropertyName.REDRIVEN_FROM].rsplit("/", 2)
            if record.commit_log_offset < self._deleted_end(source[0]):
                continue
            if len(source) == 3 and source[1].isdecimal() and source[2].isdecimal():
                found.setdefault(QueueKey(source[0], int(source[1])), []).append(int(source[2]))
        for queue, queue_offsets in found.items():
            self.mark(queue, np.array(queue_offsets, np.int64))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Drop the state of topics that no longer exist."""
        for queue in [queue for queue in self._progress if not is_known_topic(queue.topic)]:
            del self._progress[queue]
            self.change_count += 1

    def clear(self) -> None:
        """Forget everything."""
        self._progress.clear()

    def copied(self) -> Document:
        """Copy everything."""
        queues = list(self._progress)
        marks = copied_marks(self._progress.values())
        return lambda: {
            "queues": [
                [*queue, *encoded_marks(*each)] for queue, each in zip(queues, marks, strict=True)
            ],
        }

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        self._progress = {
            QueueKey(str(topic), int(queue_id)): QueueProgress.decoded(begin, count, encoded)
            for topic, queue_id, begin, count, encoded in contents["queues"]
        }
