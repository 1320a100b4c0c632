"""What one consumer has seen: counts, order, gaps and repeats, by the messages alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Protocol

from flight_demo.events import EventKind


class StoredQueue(Protocol):
    """The queue of a received message."""

    @property
    def broker_name(self) -> str:
        """The broker that holds it."""

    @property
    def queue_id(self) -> int:
        """Its number on that broker."""


class StoredMessage(Protocol):
    """What the ledger reads of a received message."""

    @property
    def body(self) -> bytes:
        """The event as JSON."""

    @property
    def tag(self) -> str:
        """The event's kind."""

    @property
    def message_group(self) -> str:
        """The aircraft."""

    @property
    def message_queue(self) -> StoredQueue:
        """Where it lay."""

    @property
    def queue_offset(self) -> int:
        """At which place it lay."""


class _LastEvent(NamedTuple):
    """The latest event of one message group."""

    event_time: str
    sequence: int


@dataclass(slots=True)
class LedgerTotals:
    """The figures of a ledger; those of several members add up."""

    by_kind: dict[str, int] = field(default_factory=dict)
    """Distinct events by tag."""

    duplicates: int = 0
    """Events received again."""

    backwards: int = 0
    """Events that came after a later one of the same message group."""

    strangers: int = 0
    """Messages that are no event of this run."""

    offset_gaps: int = 0
    """Queue offsets that were passed over."""

    offset_repeats: int = 0
    """Queue offsets that came again."""

    message_groups: int = 0
    """Message groups seen. A group seen by two members counts twice in their sum."""

    @property
    def distinct(self) -> int:
        """Distinct events of all kinds."""
        return sum(self.by_kind.values())

    def to_json(self) -> str:
        """Return the totals as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LedgerTotals:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))

    @classmethod
    def sum(cls, parts: Iterable[LedgerTotals]) -> LedgerTotals:
        """Add up the totals of several members."""
        whole = cls()
        for part in parts:
            for tag, count in part.by_kind.items():
                whole.by_kind[tag] = whole.by_kind.get(tag, 0) + count
            whole.duplicates += part.duplicates
            whole.backwards += part.backwards
            whole.strangers += part.strangers
            whole.offset_gaps += part.offset_gaps
            whole.offset_repeats += part.offset_repeats
            whole.message_groups += part.message_groups
        return whole


class Ledger:
    """Books received events, one mark for each of the `event_count` that the run publishes."""

    def __init__(self, event_count: int) -> None:
        self.seen = bytearray(event_count)
        self.distinct = 0
        self._totals = LedgerTotals(by_kind=dict.fromkeys((kind.tag for kind in EventKind), 0))
        self._last: dict[str, _LastEvent] = {}
        self._next_queue_offset: dict[tuple[str, int], int] = {}

    def take(self, messages: Sequence[StoredMessage]) -> None:
        """Book `messages`, all of one queue."""
        self._check_continuity(messages)
        by_kind, seen, last = self._totals.by_kind, self.seen, self._last
        for message in messages:
            event = json.loads(message.body)
            sequence, event_time, tag = event["sequence"], event["event_time"], event["event"]
            if not 0 <= sequence < len(seen) or tag not in by_kind or tag != message.tag:
                self._totals.strangers += 1
                continue
            if seen[sequence]:
                self._totals.duplicates += 1
                continue
            seen[sequence] = 1
            by_kind[tag] += 1
            group = message.message_group
            before = last.get(group)
            if before is not None and (event_time < before[0] or sequence < before[1]):
                self._totals.backwards += 1
            last[group] = _LastEvent(event_time, sequence)
        self.distinct = self._totals.distinct

    def totals(self) -> LedgerTotals:
        """Return the figures so far."""
        self._totals.message_groups = len(self._last)
        return self._totals

    def _check_continuity(self, messages: Sequence[StoredMessage]) -> None:
        queue = messages[0].message_queue
        place = (queue.broker_name, queue.queue_id)
        expected = self._next_queue_offset.get(place, 0)
        for message in messages:
            queue_offset = message.queue_offset
            if queue_offset < expected:
                self._totals.offset_repeats += 1
                continue
            self._totals.offset_gaps += queue_offset - expected
            expected = queue_offset + 1
        self._next_queue_offset[place] = expected
