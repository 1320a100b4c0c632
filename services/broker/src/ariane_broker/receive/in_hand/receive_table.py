"""The windows of all receiving groups: a state derived from the log."""

from __future__ import annotations

import base64
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.derived.log_rows import is_of_topic, records_where
from ariane_broker.log.derived.snapshots import Document, SnapshotState
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.queue_window import ROW, QueueWindow, copied_windows
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
"""A receipt's serial holds its time, and a drawn number. After a crash or a failover, the log may
have lost the last ones. The next ones are larger by the clock; and where the clock of the next
broker is behind, one in ``SERIALS_DRAWN`` is the same at most."""

SERIALS_DRAWN: Final = 1 << 16
"""Each serial is drawn from so many; many can follow one another within a millisecond."""

_HOLDERS_MAX: Final = 4096
"""How many clients are remembered before those that hold no message are forgotten; the next time is
when there are twice as many as were left, since it looks at all windows in use."""

_NOWHERE: Final[Mapping[Any, Any]] = MappingProxyType({})

_log = get_logger(__name__)


class ReceiveTable(SnapshotState):
    """Windows of all groups that receive, by group, topic and queue id.

    Those of a group in a topic are a table of their own, which goes as a whole.

    The floor of a window is the consumer offset of its group. Members of the group that own queues
    go on from there, and skip settled messages behind it by ``QueueWindow.gap``.
    """

    name: Final = "receiving"
    """The name of this state in the process's log."""
    matters_since_ms: Final = None
    """None: records of any age may matter."""

    def __init__(
        self,
        offsets: ConsumerOffsets,
        mark_changed: Callable[[], None],
        deleted_end: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """``deleted_end``: what the log says of a topic below this offset is of an earlier one."""
        self._deleted_end = deleted_end
        self._offsets = offsets
        self._mark_changed = mark_changed
        self._windows: dict[str, dict[str, dict[int, QueueWindow]]] = {}
        # Queues whose windows may have rows: all others need no upkeep.
        self._in_use: dict[tuple[str, QueueKey], None] = {}
        self._holders = _Holders()
        self._last_serial = 0
        self.secret = b""
        """The key that signs receipts; empty before the first."""
        self.change_count = 0
        """Grows with every change."""

    def groups(self) -> list[str]:
        """All groups that have received, by name."""
        return sorted(self._windows)

    def use(self, group: str, queue: QueueKey) -> None:
        """Note that the window of a group in a queue may get rows."""
        self._in_use[group, queue] = None

    def unsettled(self) -> Iterator[tuple[str, QueueKey, QueueWindow] | None]:
        """The windows that have rows now; None for others that are examined."""
        for group, queue in list(self._in_use):
            window = self._find(group, queue)
            if window is not None and len(window):
                yield group, queue, window
            else:
                self._in_use.pop((group, queue), None)
                yield None

    def of_group(self, group: str) -> Mapping[str, Mapping[int, QueueWindow]]:
        """The windows of a group, by topic and queue id."""
        return self._windows.get(group, {})

    def window(self, group: str, queue: QueueKey) -> QueueWindow | None:
        """The window of a group in a queue, or None while it has received nothing there.

        Also None if the group's offset was reset since: all its receipts are void then.
        """
        topic, queue_id = queue
        window = self._windows.get(group, _NOWHERE).get(topic, _NOWHERE).get(queue_id)
        if window is None or window.reset_epoch != self._offsets.reset_epoch(group, queue):
            return None
        return window

    def without_window(self, group: str, queues: Iterable[QueueKey]) -> list[QueueKey]:
        """Those of some queues for which ``window`` has none."""
        windows = self._windows.get(group, _NOWHERE)
        resets = self._offsets.resets_of(group)
        if not resets:  # Nearly always; and without a call for each queue.
            return [queue for queue in queues if queue[1] not in windows.get(queue[0], _NOWHERE)]
        return [queue for queue in queues if self.window(group, queue) is None]

    def holder(self, number: int) -> str:
        """The client with a number."""
        return self._holders.name(number)

    def next_serial(self, now_ms: int, draw: Callable[[int], int]) -> int:
        """The serial of the next receipt; ``draw``: a random number below its argument."""
        return max(self._last_serial + 1, now_ms * SERIALS_PER_MS) + draw(SERIALS_DRAWN)

    def apply(self, event: ReceiveEvent) -> None:
        """Apply one change that was just written."""
        window = self._apply(event)
        if window is not None:
            self.advance_consumer_offset(event.group, event.queue, window)

    def _apply(self, event: ReceiveEvent) -> QueueWindow | None:
        """Apply one change, in the order of the log; return its window, if it is of one."""
        self.change_count += 1
        if event.kind >= EventKind.SECRET:  # Of no window.
            if event.kind == EventKind.SECRET:
                self.secret = event.holder
            elif event.kind == EventKind.SHIFT:
                self._shift(event.until_ms)
            else:
                self._forget_of(event.group, event.queue.topic)
            return None
        group, queue = event.group, event.queue
        self._in_use[group, queue] = None
        windows = self._windows.setdefault(group, {}).setdefault(queue.topic, {})
        if event.kind == EventKind.BEGIN:
            windows[queue.queue_id] = QueueWindow(event.offset, event.serial)
        window = windows.get(queue.queue_id)
        if window is None:
            # Retention deleted the BEGIN: the window begins at the first event that is left.
            begin = int(event.ranges[0, 0]) if len(event.ranges) else event.offset
            window = QueueWindow(begin, self._offsets.reset_epoch(group, queue))
            windows[queue.queue_id] = window
        self._change(window, event)
        return window

    def _forget_of(self, group: str, topic: str) -> None:
        """Forget what a group has in hand, of one topic or, if it is empty, of all."""
        topics = self._windows.get(group, {})
        topics.pop(topic, None)
        if not (topic and topics):
            self._windows.pop(group, None)

    def forget_topics(self, topics: Container[str]) -> Iterator[None]:
        """Forget deleted topics: later topics of the same names are others.

        Yields once for each topic of a group that is examined.
        """
        for group in list(self._windows):
            for topic in list(self._windows.get(group, ())):
                if topic in topics:
                    self._forget_of(group, topic)
                    self.change_count += 1
                yield None

    # As a state over the log.

    def replay(self, stretch: Stretch) -> None:
        """Apply the events in a stretch of the log; offsets wait for the last: ``forget_lost``."""
        for fields in records_where(stretch, is_of_topic(stretch, RECEIVE_TOPIC)):
            for event in decode_events(fields.body):
                if fields.commit_log_offset >= self._deleted_end(event.queue.topic):
                    self._apply(event)

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Forget that messages behind the ends of their queues were received."""
        for group, queue, window in self._all():
            # Only now: windows of topics and groups that were deleted later are gone.
            self.advance_consumer_offset(group, queue, window)
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
        """Forget windows of topics that do not exist."""
        for group in list(self._windows):
            for topic in list(self._windows[group]):
                if not is_known_topic(topic):
                    self._forget_of(group, topic)
                    self.change_count += 1

    def clear(self) -> None:
        """Forget everything."""
        self._windows.clear()
        self._in_use.clear()
        self._holders = _Holders()
        self._last_serial, self.secret = 0, b""

    def copied(self) -> Document:
        """Copy everything; rows become base64 as they are."""
        head = {"lastSerial": self._last_serial, "secret": _text(self.secret)}
        holders = self._holders.copied()
        groups, topics = list(self._windows), list(map(list, self._windows.values()))
        tables = list(chain.from_iterable(map(dict.values, self._windows.values())))
        queues = list(map(list, tables))
        windows = copied_windows(chain.from_iterable(map(dict.values, tables)))

        def contents() -> dict[str, Any]:
            of_topics = (
                (group, topic)
                for group, of_group in zip(groups, topics, strict=True)
                for topic in of_group
            )
            keys = (
                (*of_topic, queue_id)
                for of_topic, queue_ids in zip(of_topics, queues, strict=True)
                for queue_id in queue_ids
            )
            rows = [
                [*key, end, reset_epoch, _text(octets)]
                for key, (end, reset_epoch, octets) in zip(keys, windows, strict=True)
            ]
            return {**head, "holders": list(holders.items()), "windows": rows}

        return contents

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made."""
        self.clear()
        self._last_serial = int(contents["lastSerial"])
        self.secret = base64.b64decode(contents["secret"])
        self._holders.load(contents["holders"])
        for group, topic, queue_id, end, reset_epoch, rows in contents["windows"]:
            kept = np.frombuffer(base64.b64decode(rows), ROW).copy()
            queue = QueueKey(str(topic), int(queue_id))
            window = QueueWindow(int(end), int(reset_epoch), kept)
            topics = self._windows.setdefault(str(group), {})
            topics.setdefault(queue.topic, {})[queue.queue_id] = window
            self.use(str(group), queue)

    def _shift(self, span_ms: int) -> None:
        for group, queue in self._in_use:
            window = self._find(group, queue)
            if window is not None:
                window.shift(span_ms)

    def _change(self, window: QueueWindow, event: ReceiveEvent) -> None:
        if event.kind == EventKind.FLOOR:
            window.raise_floor(event.offset)
        elif event.kind == EventKind.SETTLE:
            window.settle(offsets_of(event.ranges))
        elif event.kind == EventKind.HIDE:
            window.hide(
                offsets_of(event.ranges),
                event.until_ms,
                given_back=bool(event.flags & EventFlag.GIVEN_BACK),
                holder=self._number_of(event.holder.decode()),
            )
        elif event.kind == EventKind.HAND:
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
        """Raise the group's consumer offset to the floor, unless the offset was reset meanwhile."""
        offset = ConsumerOffset(window.floor)
        if self._offsets.advance(group, queue, offset, window.reset_epoch):
            self._mark_changed()

    def _number_of(self, holder: str) -> int:
        if self._holders.is_full:
            windows = (self.window(*place) for place in self._in_use)
            rows = (window.rows["holder"] for window in windows if window is not None)
            self._holders.keep({int(number) for each in rows for number in np.unique(each)})
        return self._holders.number(holder)

    def _all(self) -> Iterator[tuple[str, QueueKey, QueueWindow]]:
        for group, topics in self._windows.items():
            for topic, windows in topics.items():
                for queue_id, window in windows.items():
                    yield group, QueueKey(topic, queue_id), window

    def _find(self, group: str, queue: QueueKey) -> QueueWindow | None:
        return self._windows.get(group, {}).get(queue.topic, {}).get(queue.queue_id)


class _Holders:
    """Numbers of clients; 0 is no client."""

    def __init__(self) -> None:
        self._numbers = {"": 0}
        self._names = {0: ""}
        self._next = 1
        self._kept_max = _HOLDERS_MAX

    @property
    def is_full(self) -> bool:
        """Whether clients that hold no message are to be forgotten."""
        return len(self._names) > self._kept_max

    def name(self, number: int) -> str:
        """The client with a number."""
        return self._names.get(number, "")

    def number(self, name: str) -> int:
        """The number of a client."""
        number = self._numbers.get(name)
        if number is None:
            number, self._next = self._next, self._next + 1
            self._numbers[name], self._names[number] = number, name
        return number

    def keep(self, numbers: set[int]) -> None:
        """Forget all other numbers."""
        self._names = {n: name for n, name in self._names.items() if n in numbers or n == 0}
        self._numbers = {name: n for n, name in self._names.items()}
        self._kept_max = max(_HOLDERS_MAX, 2 * len(self._names))

    def copied(self) -> dict[int, str]:
        """The name of each number."""
        return self._names.copy()

    def load(self, document: Sequence[Sequence[Any]]) -> None:
        """Restore the numbers of a document."""
        self._names = {int(number): str(name) for number, name in document}
        self._numbers = {name: number for number, name in self._names.items()}
        self._next = 1 + max(self._names, default=0)


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode()
