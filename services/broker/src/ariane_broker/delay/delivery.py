"""Delivery of parked records to the topic and queue that they were sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

import numpy as np

from ariane_broker.delay.lateness import Lateness
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parked.parked_records import ParkedRecords, read_parked
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.refused_records import append_in_parts
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record.layout import PropertyName
from ariane_servicekit import get_logger
from ariane_storage.disk.cold import IN_MEMORY
from ariane_storage.log.records.fields import Int64s

_log = get_logger(__name__)


class Delivery:
    """Appends due records to their destinations."""

    def __init__(self, log: BrokerLog, find_topic: Callable[[str], TopicConfig | None]) -> None:
        self._log = log
        self._find_topic = find_topic
        self.delivered_count = 0
        """Messages delivered since the start."""
        self.dropped_count = 0
        """Messages that could not be delivered: their topic is gone, they are damaged, or the store
        refuses them."""
        self.lateness = Lateness()
        """How late they were."""

    def deliver(self, queue: QueueKey, rows: ParkedRows, mark: Callable[[Int64s], None]) -> None:
        """Deliver records of one parked queue.

        Records of one connection for the same destination keep the order of ``rows``. A block has
        one ``born_host``, so records of several connections are not interleaved: the connection
        whose first record was parked first comes first.

        Args:
            queue: The queue in which they are parked.
            rows: The due records.
            mark: Called at once with the queue offsets of records that are done.

        Raises:
            QueueUnderRepair: An entry points to a wrong place; nothing was delivered.
            BytesCold: The records are not in memory; nothing was delivered.
            StorageError: The store accepts no more; delivered records are marked.
        """
        with IN_MEMORY:
            parked = read_parked(self._log.store, queue, rows)
        found = rows.queue_offsets[:0] if parked is None else parked.queue_offsets
        self._drop(rows.queue_offsets[~np.isin(rows.queue_offsets, found)], "damaged", mark)
        if parked is None:
            return
        notes = parked.notes()
        if len(notes):
            mark(found[notes])
            rows = rows.take(~np.isin(rows.queue_offsets, found[notes]))
        orphans = parked.orphans(self._log.store.deleted_end)
        if orphans.any():
            self._drop(found[orphans], "their topic was deleted", mark)
            rows = rows.take(~np.isin(rows.queue_offsets, found[orphans]))
        # From the order of the log back to the order of ``rows``.
        place_of = dict(zip(found.tolist(), range(len(found)), strict=True))
        wanted = filter(place_of.__contains__, rows.queue_offsets.tolist())
        self._deliver_groups(parked, list(map(place_of.__getitem__, wanted)), mark)

    def _deliver_groups(
        self, parked: ParkedRecords, places: list[int], mark: Callable[[Int64s], None]
    ) -> None:
        moved = parked.moved
        hosts = moved.columns.headers[["born_ip", "born_port"]].tolist()
        going = list(
            zip(
                moved.values(PropertyName.REAL_TOPIC),
                moved.values(PropertyName.REAL_QUEUE_ID),
                hosts,
                strict=True,
            )
        )
        # Records with one destination are grouped without a Python step for each row.
        destinations = list(map(going.__getitem__, places))
        rank_of_destination = dict(
            zip(reversed(destinations), range(len(destinations), 0, -1), strict=True)
        )
        rank_of = dict(zip(places, map(rank_of_destination.__getitem__, destinations), strict=True))
        places.sort(key=rank_of.__getitem__)
        for (topic, queue_id, _), members in groupby(places, key=going.__getitem__):
            chosen = list(members)
            queue = self._target(topic, queue_id)
            if queue is None:
                self._drop(parked.queue_offsets[chosen], f"no topic {topic!r}", mark)
                continue
            append = partial(self._append, parked, queue, mark)
            for place, error in append_in_parts(chosen, append):
                names = parked.names(place)
                self._drop(parked.queue_offsets[[place]], str(error), mark, **names)

    def _append(
        self,
        parked: ParkedRecords,
        queue: QueueKey,
        mark: Callable[[Int64s], None],
        chosen: Sequence[int],
    ) -> None:
        """Deliver some of the records, all of one born host, to one queue."""
        places = np.array(chosen, np.int64)
        block = parked.moved.block(
            queue.topic, places, heads=parked.heads(places), half_offsets=parked.ends[places]
        )
        born_host = parked.moved.columns.message(chosen[0]).born_host
        appended = self._log.append(block, queue.queue_id, born_host)
        mark(parked.queue_offsets[places])
        self.delivered_count += len(places)
        parked_ms = parked.moved.columns.headers["store_timestamp"][places].astype(np.int64)
        self.lateness.delivered(parked.due_ms[places], parked_ms, appended.store_timestamp_ms)

    def _target(self, topic: str, queue_id: str) -> QueueKey | None:
        """The destination queue; a queue that no longer exists is replaced by an existing one."""
        config = self._find_topic(topic)
        if config is None or not queue_id.isdecimal():
            return None
        return QueueKey(topic, config.standing_queue(int(queue_id)))

    def _drop(
        self, queue_offsets: Int64s, reason: str, mark: Callable[[Int64s], None], **names: object
    ) -> None:
        if not len(queue_offsets):
            return
        mark(queue_offsets)
        self.dropped_count += len(queue_offsets)
        _log.warning(
            "delayed_messages_dropped",
            reason=reason,
            count=len(queue_offsets),
            first_queue_offset=int(queue_offsets[0]),
            **names,
        )
