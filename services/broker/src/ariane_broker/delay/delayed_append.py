"""Appending what is to be delivered later: for sends, and for what the broker sends again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ariane_broker.delay.delay import Delay
from ariane_broker.delay.parking import Parked, Parking
from ariane_broker.groups.consumer_offsets import QueueKey
from ariane_record import ProducerSequence, RecordBlock
from ariane_record.layout import Host
from ariane_storage.log.fields import Int64s
from ariane_storage.writing.append import Appended


class AppendLog(Protocol):
    """What is asked of the store."""

    def append_block(self, block: RecordBlock, queue_id: int, *, born_host: Host = ...) -> Appended:
        """Append a block to a queue."""
        ...


class DelayedAppend:
    """Appends records that are to be delivered later.

    Attributes:
        levels_ms: How long each delay level waits, level 1 first.
    """

    def __init__(
        self,
        parking: Parking,
        log: AppendLog,
        *,
        levels_ms: tuple[int, ...],
        on_parked: Callable[[Parked, Appended], None],
    ) -> None:
        """Take the parts.

        Args:
            parking: Makes parked records.
            log: The store.
            levels_ms: See the class.
            on_parked: Is told of them: whoever delivers them.
        """
        self._parking = parking
        self._log = log
        self.levels_ms = levels_ms
        self._on_parked = on_parked

    def park(
        self,
        block: RecordBlock,
        queue: QueueKey,
        delay: Delay,
        sequence: ProducerSequence | None = None,
    ) -> Parked:
        """The records of a block as they wait for their time; see ``Parking.park``."""
        return self._parking.park(block, queue, delay, sequence)

    def check_staged(self, block: RecordBlock, times_ms: Int64s) -> None:
        """See that records could be parked one day; see ``Parking.check_staged``."""
        self._parking.check_staged(block, times_ms)

    def park_staged(
        self, block: RecordBlock, queue_ids: Int64s, times_ms: Int64s, *, half_offset: int
    ) -> Parked:
        """Records of a batch as they wait for their times; see ``Parking.park_staged``."""
        return self._parking.park_staged(block, queue_ids, times_ms, half_offset=half_offset)

    def append(self, parked: Parked, *, born_host: Host) -> Appended:
        """Append parked records, in this turn of the loop.

        Under synchronous flush the caller waits for ``next_commit_log_offset`` before he says that
        they are safe.

        Args:
            parked: From ``park``.
            born_host: Where the producer was seen.

        Raises:
            StorageError: As ``Store.append_block``; nothing is stored.
        """
        appended = self._log.append_block(parked.block, parked.queue.queue_id, born_host=born_host)
        self._on_parked(parked, appended)
        return appended
