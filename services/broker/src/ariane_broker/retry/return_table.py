"""The last returns of messages, rebuilt from the log, so that none is taken back twice.

A client may repeat a return, because the answer was lost or the consumer ended before it stored its
offset. While the copy waits for its time, the copy is enough to tell. Later the message may have
been consumed and, if an operator asked for it, read once more: then a return is a new one, unless
it has the return id of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ariane_broker.log.derived.log_rows import records_where, text_begins
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.retry.failed_records import ReturnedRecord, returned_record
from ariane_record import PropertyName, RecordFields
from ariane_record.names import (
    DEAD_LETTER_PREFIX,
    DELAY_TOPIC,
    RETRY_PREFIX,
    TIMER_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.log.scan import Stretch

FILE_NAME: Final = "config/returnedMessages.json"
RETURN_COUNT_MAX: Final = 50_000
"""Returns that are remembered; the oldest is forgotten first."""

_WAITING_TOPICS: Final = (DELAY_TOPIC, TIMER_TOPIC)
_PARKED: Final = f"{PropertyName.REAL_TOPIC}\x01{RETRY_PREFIX}"


class Returned(NamedTuple):
    """The result of a return; a tuple, because a snapshot encodes tens of thousands."""

    return_id: str
    """The client's id of the return; perhaps empty."""
    attempts: int
    """Number of tries by then."""
    dead_letter: bool
    """Whether it became a dead letter."""
    due_ms: int
    """When the copy is due."""
    commit_log_offset: int
    """Commit-log offset of the stored record."""


class ReturnTable(SnapshotState):
    """The last returns, by group and commit-log offset of the record that failed."""

    name: Final = "returned messages"
    """Name of this state in the process's log."""
    matters_since_ms: Final = None
    """None: any record of the log may matter."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS,
        return_count_max: int = RETURN_COUNT_MAX,
        deleted_end: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """Know of no return.

        Args:
            now_ms: A clock whose jumps are doubted.
            delay_levels_ms: The lengths of the delay levels.
            return_count_max: How many returns are remembered.
            deleted_end: What the log says of a topic below this offset is of an earlier one.
        """
        self._deleted_end = deleted_end
        self._now_ms = now_ms
        self._delay_levels_ms = delay_levels_ms
        self._return_count_max = return_count_max
        # Oldest first.
        self._returns: dict[tuple[str, int], Returned] = {}
        self.change_count = 0
        """Grows with every change."""

    def duplicate_of(
        self, consumer_group: str, failed_offset: int, return_id: str
    ) -> Returned | None:
        """Find the return that another one repeats, or None."""
        known = self._returns.get((consumer_group, failed_offset))
        if known is None:
            return None
        waits = known.dead_letter or self._now_ms() < known.due_ms
        repeated = bool(return_id) and return_id == known.return_id
        return known if waits or repeated else None

    def remember(self, consumer_group: str, failed_offset: int, returned: Returned) -> None:
        """Remember a return."""
        key = (consumer_group, failed_offset)
        self._returns.pop(key, None)
        self._returns[key] = returned
        while len(self._returns) > self._return_count_max:
            del self._returns[next(iter(self._returns))]
        self.change_count += 1

    def forget_group(self, consumer_group: str) -> Iterator[None]:
        """Forget a deleted group: the returns of a new one of its name are new.

        Yields once for each return that is examined.
        """
        for key in list(self._returns):
            if key[0] == consumer_group and self._returns.pop(key, None) is not None:
                self.change_count += 1
            yield None

    # The state over the log.

    def replay(self, stretch: Stretch) -> None:
        """Note the returns in a stretch of the log."""
        places = stretch.places
        wanted = text_begins(stretch, places.topic_starts, RETRY_PREFIX)
        wanted |= text_begins(stretch, places.topic_starts, DEAD_LETTER_PREFIX)
        wanted |= text_begins(stretch, places.properties_starts, _PARKED)
        for fields in records_where(stretch, wanted):
            self.restore(fields)

    def restore(self, fields: RecordFields) -> None:
        """Note the return in one record; records come in the order of the log."""
        if PropertyName.REAL_TOPIC in fields.properties and fields.topic not in _WAITING_TOPICS:
            return  # A producer wrote this.
        record = returned_record(fields)
        if record is None or fields.commit_log_offset < self._end_of_earlier(record):
            return
        due_ms = _due_ms(fields, self._delay_levels_ms, self._now_ms())
        known = self._returns.get((record.consumer_group, record.failed_offset))
        if known is not None and not due_ms and not record.dead_letter:
            return  # The parked copy was noted before it was delivered.
        returned = Returned(
            record.return_id, record.attempts, record.dead_letter, due_ms, fields.commit_log_offset
        )
        self.remember(record.consumer_group, record.failed_offset, returned)

    def _end_of_earlier(self, record: ReturnedRecord) -> int:
        """Returns below this commit-log offset are of an earlier group of the same name."""
        end = self._deleted_end(retry_topic(record.consumer_group))
        if not record.dead_letter:
            return end
        return max(end, self._deleted_end(dead_letter_topic(record.consumer_group)))

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Do nothing: a return from a topic that is gone is not repeated."""

    def clear(self) -> None:
        """Forget everything."""
        self._returns.clear()

    def copied(self) -> Document:
        """Copy everything."""
        returns = self._returns.copy()
        return lambda: {"returns": [[*key, *returned] for key, returned in returns.items()]}

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        self._returns = {
            (str(group), int(failed_offset)): Returned(
                str(return_id), int(attempts), bool(dead), int(due_ms), int(place)
            )
            for group, failed_offset, return_id, attempts, dead, due_ms, place in (
                contents["returns"]
            )
        }


def _due_ms(fields: RecordFields, delay_levels_ms: tuple[int, ...], now_ms: int) -> int:
    """When a copy is due, by its own properties while it is parked; a delivered one is there."""
    time_ms = fields.properties.get(PropertyName.DELIVERY_TIME_MS, "")
    if time_ms.isdecimal():
        return int(time_ms)
    level = fields.properties.get(PropertyName.DELAY_LEVEL, "")
    if level.isdecimal() and 1 <= int(level) <= len(delay_levels_ms):
        # The store timestamp may be ahead of the clock.
        return min(fields.store_timestamp_ms, now_ms) + delay_levels_ms[int(level) - 1]
    return 0
