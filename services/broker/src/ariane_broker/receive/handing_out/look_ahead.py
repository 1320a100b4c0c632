"""Looking ahead in a queue whose messages are not handed out in the order of their offsets.

Two promises need it: messages of one message group are handed out one after the other, while other
groups go on; and messages of higher priority are handed out first. Both look at messages before
they are handed out, and keep their message group and priority in ``queue_window.ROW``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.group_runs import rows_in_turn
from ariane_broker.receive.handing_out.offset_reading import FoundRecords, read_from, read_offsets
from ariane_broker.receive.handing_out.queue_selection import HandOutRequest
from ariane_broker.receive.in_hand.queue_window import (
    KEY_NONE,
    KEY_UNKNOWN,
    UNSETTLED_MAX,
    QueueWindow,
    Rows,
    rows_of,
)
from ariane_record import PropertyName
from ariane_record.checksums.java_hash import java_string_hashes
from ariane_record.decoding.columns import decode_columns
from ariane_record.priority import priority_of
from ariane_storage.log.records.fields import Int64s
from ariane_storage.store import Store

PRIORITY_SPAN: Final = 1024
"""Number of messages among which priority decides: at most one less overtake any message."""
ORDER_ROWS_MAX: Final = 16384
"""The most rows of a queue: unsettled messages, and messages that wait for one of their message
group. No more are looked at; only by that can a group that fails for long hold up others."""

_LOOK_COUNT: Final = 1024
_LOOKS_MAX: Final = 16
"""Looks in one turn of the loop, even if a filter left out all messages."""
_LOOK_BYTES: Final = 4 << 20
_NO_ROWS: Final = np.empty(0, np.int64)


class LookAhead:
    """Looks at further messages of a queue, and finds the ones that may be handed out."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def in_order(
        self,
        request: HandOutRequest,
        queue: QueueKey,
        window: QueueWindow,
        end: int,
        *,
        count: int,
    ) -> NDArray[np.int64]:
        """Rows that may be handed out: the first unsettled message of each message group.

        Those behind it, too, if the client takes several of a message group.

        Args:
            request: Who asks, and when; once its budget is spent, the next turn goes on.
            queue: The queue.
            window: Its unsettled messages; more are looked at until there are enough.
            end: The end of what can be read of it.
            count: Number of rows that is enough.

        Raises:
            StorageError: The queue cannot be read.
        """
        if not self._know_all(request, queue, window):
            return _NO_ROWS

        def eligible() -> NDArray[np.int64]:
            rows = window.rows
            free = _visible(rows, request.now_ms)
            if request.order.several_of_a_group:
                return rows_in_turn(
                    rows["order_key"], free & (rows["attempts"] <= request.attempts_max)
                )
            return np.flatnonzero(_first_of_keys(rows) & free)

        return self._look_until(
            request, queue, window, end, eligible, enough=count, rows_max=ORDER_ROWS_MAX
        )

    def by_priority(
        self, request: HandOutRequest, queue: QueueKey, window: QueueWindow, end: int
    ) -> NDArray[np.int64]:
        """Visible rows among which priority decides; not all if the budget is spent.

        Raises:
            StorageError: The queue cannot be read.
        """
        if not self._know_all(request, queue, window):
            return _NO_ROWS

        def visible() -> NDArray[np.int64]:
            return np.flatnonzero(_visible(window.rows, request.now_ms))

        rows = self._look_until(
            request,
            queue,
            window,
            end,
            visible,
            enough=PRIORITY_SPAN,
            rows_max=min(len(window.rows) + PRIORITY_SPAN, UNSETTLED_MAX),
        )
        offsets = window.rows["offset"][rows]
        return rows[: np.searchsorted(offsets, offsets[:1] + PRIORITY_SPAN).max(initial=0)]

    def _look_until(
        self,
        request: HandOutRequest,
        queue: QueueKey,
        window: QueueWindow,
        end: int,
        choose: Callable[[], NDArray[np.int64]],
        *,
        enough: int,
        rows_max: int,
    ) -> NDArray[np.int64]:
        """Look at more messages until enough rows are chosen, or the queue ends."""
        chosen = choose()
        for _ in range(_LOOKS_MAX):
            if len(chosen) >= enough or window.end >= end or len(window.rows) >= rows_max:
                break
            if request.budget.is_spent():
                break  # The next turn goes on from here.
            found = read_from(
                self._store,
                queue,
                window.end,
                count_max=min(_LOOK_COUNT, rows_max - len(window.rows)),
                bytes_max=_LOOK_BYTES,
                wanted=request.filters.get(queue.topic),
                budget=request.budget,
            )
            if found.end <= window.end:
                break
            window.look(found.offsets, found.end)
            window.note_lost(found.lost_offsets)
            _take_in(window, found)
            chosen = choose()
        return chosen

    def _know_all(self, request: HandOutRequest, queue: QueueKey, window: QueueWindow) -> bool:
        """Read message group and priority of rows that were restored from the log.

        Returns whether all are known now; if not, the next turn goes on.
        """
        while len(unknown := _unknown(window.rows)):
            if request.budget.is_spent():
                return False
            found = read_offsets(
                self._store,
                queue,
                unknown,
                bytes_max=_LOOK_BYTES,
                wanted=request.filters.get(queue.topic),
                budget=request.budget,
            )
            if found.end <= unknown[0]:
                return True
            _take_in(window, found)
            # Messages that were not found: a filter leaves them out, or they are deleted.
            passed = unknown[: np.searchsorted(unknown, found.end)]
            window.settle(np.setdiff1d(passed, found.offsets, assume_unique=True))
        return True


def _unknown(rows: Rows) -> Int64s:
    offsets: Int64s = np.ascontiguousarray(rows["offset"][rows["order_key"] == KEY_UNKNOWN])
    return offsets


def _visible(rows: Rows, now_ms: int) -> NDArray[np.bool_]:
    visible: NDArray[np.bool_] = rows["until_ms"] <= now_ms
    return visible


def _first_of_keys(rows: Rows) -> NDArray[np.bool_]:
    """Mark the first row of each message group, and all rows without a group."""
    keys = rows["order_key"]
    mask: NDArray[np.bool_] = keys == KEY_NONE
    grouped = np.flatnonzero(~mask)
    _, firsts = np.unique(keys[grouped], return_index=True)
    mask[grouped[firsts]] = True
    return mask


def _take_in(window: QueueWindow, found: FoundRecords) -> None:
    """Keep message group and priority of the messages that were found."""
    if not len(found.offsets):
        return
    columns = decode_columns(b"".join(found.chunks), found.sizes)
    at = rows_of(window.rows, found.offsets)
    properties = columns.properties
    pairs = properties.pair_of_each_row(PropertyName.MESSAGE_GROUP)
    has_group = pairs >= 0
    keys = np.full(len(pairs), KEY_NONE, np.int64)
    hashes = java_string_hashes(properties.texts(pairs[has_group]))
    # Keys are saved, so they must be the same in every process. Groups with the same hash only
    # wait for one another. Every key is positive: the others mean something else.
    keys[has_group] = hashes.view(np.uint32).astype(np.int64) + 1
    window.rows["order_key"][at] = keys
    pairs = properties.pair_of_each_row(PropertyName.PRIORITY)
    has_priority = pairs >= 0
    priorities = np.zeros(len(pairs), np.int64)
    texts = properties.texts(pairs[has_priority])
    priorities[has_priority] = np.fromiter(map(_priority, texts), np.int64, len(texts))
    window.rows["priority"][at] = priorities


def _priority(text: str) -> int:
    """The producer's priority; 0 if it is not a number."""
    return priority_of(text) or 0
