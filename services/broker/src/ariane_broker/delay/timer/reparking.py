"""Parks waiting records of the timer topic again: at the end of the log, with their times.

This is done with records that retention would soon delete, and with records whose entries had a
wrong time. The copy names the record that it takes out, so that only one of them is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parked.parked_records import ParkedRecords, read_parked, timer_heads
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.refused_records import append_in_parts
from ariane_record.layout import PropertyName
from ariane_servicekit import get_logger
from ariane_storage.disk.cold import IN_MEMORY
from ariane_storage.log.records.fields import Int64s

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Reparking:
    """Parks records of the timer topic again."""

    log: BrokerLog
    now_ms: Callable[[], int]

    def repark_early(self, rows: ParkedRows, mark: Callable[[Int64s], None]) -> ParkedRows:
        """Park records again that are not due yet by their own properties.

        Returns:
            These records, with their times: some may not be done, see ``repark``.
        """
        with IN_MEMORY:
            records = read_parked(self.log.store, TIMER_QUEUE, rows)
        if records is None:
            return rows.take(slice(0))
        times_ms = records.times_ms()
        is_early = times_ms > self.now_ms()
        rows = rows.take(np.argsort(rows.queue_offsets))
        rows = rows.take(np.isin(rows.queue_offsets, records.queue_offsets[is_early]))
        rows.due_ms[:] = times_ms[is_early]
        self.repark(rows, mark)
        return rows

    def repark(self, rows: ParkedRows, mark: Callable[[Int64s], None]) -> int:
        """Park records again; damaged ones and those of deleted topics are done.

        A record that the store refuses waits where it is: nothing is lost, and the log is kept.

        Args:
            rows: The records.
            mark: Called with the queue offsets of records that are done.

        Returns:
            How many were parked.

        Raises:
            QueueUnderRepair: An entry is wrong; nothing was parked.
            BytesCold: The records are not in memory; nothing was parked.
            StorageError: The store accepts no more; records parked so far are marked.
        """
        if not len(rows):
            return 0
        with IN_MEMORY:
            records = read_parked(self.log.store, TIMER_QUEUE, rows)
        found = rows.queue_offsets[:0] if records is None else records.queue_offsets
        lost = rows.queue_offsets[~np.isin(rows.queue_offsets, found)]
        if len(lost):
            mark(lost)
        if records is None:
            return 0
        notes = records.notes()
        if len(notes):
            mark(found[notes])
        orphans = np.flatnonzero(records.orphans(self.log.store.deleted_end))
        if len(orphans):
            # A copy behind the deletion would pass for one of a later topic of the name.
            mark(found[orphans])
            _log.info("records_of_deleted_topics_dropped", count=len(orphans))
        hosts = records.moved.columns.headers[["born_ip", "born_port"]].tolist()
        places = np.setdiff1d(np.arange(len(found)), np.union1d(notes, orphans)).tolist()
        places.sort(key=hosts.__getitem__)
        append = partial(self._append, records, mark)
        refused: list[tuple[int, Exception]] = []
        for _, members in groupby(places, key=hosts.__getitem__):
            refused += append_in_parts(list(members), append)
        if refused:
            first, error = refused[0]
            _log.warning(
                "records_not_parked_again",
                reason=str(error),
                count=len(refused),
                **records.names(first),
            )
        return len(places) - len(refused)

    def _append(
        self, records: ParkedRecords, mark: Callable[[Int64s], None], chosen: Sequence[int]
    ) -> None:
        """Park some of the records, all of one born host, in the timer queue."""
        places = np.array(chosen, np.int64)
        moved, times_ms = records.moved, records.times_ms()[places]
        topics = map(str.encode, moved.values(PropertyName.REAL_TOPIC))
        queue_ids = map(str.encode, moved.values(PropertyName.REAL_QUEUE_ID))
        block = moved.block(
            TIMER_QUEUE.topic,
            places,
            heads=timer_heads(
                map(list(topics).__getitem__, chosen),
                map(list(queue_ids).__getitem__, chosen),
                times_ms,
            ),
            half_offsets=records.ends[places],
            delivery_times_ms=times_ms,
        )
        born_host = moved.columns.message(chosen[0]).born_host
        self.log.append(block, TIMER_QUEUE.queue_id, born_host)
        mark(records.queue_offsets[places])
