"""What all groups have in hand: a state over the log."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.derived.log_rows import is_of_topic, records_where
from ariane_broker.log.derived.snapshots import SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.queue_window import ROW, QueueWindow
from ariane_broker.receive.in_hand.ranges import offsets_of
from ariane_broker.receive.in_hand.receive_events import (
    EventFlag,
    EventKind,
    ReceiveEvent,
    decode_events,
)
from ariane_broker.topics.system_topics import RECEIVE_TOPIC
from ariane_record import ConsumerOffset
from ariane_servicekit import get_logger
from ariane_storage.log.scan import Stretch

FILE_NAME: Final = "config/receiving.json"

SERIALS_PER_MS: Final = 1 << 20
"""Serials of receipts tell when they were made, and after a crash none is used twice although the
log has lost the last ones: a broker does not start within the millisecond in which it died."""

_HOLDERS_MAX: Final = 4096

_log = get_logger(__name__)


class ReceiveTable(SnapshotState):
    """Windows of all groups that receive, by group and queue.

    A window and the consumer offset of its group say the same: what is before the floor of the one
    is before the other. Members of the group that own queues go on there, and see which messages
    behind it are settled by ``QueueWindow.gap``.

    Attributes:
        name: What is kept here, for the log of the process.
        change_count: Grows with every change.
        matters_since_ms: All that the log has may matter.
        secret: What receipts are signed with; empty before the first.
    """

    name: Final = "receiving"
    matters_since_ms: Final = None

    def __init__(self, offsets: ConsumerOffsets, mark_changed: Callable[[], None]) -> None:
        """Know of none.

        Args:
            offsets: The consumer offsets of all groups.
            mark_changed: They are to be saved.
        """
        self._offsets = offsets
        self._mark_changed = mark_changed
        self._windows: dict[str, dict[QueueKey, QueueWindow]] = {}
        self._holders = _Holders()
        self._last_serial = 0
        self.secret = b""
        self.change_count = 0

    def groups(self) -> list[str]:
        """All groups that have received, by name."""
        return sorted(self._windows)

    def of_group(self, group: str) -> Mapping[QueueKey, QueueWindow]:
        """The windows of a group."""
        return self._windows.get(group, {})

    def window(self, group: str, queue: QueueKey) -> QueueWindow | None:
        """The window of a group in a queue, or None while it has received nothing there.

        None, too, when the group's offset was set anew since: then what it had in hand is void.
        """
        window = self._windows.get(group, {}).get(queue)
        if window is None or window.reset_epoch != self._offsets.reset_epoch(group, queue):
            return None
        return window

    def holder(self, number: int) -> str:
        """The client that has a number."""
        return self._holders.name(number)

    def next_serial(self, now_ms: int) -> int:
        """A serial for a receipt that is made now."""
        return max(self._last_serial + 1, now_ms * SERIALS_PER_MS)

    def apply(self, event: ReceiveEvent) -> None:
        """Take over one change, in the order of the log."""
        self.change_count += 1
        if event.kind is EventKind.SECRET:
            self.secret = event.holder
            return
        if event.kind is EventKind.SHIFT:
            self._shift(event.until_ms)
            return
        group, queue = event.group, event.queue
        windows = self._windows.setdefault(group, {})
        if event.kind is EventKind.BEGIN:
            windows[queue] = QueueWindow(event.offset, event.serial)
        window = windows.get(queue)
        if window is None:
            # The beginning was in a part of the log that is gone: the first word counts.
            begin = int(event.ranges[0, 0]) if len(event.ranges) else event.offset
            window = windows[queue] = QueueWindow(begin, self._offsets.reset_epoch(group, queue))
        self._change(window, event)
        self.advance_consumer_offset(group, queue, window)

    def forget_group(self, group: str) -> None:
        """A group is deleted."""
        self.change_count += self._windows.pop(group, None) is not None

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: one of the same name is another one."""
        self.keep_topics(lambda name: name != topic)

    # As a state over the log.

    def replay(self, stretch: Stretch) -> None:
        """Take over what a stretch of the log says of receiving."""
        for fields in records_where(stretch, is_of_topic(stretch, RECEIVE_TOPIC)):
            for event in decode_events(fields.body):
                self.apply(event)

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget that messages behind the ends of their queues were received."""
        for group, queue, window in self._all():
            end, known = end_of(queue), window.end
            if end < known:
                window.lower_end(end)
                _log.warning(
                    "received_messages_lost",
                    consumer_group=group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    begin_queue_offset=end,
                    end_queue_offset=known,
                )

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Forget what was received from topics that do not stand."""
        for group, windows in list(self._windows.items()):
            for queue in [queue for queue in windows if not is_known_topic(queue.topic)]:
                del windows[queue]
                self.change_count += 1
            if not windows:
                del self._windows[group]

    def clear(self) -> None:
        """Forget everything."""
        self._windows.clear()
        self._holders = _Holders()
        self._last_serial, self.secret = 0, b""

    def contents(self) -> dict[str, Any]:
        """Everything as JSON; rows as they are, in base64."""
        return {
            "lastSerial": self._last_serial,
            "secret": _text(self.secret),
            "holders": self._holders.document(),
            "windows": [
                [group, *queue, window.end, window.reset_epoch, _text(window.rows.tobytes())]
                for group, queue, window in self._all()
            ],
        }

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Be as ``contents`` said."""
        self.clear()
        self._last_serial = int(contents["lastSerial"])
        self.secret = base64.b64decode(contents["secret"])
        self._holders.load(contents["holders"])
        for group, topic, queue_id, end, reset_epoch, rows in contents["windows"]:
            kept = np.frombuffer(base64.b64decode(rows), ROW).copy()
            queue = QueueKey(str(topic), int(queue_id))
            window = QueueWindow(int(end), int(reset_epoch), kept)
            self._windows.setdefault(str(group), {})[queue] = window
            self.advance_consumer_offset(str(group), queue, window)

    def _shift(self, span_ms: int) -> None:
        for _, _, window in self._all():
            window.shift(span_ms)

    def _change(self, window: QueueWindow, event: ReceiveEvent) -> None:
        if event.kind is EventKind.FLOOR:
            window.raise_floor(event.offset)
        elif event.kind is EventKind.SETTLE:
            window.settle(offsets_of(event.ranges))
        elif event.kind is EventKind.HIDE:
            window.hide(
                offsets_of(event.ranges),
                event.until_ms,
                given_back=bool(event.flags & EventFlag.GIVEN_BACK),
                holder=self._number_of(event.holder.decode()),
            )
        elif event.kind is EventKind.HAND:
            self._last_serial = max(self._last_serial, event.serial)
            window.hand(
                offsets_of(event.ranges),
                event.serial,
                event.until_ms,
                attempts=event.attempts,
                end=event.offset,
                passed=bool(event.flags & EventFlag.PASSED),
            )

    def advance_consumer_offset(self, group: str, queue: QueueKey, window: QueueWindow) -> None:
        """Have the group's consumer offset say the same, unless that was set anew meanwhile."""
        if window.reset_epoch != self._offsets.reset_epoch(group, queue):
            return
        known, floor = self._offsets.find(group, queue), window.floor
        if known is None or known < floor:
            self._offsets.put(group, queue, ConsumerOffset(floor))
            self._mark_changed()

    def _number_of(self, holder: str) -> int:
        if self._holders.is_full:
            rows = (window.rows["holder"] for _, _, window in self._all())
            self._holders.keep({int(number) for each in rows for number in np.unique(each)})
        return self._holders.number(holder)

    def _all(self) -> Iterator[tuple[str, QueueKey, QueueWindow]]:
        for group, windows in self._windows.items():
            for queue, window in windows.items():
                yield group, queue, window


class _Holders:
    """Numbers of clients; nobody has number 0."""

    def __init__(self) -> None:
        self._numbers = {"": 0}
        self._names = {0: ""}
        self._next = 1

    @property
    def is_full(self) -> bool:
        """Whether those that have nothing in hand are to be forgotten."""
        return len(self._names) > _HOLDERS_MAX

    def name(self, number: int) -> str:
        """Who has a number."""
        return self._names.get(number, "")

    def number(self, name: str) -> int:
        """The number of a client."""
        number = self._numbers.get(name)
        if number is None:
            number, self._next = self._next, self._next + 1
            self._numbers[name], self._names[number] = number, name
        return number

    def keep(self, numbers: set[int]) -> None:
        """Forget all others."""
        self._names = {n: name for n, name in self._names.items() if n in numbers or n == 0}
        self._numbers = {name: n for n, name in self._names.items()}

    def document(self) -> list[list[Any]]:
        """Number and name of each."""
        return [[number, name] for number, name in self._names.items()]

    def load(self, document: Sequence[Sequence[Any]]) -> None:
        """Take over a document."""
        self._names = {int(number): str(name) for number, name in document}
        self._numbers = {name: number for number, name in self._names.items()}
        self._next = 1 + max(self._names, default=0)


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode()
