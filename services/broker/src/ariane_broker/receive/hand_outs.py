"""Handing out: which messages a client gets now, and that the log says so.

All happens in one turn of the loop: what is chosen is read, written down and in hand, or nothing
has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.look_ahead import LookAhead
from ariane_broker.receive.offset_reading import FoundRecords, read_from, read_offsets
from ariane_broker.receive.queue_window import UNSETTLED_MAX, QueueWindow
from ariane_broker.receive.ranges import ranges_of
from ariane_broker.receive.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.receive.receive_log import ReceiveLog
from ariane_broker.receive.receive_order import HandedOut, ReceiveOrder
from ariane_broker.receive.receive_table import ReceiveTable
from ariane_broker.topics.readable_topics import readable_topic
from ariane_broker.topics.topic_table import TopicTable
from ariane_record.names import retry_topic
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.log.records.fields import Int64s
from ariane_storage.reading.filter import Filter
from ariane_storage.store import Store


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of all queues together.

    Attributes:
        order: By whom.
        filters: Which messages, by topic; nothing: all.
        bytes_max: Bytes of records at most, but always one.
        attempts_max: So often a message is handed out again.
        in_order: Whether by message group.
        now_ms: Milliseconds since the epoch.
    """

    order: ReceiveOrder
    filters: Mapping[str, Filter | None]
    bytes_max: int
    attempts_max: int
    in_order: bool
    now_ms: int


@dataclass(slots=True)
class _Part:
    """What is taken of one queue.

    Attributes:
        queue: The queue.
        window: What its group has not settled of it.
        began: The first queue offset that nobody had looked at before.
        found: The records.
        dropped: Messages that come to nobody: a filter leaves them out, or they are gone.
        end: The first queue offset that nobody has looked at.
        passed: Whether all below it that is not found, and was not known before, is dropped.
    """

    queue: QueueKey
    window: QueueWindow
    began: int
    found: FoundRecords = field(default_factory=FoundRecords)
    dropped: list[Int64s] = field(default_factory=list)
    end: int = 0
    passed: bool = False

    @property
    def advanced(self) -> bool:
        """Whether something was found out, if only that nobody wants it."""
        return max(self.end, self.window.end) > self.began or bool(self.dropped)


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
        now_ms: Callable[[], int],
        draw: Callable[[int], int],
    ) -> None:
        """Take the parts.

        Args:
            store: Where the messages are.
            log: Where hand-outs are written down.
            table: What groups have in hand.
            topics: The topics of this broker.
            groups: Its consumer groups.
            offsets: Where they stand.
            statistics: Counts what is handed out.
            now_ms: Milliseconds since the epoch.
            draw: A random number from 0 up to its argument, exclusive.
        """
        self._store = store
        self._log = log
        self._table = table
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._statistics = statistics
        self._now_ms = now_ms
        self._draw = draw
        self._ahead = LookAhead(store)

    def queues(self, order: ReceiveOrder) -> list[QueueKey]:
        """All queues that an order may be served from.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_NOT_READABLE and what else forbids a topic.
        """
        queues = []
        retries = retry_topic(order.group)
        for topic in order.filters:
            config = readable_topic(self._topics, topic, order.group)
            queues += [QueueKey(topic, queue_id) for queue_id in range(config.read_queue_count)]
        config_of_retries = self._topics.find(retries)
        if config_of_retries is not None and retries not in order.filters:
            count = config_of_retries.read_queue_count
            queues += [QueueKey(retries, queue_id) for queue_id in range(count)]
        return queues

    def hand_out(
        self, order: ReceiveOrder, filters: Mapping[str, Filter | None], *, bytes_max: int
    ) -> tuple[list[HandedOut], bool]:
        """Hand out what there is.

        Args:
            order: With its defaults.
            filters: Which messages, by topic; nothing: all.
            bytes_max: Bytes of records at most, but always one message.

        Returns:
            What was handed out, and, where that is nothing, whether there may be something behind
            messages that nobody wants.

        Raises:
            ServiceError: As ``queues``.
            StorageError: Nothing is handed out.
        """
        group = self._groups.get(order.group)
        request = _Request(
            order,
            filters,
            bytes_max,
            group.attempts_max,
            group.receive_in_order,
            self._now_ms(),
        )
        queues = self.queues(order)
        first = self._draw(len(queues))
        turns = queues[first:] + queues[:first]
        choose = self._by_priority if order.by_priority else self._in_turn
        parts = choose(request, turns)
        advanced = any(part.advanced for part in parts)
        handed = self._write_down(request, parts)
        return handed, advanced and not handed

    def give_back(self, group: str, handed: Sequence[HandedOut]) -> None:
        """Show messages to others whose client has gone before it got them.

        Raises:
            StorageError: They come again when their time is over.
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

    def _in_turn(self, request: _Request, queues: Iterable[QueueKey]) -> list[_Part]:
        parts = []
        count, size = request.order.count_max, request.bytes_max
        for queue in queues:
            if count <= 0 or size <= 0:
                break
            try:
                window = self._window(request, queue)
                take = self._ahead_part if request.in_order else self._plain_part
                part = take(request, queue, window, count=count, size=size)
            except QueueUnderRepair:
                continue  # Nothing for now; whoever repairs it wakes those who wait.
            count -= len(part.found.offsets)
            size -= part.found.size_bytes
            parts.append(part)
        return parts

    def _plain_part(
        self, request: _Request, queue: QueueKey, window: QueueWindow, *, count: int, size: int
    ) -> _Part:
        """First those that come again, then new ones."""
        passed = bool((window.rows["attempts"] > 0).all())
        part = _Part(queue, window, window.end, end=window.end, passed=passed)
        rows = self._not_exhausted(request, window, window.visible(request.now_ms))[:count]
        self._read_rows(request, part, rows, size)
        found = part.found
        count, size = count - len(found.offsets), size - found.size_bytes
        count = min(count, UNSETTLED_MAX - len(window.rows))
        _, end = self._store.queue_bounds(*queue)
        if count > 0 and window.end < end and (size > 0 or not len(found.offsets)):
            fresh = read_from(
                self._store,
                queue,
                window.end,
                count_max=count,
                bytes_max=max(1, size),
                wanted=request.filters.get(queue.topic),
            )
            part.end = fresh.end
            found.add(fresh)
        return part

    def _ahead_part(
        self, request: _Request, queue: QueueKey, window: QueueWindow, *, count: int, size: int
    ) -> _Part:
        """Those that may be handed out although others before them may not."""
        wanted = request.filters.get(queue.topic)
        began = window.end
        rows = self._ahead.in_order(queue, window, wanted, count, request.now_ms)
        # What the filter leaves out has moved the floor: owners of the queue begin there.
        self._table.tell_floor(request.order.group, queue, window)
        part = _Part(queue, window, began, end=window.end)
        self._read_rows(request, part, self._not_exhausted(request, window, rows)[:count], size)
        return part

    def _by_priority(self, request: _Request, queues: Sequence[QueueKey]) -> list[_Part]:
        """The highest of all queues together; among equal ones, the queue whose turn it is."""
        parts, rows_of_parts = [], []
        for queue in queues:
            wanted = request.filters.get(queue.topic)
            try:
                window = self._window(request, queue)
                began = window.end
                rows = self._ahead.by_priority(queue, window, wanted, request.now_ms)
                if request.in_order:
                    count = request.order.count_max
                    first = self._ahead.in_order(queue, window, wanted, count, request.now_ms)
                    rows = np.intersect1d(rows, first, assume_unique=True)
                self._table.tell_floor(request.order.group, queue, window)
            except QueueUnderRepair:
                continue
            parts.append(_Part(queue, window, began, end=window.end))
            rows_of_parts.append(self._not_exhausted(request, window, rows))
        chosen = _highest(parts, rows_of_parts, request.order.count_max)
        size = request.bytes_max
        for part, rows in zip(parts, chosen, strict=True):
            if size > 0:
                self._read_rows(request, part, rows, size)
                size -= part.found.size_bytes
        return parts

    def _read_rows(
        self, request: _Request, part: _Part, rows: NDArray[np.int64], size: int
    ) -> None:
        """Read messages that are known, and see which of them are not to be had."""
        if not len(rows):
            return
        offsets = np.ascontiguousarray(part.window.rows["offset"][rows])
        wanted = request.filters.get(part.queue.topic)
        part.found = read_offsets(self._store, part.queue, offsets, bytes_max=size, wanted=wanted)
        looked = offsets[: np.searchsorted(offsets, part.found.end)]
        dropped = np.setdiff1d(looked, part.found.offsets, assume_unique=True)
        if len(dropped):
            part.dropped.append(dropped)

    def _not_exhausted(
        self, request: _Request, window: QueueWindow, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Without those that become dead letters."""
        return rows[window.rows["attempts"][rows] <= request.attempts_max]

    # Windows.

    def _window(self, request: _Request, queue: QueueKey) -> QueueWindow:
        """The window of the group, which agrees with its consumer offset."""
        group = request.order.group
        low, high = self._store.queue_bounds(*queue)
        window = self._log.window(group, queue)
        if window is None:
            begin = self._begin(request, queue, low, high)
            epoch = self._offsets.reset_epoch(group, queue)
            self._log.write(
                [ReceiveEvent(EventKind.BEGIN, group, queue, offset=begin, serial=epoch)]
            )
            window = self._table.of_group(group)[queue]
        window.raise_floor(low)
        return window

    def _begin(self, request: _Request, queue: QueueKey, low: int, high: int) -> int:
        """Where a group begins in a queue."""
        group = request.order.group
        stored = self._offsets.find(group, queue)
        if stored is not None:
            # What the primary before has handed out may not be confirmed here yet.
            return min(max(stored, low), self._store.queue_end(*queue))
        # A queue that was added later holds nothing that the group did not want.
        known = bool(self._offsets.of_group(group, queue.topic))
        if request.order.start_newest and not known and queue.topic != retry_topic(group):
            return high
        return low

    # Writing down.

    def _write_down(self, request: _Request, parts: Sequence[_Part]) -> list[HandedOut]:
        serial = self._table.next_serial(request.now_ms)
        until_ms = request.now_ms + request.order.invisible_ms
        events, handed = [], []
        for part in parts:
            events += [
                ReceiveEvent(
                    EventKind.SETTLE, request.order.group, part.queue, ranges=ranges_of(dropped)
                )
                for dropped in part.dropped
            ]
            if not len(part.found.offsets):
                if part.passed and part.end > part.window.end:
                    # Known to memory alone: whoever comes after a crash looks again.
                    part.window.look(part.found.offsets, part.end)
                continue
            out = self._handed(request, part, serial, until_ms)
            handed.append(out)
            events.append(_event_of(request.order.group, out, part))
        if events:
            self._log.write(events)
        for out in handed:
            self._statistics.count_pull(len(out.offsets), out.size_bytes)
        return handed

    def _handed(self, request: _Request, part: _Part, serial: int, until_ms: int) -> HandedOut:
        offsets, window = part.found.offsets, part.window
        attempts = np.zeros(len(offsets), np.int32)
        if part.queue.topic == retry_topic(request.order.group):
            # Tries that a copy has behind it count on.
            attempts[:] = part.found.column("attempts", ">i4")
        at = np.searchsorted(window.rows["offset"], offsets)
        known = at < len(window.rows)
        known[known] = window.rows["offset"][at[known]] == offsets[known]
        attempts[known] = np.maximum(attempts[known], window.rows["attempts"][at[known]])
        return HandedOut(
            part.queue,
            serial,
            until_ms,
            offsets,
            attempts + 1,
            part.found.chunks,
            part.found.sizes,
        )


def _event_of(group: str, out: HandedOut, part: _Part) -> ReceiveEvent:
    attempts = out.attempts
    return ReceiveEvent(
        EventKind.HAND,
        group,
        out.queue,
        EventFlag.PASSED if part.passed else EventFlag.NONE,
        ranges_of(out.offsets),
        out.serial,
        out.until_ms,
        part.end,
        attempts[:1] if bool((attempts == attempts[0]).all()) else attempts,
    )


def _highest(
    parts: Sequence[_Part], rows: Sequence[NDArray[np.int64]], count: int
) -> list[NDArray[np.int64]]:
    """The rows of the highest priority of all queues, in the order of their offsets."""
    if not parts:
        return []
    priorities = np.concatenate(
        [part.window.rows["priority"][each] for part, each in zip(parts, rows, strict=True)]
    )
    places = np.concatenate([np.full(len(each), place) for place, each in enumerate(rows)])
    own = np.concatenate(rows)
    best = np.lexsort((own, places, -priorities))[:count]
    return [np.sort(own[best[places[best] == place]]) for place in range(len(parts))]
