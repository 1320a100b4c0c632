"""Turns received messages into dead letters, by the code that does so for owned queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Final

import numpy as np

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.queue_window import rows_of
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.failures import FailedPlace, Failure
from ariane_broker.retry.returning import MessageReturns
from ariane_record.names import retry_topic
from ariane_servicekit import get_logger, in_turns
from ariane_servicekit.errors import ServiceError
from ariane_storage.errors import RecordNotFound
from ariane_storage.log.records.fields import Int64s
from ariane_storage.store import Store

AGAIN_MS: Final = 60_000
"""Pause before a message that could not become a dead letter is tried again."""
COUNT_MAX: Final = 1024
"""The most messages that become dead letters at once."""

_NONE: Final = np.empty(0, np.int64)
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class DeadLetters:
    """Turns messages of receiving groups into dead letters."""

    store: Store
    log: ReceiveLog
    table: ReceiveTable
    returns: MessageReturns
    _: KW_ONLY
    now_ms: Callable[[], int]

    def take(self, group: str, queue: QueueKey, offsets: Int64s) -> ReceiveEvent:
        """The event that hides messages from all members until they are dead letters."""
        return ReceiveEvent(
            EventKind.HIDE,
            group,
            queue,
            EventFlag.GIVEN_BACK,
            ranges_of(offsets),
            until_ms=self.now_ms() + AGAIN_MS,
        )

    async def bury(
        self,
        group: str,
        queue: QueueKey,
        offsets: Int64s,
        *,
        reason: DeadLetterReason,
        cause: str = "",
    ) -> Int64s:
        """Turn messages hidden by ``take`` into dead letters, and settle them.

        After an interruption a later turn goes on, and each message becomes one dead letter.

        Args:
            group: The consumer group.
            queue: The messages' queue.
            offsets: Their queue offsets, ascending.
            reason: Why.
            cause: The reason in words; may be empty.

        Returns:
            The queue offsets of refused messages, which come again after ``AGAIN_MS``.

        Raises:
            ServiceError: As ``MessageReturns.take_back``.
            StorageError: Some messages are not settled.
        """
        window = self.table.window(group, queue)
        if window is None:
            return _NONE
        # A message that is named twice becomes one dead letter.
        rows = window.rows[rows_of(window.rows, offsets)]
        offsets = np.ascontiguousarray(rows["offset"])
        tried = rows["attempts"] - 1
        places = list(chain.from_iterable(await in_turns(self._places(queue, offsets))))
        if queue.topic == retry_topic(group):
            # The copy's own attempts field counts the tries before it; only local ones are added.
            await self.returns.handed_out(places)
            before = await in_turns(self._attempts_at(place.commit_log_offset) for place in places)
            tried = tried - np.array(before, np.int32)
        refused: list[int] = []
        for local in np.unique(tried).tolist():
            chosen = [
                place for place, own in zip(places, tried.tolist(), strict=True) if own == local
            ]
            failure = Failure(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                reason=reason,
                cause=cause,
                local_attempts=max(0, local),
            )
            left = await self._take_back(failure, chosen)
            refused += left
            done = np.array([place.queue_offset for place in chosen], np.int64)
            done = np.setdiff1d(done, np.array(left, np.int64), assume_unique=True)
            if len(done) and self.table.window(group, queue) is window:
                self.log.write(
                    [ReceiveEvent(EventKind.SETTLE, group, queue, ranges=ranges_of(done))]
                )
        return np.array(refused, np.int64)

    async def _take_back(self, failure: Failure, places: list[FailedPlace]) -> list[int]:
        """Make dead letters of messages; return the queue offsets of refused ones."""
        outcomes = await self.returns.take_back(failure, places)
        refused = [
            place.queue_offset
            for place, outcome in zip(places, outcomes, strict=True)
            if isinstance(outcome, ServiceError) and outcome.row.name != "MESSAGE_NOT_FOUND"
        ]
        if refused:
            _log.warning(
                "dead_letters_refused",
                consumer_group=failure.consumer_group,
                topic=failure.topic,
                queue_id=failure.queue_id,
                queue_offsets=refused,
            )
        return refused

    def _places(self, queue: QueueKey, offsets: Int64s) -> Iterator[list[FailedPlace]]:
        """The places of messages in the log, by range; 0 for those that retention has deleted."""
        for first, count in ranges_of(offsets).tolist():
            low, _ = self.store.queue_bounds(*queue)
            gone = min(max(0, low - first), count)
            places = [FailedPlace(first + step, 0) for step in range(gone)]
            if gone < count:
                begin = first + gone
                entries = self.store.queue_entries(*queue, begin, max_count=count - gone)
                spots = entries["commit_log_offset"].tolist()
                places += map(FailedPlace, range(begin, begin + len(spots)), spots)
            yield places

    def _attempts_at(self, commit_log_offset: int) -> int:
        try:
            return self.store.message_at(commit_log_offset).attempts
        except RecordNotFound:
            return 0
