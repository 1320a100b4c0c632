"""The messages chosen from each queue, before they are handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.group_runs import as_low_as_before
from ariane_broker.receive.handing_out.offset_reading import NOTHING_FOUND, FoundRecords
from ariane_broker.receive.handing_out.receive_order import HandedOut, ReceiveOrder
from ariane_broker.receive.in_hand.queue_window import QueueWindow, Rows
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_events import EventFlag, EventKind, ReceiveEvent
from ariane_broker.turn_budget import READ_THINGS, TurnBudget
from ariane_storage.log.records.fields import Int64s
from ariane_storage.reading.filter import Filter

_QUEUES_MIN: Final = 8


@dataclass(slots=True)
class HandOutRequest:
    """One request to hand out messages of several queues."""

    order: ReceiveOrder
    """The client's order."""
    filters: Mapping[str, Filter | None]
    """The filter of each topic; None: all messages."""
    bytes_max: int
    """Bytes of records at most, but always one."""
    attempts_max: int
    """The most times that a message is handed out again."""
    in_order: bool
    """Whether messages of a message group are handed out one after the other."""
    now_ms: int
    """Milliseconds since the epoch."""
    budget: TurnBudget
    """What this turn may examine."""


@dataclass(slots=True)
class QueueSelection:
    """The messages chosen from one queue."""

    queue: QueueKey
    """The queue."""
    window: QueueWindow
    """The group's window in it."""
    began: int
    """The window's end before this selection."""
    found: FoundRecords = NOTHING_FOUND
    """The records."""
    dropped: list[Int64s] = field(default_factory=list)
    """Messages to settle: a filter leaves them out, or they are deleted."""
    end: int = 0
    """The first queue offset that was not looked at."""
    passed: bool = False
    """Whether new messages below ``end`` that were not found are settled."""

    @property
    def advanced(self) -> bool:
        """Whether messages were looked at, even if the filter left all of them out."""
        return max(self.end, self.window.end) > self.began or bool(self.dropped)


def event_of(group: str, out: HandedOut, selection: QueueSelection) -> ReceiveEvent:
    """The event that says what was handed out of a queue."""
    attempts = out.attempts
    same = len(attempts) == 1 or bool((attempts == attempts[0]).all())
    return ReceiveEvent(
        EventKind.HAND,
        group,
        out.queue,
        EventFlag.PASSED if selection.passed else EventFlag.NONE,
        ranges_of(out.offsets),
        out.serial,
        out.until_ms,
        selection.end,
        attempts[:1] if same else attempts,
    )


def highest_of(
    request: HandOutRequest,
    selections: Sequence[QueueSelection],
    rows: Sequence[NDArray[np.int64]],
) -> list[NDArray[np.int64]]:
    """The rows of the highest priority of all queues, in the order of their offsets.

    Of no more queues than the turn may still read messages of, and of ``_QUEUES_MIN`` at least.
    """
    if not selections:
        return []
    queues_max = max(_QUEUES_MIN, request.budget.things // READ_THINGS)
    several = request.in_order and request.order.several_of_a_group
    count = request.order.count_max
    priorities = np.concatenate(
        [
            _priorities_of(selection.window.rows[each], several=several)
            for selection, each in zip(selections, rows, strict=True)
        ]
    )
    places = np.concatenate([np.full(len(each), place) for place, each in enumerate(rows)])
    own = np.concatenate(rows)
    best = np.lexsort((own, places, -priorities))[:count]
    _, firsts = np.unique(places[best], return_index=True)
    if len(firsts) > queues_max:
        best = best[: np.sort(firsts)[queues_max]]
    return [np.sort(own[best[places[best] == place]]) for place in range(len(selections))]


def _priorities_of(rows: Rows, *, several: bool) -> Int64s:
    priorities: Int64s = np.ascontiguousarray(rows["priority"])
    return as_low_as_before(rows["order_key"], priorities) if several else priorities
