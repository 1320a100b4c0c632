"""What is chosen of each queue before it is handed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.offset_reading import FoundRecords
from ariane_broker.receive.handing_out.receive_order import ReceiveOrder
from ariane_broker.receive.in_hand.queue_window import QueueWindow
from ariane_storage.log.records.fields import Int64s
from ariane_storage.reading.filter import Filter


@dataclass(frozen=True, slots=True)
class HandOutRequest:
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
class QueueSelection:
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


def highest_of(
    selections: Sequence[QueueSelection], rows: Sequence[NDArray[np.int64]], count: int
) -> list[NDArray[np.int64]]:
    """The rows of the highest priority of all queues, in the order of their offsets."""
    if not selections:
        return []
    priorities = np.concatenate(
        [
            selection.window.rows["priority"][each]
            for selection, each in zip(selections, rows, strict=True)
        ]
    )
    places = np.concatenate([np.full(len(each), place) for place, each in enumerate(rows)])
    own = np.concatenate(rows)
    best = np.lexsort((own, places, -priorities))[:count]
    return [np.sort(own[best[places[best] == place]]) for place in range(len(selections))]
