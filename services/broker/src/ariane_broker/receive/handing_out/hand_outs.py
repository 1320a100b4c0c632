"""Handing out: chooses the messages that a client gets now, and writes that into the log.

A look at some queues is one turn of the loop: the chosen messages are read, written down and marked
as handed out, or nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import group_paused
from ariane_broker.filters.expiry import expiry_ms
from ariane_broker.filters.living_origins import living
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.look_ahead import LookAhead
from ariane_broker.receive.handing_out.offset_reading import read_from, read_offsets
from ariane_broker.receive.handing_out.open_windows import OpenWindows
from ariane_broker.receive.handing_out.queue_selection import (
    HandOutRequest,
    QueueSelection,
    event_of,
    highest_of,
)
from ariane_broker.receive.handing_out.queue_walk import QueueWalk
from ariane_broker.receive.handing_out.receive_order import HandedOut, Look, ReceiveOrder
from ariane_broker.receive.in_hand.queue_window import UNSETTLED_MAX, QueueWindow
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.topics.readable_topics import readable_topic
from ariane_broker.topics.topic_table import TopicTable
from ariane_broker.turn_budget import TurnBudget
from ariane_record.names import retry_topic
from ariane_storage.disk.cold import BytesCold
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.reading.filter import Filter
from ariane_storage.store import Store


class HandOuts:
    """Hands out messages."""

    def __init__(
        self,
        store: Store,
        log: ReceiveLog,
        table: ReceiveTable,
        *,
        topics: TopicTable,
        groups: ConsumerGroups,
        offsets: ConsumerOffsets,
        statistics: BrokerStatistics,
        cold_reads: ColdReads,
        now_ms: Callable[[], int],
        draw: Callable[[int], int],
    ) -> None:
        """``draw`` returns a random number from 0 up to its argument, exclusive."""
        self._store = store
        self._log = log
        self._table = table
        self._topics = topics
        self._groups = groups
        self._windows = OpenWindows(store, log, table, offsets)
        self._statistics = statistics
        self._cold_reads = cold_reads
        self._now_ms = now_ms
        self._draw = draw
        self._ahead = LookAhead(store)

    def queue_counts(self, order: ReceiveOrder) -> dict[str, int]:
        """The topics that an order may be served from, each with the number of its queues.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_NOT_READABLE, or another refusal of a topic.
        """
        counts = {}
        for topic in order.filters:
            config = self._topics.find(topic)
            if config is None or not config.is_open:
                config = readable_topic(self._topics, topic, order.group)
            counts[topic] = config.read_queue_count
        retries = retry_topic(order.group)
        config = self._topics.find(retries)
        if config is not None and retries not in counts:
            counts[retries] = config.read_queue_count
        return counts

    def walk(self, counts: Mapping[str, int]) -> QueueWalk:
        """All queues that an order may be served from, by their numbers."""
        return QueueWalk(counts, self._draw(max(1, sum(counts.values()))))

    def hand_out(
        self,
        order: ReceiveOrder,
        filters: Mapping[str, Filter | None],
        counts: Mapping[str, int],
        queues: Sequence[QueueKey],
        *,
        bytes_max: int,
        budget: TurnBudget,
    ) -> Look:
        """Hand out the messages of some queues that are ready.

        Args:
            order: The order, defaults filled in.
            filters: The filter of each topic; None: all messages.
            counts: What ``queue_counts`` says of the order in this turn.
            queues: The queues to look at, in this order, no more than the budget has things; those
                that do not exist any more have nothing.
            bytes_max: Bytes of records at most, but always one message.
            budget: What this turn may examine, not spent yet.

        Raises:
            ServiceError: GROUP_NOT_FOUND, GROUP_PAUSED.
            StorageError: Nothing is handed out.
            BytesCold: Nothing is handed out: all that is ready is on the disk.
        """
        group = self._groups.get(order.group)
        if not group.consume_enabled:
            raise group_paused(order.group)  # Also for who began to wait before.
        queues = [queue for queue in queues if queue[1] < counts.get(queue[0], 0)]
        ends = self._store.copying.deleted_topic_ends
        if ends:
            filters = {topic: living(topic, filters.get(topic), ends) for topic in counts}
        request = HandOutRequest(
            order,
            filters,
            bytes_max,
            group.receive_attempts_max,
            group.receive_in_order,
            self._now_ms(),
            budget,
        )
        budget.count_queues(self._windows.begin(order.group, queues))
        choose = self._by_priority if order.by_priority else self._in_turn
        idle: set[QueueKey] = set()
        selections = choose(request, queues, idle)
        handed = self._write_down(request, selections)
        self._statistics.read_count += len(selections)
        looked_at = {selection.queue for selection in selections}
        left = [queue for queue in queues if queue not in idle]
        # Others have their turn before those that were looked at.
        return Look(handed, sorted(left, key=looked_at.__contains__))

    def give_back(self, group: str, handed: Sequence[HandedOut]) -> None:
        """Make messages visible again whose client left before the answer reached it.

        Raises:
            StorageError: They become visible when their invisible time ends.
        """
        now_ms = self._now_ms()
        events = [
            ReceiveEvent(
                EventKind.HIDE,
                group,
                out.queue,
                EventFlag.GIVEN_BACK,
                ranges_of(out.offsets),
                until_ms=now_ms,
            )
            for out in handed
        ]
        self._log.write(events)

    # Choosing and reading.

    def _in_turn(
        self, request: HandOutRequest, queues: Sequence[QueueKey], idle: set[QueueKey]
    ) -> list[QueueSelection]:
        """The messages of the first queues that have some; queues without any become ``idle``."""
        selections: list[QueueSelection] = []
        missing: list[BytesCold] = []
        count, size = request.order.count_max, request.bytes_max
        for queue in queues:
            if count <= 0 or size <= 0 or request.budget.is_spent():
                break
            try:
                window, end = self._windows.open(request.order, queue)
                take = self._select_ahead if request.in_order else self._select_plainly
                selection = take(request, queue, window, end, count=count, size=size)
            except QueueUnderRepair:
                idle.add(queue)  # Nothing for now; the repair tells the waiting calls.
                continue
            except BytesCold as cold:
                missing.append(cold)
                self._cold_reads.begin(request.order.group, cold, queue)
                continue  # What other queues have in memory is handed out meanwhile.
            count -= len(selection.found.offsets)
            size -= selection.found.size_bytes
            selections.append(selection)
            if not len(selection.found.offsets) and _is_done(request, selection):
                idle.add(queue)
            request.budget.count_queues(1)
        if missing and not any(len(selection.found.offsets) for selection in selections):
            raise missing[0]
        return selections

    def _select_plainly(
        self,
        request: HandOutRequest,
        queue: QueueKey,
        window: QueueWindow,
        end: int,
        *,
        count: int,
        size: int,
    ) -> QueueSelection:
        """First messages that are visible again, then new ones."""
        selection = QueueSelection(queue, window, window.end, end=window.end, passed=True)
        found = selection.found
        if len(window.rows):
            selection.passed = bool((window.rows["attempts"] > 0).all())
            rows = window.visible(request.now_ms)
            if len(rows):
                rows = self._not_exhausted(request, window, rows)[:count]
                self._read_rows(request, selection, rows, size)
                found = selection.found
                count, size = count - len(found.offsets), size - found.size_bytes
            count = min(count, UNSETTLED_MAX - len(window.rows))
        has_room = count > 0 and (size > 0 or not len(found.offsets))
        if has_room and window.end < end and not request.budget.is_spent():
            fresh = read_from(
                self._store,
                queue,
                window.end,
                count_max=count,
                bytes_max=max(1, size),
                wanted=request.filters.get(queue.topic),
                budget=request.budget,
                now_ms=expiry_ms(queue.topic, request.now_ms),
            )
            selection.end = fresh.end
            if len(fresh.lost_offsets):
                window.note_lost(fresh.lost_offsets)
            if len(found.offsets):
                found.add(fresh)
            else:
                fresh.expired_count += found.expired_count
                selection.found = fresh
        return selection

    def _select_ahead(
        self,
        request: HandOutRequest,
        queue: QueueKey,
        window: QueueWindow,
        end: int,
        *,
        count: int,
        size: int,
    ) -> QueueSelection:
        """Messages that may be handed out although earlier ones of the queue may not."""
        began = window.end
        rows = self._ahead.in_order(request, queue, window, end, count=count)
        # Messages that the filter left out have moved the floor, where owners of the queue begin.
        self._table.advance_consumer_offset(request.order.group, queue, window)
        selection = QueueSelection(queue, window, began, end=window.end)
        self._read_rows(
            request, selection, self._not_exhausted(request, window, rows)[:count], size
        )
        return selection

    def _by_priority(
        self, request: HandOutRequest, queues: Sequence[QueueKey], idle: set[QueueKey]
    ) -> list[QueueSelection]:
        """The messages of highest priority of the queues; among equals, by the queues' turn.

        Queues without any become ``idle``.
        """
        selections: list[QueueSelection] = []
        rows_of_selections = []
        for queue in queues:
            if request.budget.is_spent():
                return selections
            try:
                window, end = self._windows.open(request.order, queue)
                began = window.end
                rows = self._ahead.by_priority(request, queue, window, end)
                if request.in_order:
                    count = request.order.count_max
                    turn = self._ahead.in_order(request, queue, window, end, count=count)
                    rows = np.intersect1d(rows, turn, assume_unique=True)
                self._table.advance_consumer_offset(request.order.group, queue, window)
            except QueueUnderRepair:
                idle.add(queue)
                continue
            selections.append(QueueSelection(queue, window, began, end=window.end))
            if request.budget.is_spent():
                return selections  # Nothing is chosen before all queues were looked at.
            rows = self._not_exhausted(request, window, rows)
            rows_of_selections.append(rows)
            if not len(rows) and _is_done(request, selections[-1]):
                idle.add(queue)
            request.budget.count_queues(1)
        chosen = highest_of(request, selections, rows_of_selections)
        size = request.bytes_max
        for selection, rows in zip(selections, chosen, strict=True):
            if size > 0:
                self._read_rows(request, selection, rows, size)
                size -= selection.found.size_bytes
        if not any(len(selection.found.offsets) for selection in selections):
            idle.update(each.queue for each in selections if not each.advanced)
        return selections

    def _read_rows(
        self, request: HandOutRequest, selection: QueueSelection, rows: NDArray[np.int64], size: int
    ) -> None:
        """Read messages of known rows, and note the ones that are gone or filtered out."""
        if not len(rows):
            return
        offsets = np.ascontiguousarray(selection.window.rows["offset"][rows])
        wanted = request.filters.get(selection.queue.topic)
        selection.found = read_offsets(
            self._store,
            selection.queue,
            offsets,
            bytes_max=size,
            wanted=wanted,
            budget=request.budget,
            now_ms=expiry_ms(selection.queue.topic, request.now_ms),
        )
        looked = offsets[: np.searchsorted(offsets, selection.found.end)]
        dropped = np.setdiff1d(looked, selection.found.offsets, assume_unique=True)
        if len(dropped):
            selection.dropped.append(dropped)

    def _not_exhausted(
        self, request: HandOutRequest, window: QueueWindow, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The rows that have attempts left; the others become dead letters."""
        return rows[window.rows["attempts"][rows] <= request.attempts_max]

    # Writing down.

    def _write_down(
        self, request: HandOutRequest, selections: Sequence[QueueSelection]
    ) -> list[HandedOut]:
        serial = self._table.next_serial(request.now_ms, self._draw)
        until_ms = request.now_ms + request.order.invisible_ms
        events, handed = [], []
        for selection in selections:
            if selection.found.expired_count:
                self._statistics.count_expired(
                    request.order.group, selection.queue, selection.found.expired_count
                )
            for dropped in selection.dropped:
                ranges = ranges_of(dropped)
                group = request.order.group
                events.append(ReceiveEvent(EventKind.SETTLE, group, selection.queue, ranges=ranges))
            if not len(selection.found.offsets):
                if selection.passed and selection.end > selection.window.end:
                    # Kept in memory only: after a crash the broker looks at these again.
                    selection.window.look(selection.found.offsets, selection.end)
                continue
            out = self._handed(request, selection, serial, until_ms)
            handed.append(out)
            events.append(event_of(request.order.group, out, selection))
        if events:
            self._log.write(events)
        for out in handed:
            self._statistics.count_pull(len(out.offsets), out.size_bytes)
            self._statistics.lost_message_count += len(out.lost_offsets)
        return handed

    def _handed(
        self, request: HandOutRequest, selection: QueueSelection, serial: int, until_ms: int
    ) -> HandedOut:
        offsets, window = selection.found.offsets, selection.window
        attempts = np.zeros(len(offsets), np.int32)
        if selection.queue.topic == retry_topic(request.order.group):
            # The attempts before a copy was made count too.
            attempts[:] = selection.found.column("attempts", ">i4")
        if offsets[0] < window.end:
            at = np.searchsorted(window.rows["offset"], offsets)
            known = at < len(window.rows)
            known[known] = window.rows["offset"][at[known]] == offsets[known]
            attempts[known] = np.maximum(attempts[known], window.rows["attempts"][at[known]])
        return HandedOut(
            selection.queue,
            serial,
            until_ms,
            offsets,
            attempts + 1,
            selection.found.chunks,
            selection.found.sizes,
            window.take_lost(),
        )


def _is_done(request: HandOutRequest, selection: QueueSelection) -> bool:
    """Whether a queue of which nothing was chosen has nothing behind what was looked at."""
    return not selection.advanced and not request.budget.is_spent()
