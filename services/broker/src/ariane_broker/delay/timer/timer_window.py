"""Parked records that are due soon, in memory, in the order of their times.

Records come in batches, each of which is sorted and kept as a run. Runs of like size are merged, so
that there are few of them, and a record is sorted again only as often as its run doubles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_storage.log.records.fields import Int64s


class TimerWindow:
    """Parked records, and which of them are due."""

    def __init__(self) -> None:
        """Without any record."""
        self._runs: list[ParkedRows] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def next_due_ms(self) -> int | None:
        """When the first record is due; None when there is none."""
        return min((int(run.due_ms[0]) for run in self._runs), default=None)

    def holds(self, queue_offsets: Int64s) -> NDArray[np.bool_]:
        """Which of some records it has."""
        return np.isin(queue_offsets, joined(self._runs).queue_offsets)

    def add(self, rows: ParkedRows) -> None:
        """Take records in."""
        run = _sorted(rows) if len(rows) else None
        while run is not None and self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = _sorted(joined((self._runs.pop(), run)))
        if run is not None:
            self._runs.append(run)

    def take_due(self, now_ms: int, count: int) -> ParkedRows:
        """Take out the first records that are due, in the order of their times, then of arrival.

        Args:
            now_ms: Those due by then.
            count: At most so many.
        """
        first = _sorted(
            joined([run.take(slice(_count_due(run, now_ms, count))) for run in self._runs])
        )
        if not len(first):
            return first
        last_ms = int(first.due_ms[:count][-1])
        taken: list[ParkedRows] = []
        left: list[ParkedRows] = []
        # All that is due before the last one, and of its own time what there is room for.
        room = count - int(np.searchsorted(first.due_ms, last_ms))
        for run in self._runs:
            begin = int(np.searchsorted(run.due_ms, last_ms))
            same = min(room, _count_due(run, last_ms, len(run)) - begin)
            room -= same
            taken.append(run.take(slice(begin + same)))
            left.append(run.take(slice(begin + same, None)))
        self._runs = list(filter(len, left))
        rows = joined(taken)
        return rows.take(np.lexsort((rows.queue_offsets, rows.due_ms)))

    def cut(self, count: int) -> tuple[ParkedRows, int]:
        """Take out what is due last, so that hardly more than a number of records is left.

        Returns:
            The entries that were taken out, and the time up to which all entries stayed.
        """
        rows = joined(self._runs)
        if len(rows) <= count:
            return rows.take(slice(0)), int(rows.due_ms.max(initial=0))
        # Those of one time stay together.
        horizon_ms = int(np.partition(rows.due_ms, count - 1)[count - 1])
        stays = rows.due_ms <= horizon_ms
        self._runs = [_sorted(rows.take(stays))]
        return rows.take(~stays), horizon_ms


def joined(parts: Sequence[ParkedRows]) -> ParkedRows:
    """Records of several parts."""
    if len(parts) == 1:
        return parts[0]
    return ParkedRows(
        np.concatenate([part.queue_offsets for part in parts] or [np.empty(0, np.int64)]),
        np.concatenate([part.commit_log_offsets for part in parts] or [np.empty(0, np.int64)]),
        np.concatenate([part.sizes for part in parts] or [np.empty(0, np.int64)]),
        np.concatenate([part.due_ms for part in parts] or [np.empty(0, np.int64)]),
    )


def _sorted(rows: ParkedRows) -> ParkedRows:
    # Takes runs that are sorted already for what they are.
    return rows.take(np.argsort(rows.due_ms, kind="stable"))


def _count_due(run: ParkedRows, now_ms: int, count_max: int) -> int:
    """How many records of a sorted run are due by a time, up to a number."""
    return min(count_max, int(np.searchsorted(run.due_ms, now_ms, side="right")))
