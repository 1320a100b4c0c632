"""Appends copies of failed messages and dead letters, grouped by their common values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

import numpy as np

from ariane_broker.delay.delay import Delay
from ariane_broker.delay.parking import Parking
from ariane_broker.groups.consumer_groups import GroupConfig
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.queue_key import QueueKey
from ariane_broker.retry.failed_columns import FailedColumns
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.failures import Failure, ReturnLimits
from ariane_broker.retry.return_table import Returned
from ariane_broker.retry.waits import delay_of_try, wait_ms
from ariane_record import RecordTable, RecordTooLarge
from ariane_record.layout import Host
from ariane_storage.log.records.fields import Int64s
from ariane_storage.writing.append import Appended


class AppendTerms(NamedTuple):
    """The values that all failed messages of one append share."""

    attempts: int
    """Number of tries before the failed one."""
    reason: DeadLetterReason | Literal[""]
    """Why they become dead letters; empty if they are retried."""
    born_key: tuple[int, int, int]
    """Equal for messages of one born host."""


@dataclass(frozen=True, slots=True, eq=False)
class CopyAppend:
    """Appends copies and dead letters within one turn of the loop."""

    log: BrokerLog
    parking: Parking
    _: KW_ONLY
    limits: ReturnLimits
    now_ms: Callable[[], int]

    def append(
        self,
        failure: Failure,
        group: GroupConfig,
        failed: FailedColumns,
        rows: Int64s,
        *,
        terms: AppendTerms,
        queue: QueueKey,
    ) -> list[Returned]:
        """Append the copies or dead letters of some failed messages.

        Args:
            failure: How they failed.
            group: The group that failed.
            failed: The messages.
            rows: Rows of the messages to append.
            terms: The values that they share.
            queue: Their destination: a queue of the retry topic, or of the dead letters.

        Raises:
            RecordTooLarge: A record has no room for the new properties; nothing is stored.
            ServiceError: A record has no room for the properties of its delay; nothing is stored.
            StorageError: Nothing is stored.
        """
        block = self._block(failure, failed, rows, terms, queue.topic)
        born_host = failed.born_host(int(rows[0]))
        if terms.reason:
            appended, due_ms = self.log.append(block, queue.queue_id, born_host), 0
        else:
            appended, due_ms = self._park(
                failure, group, terms, block=block, queue=queue, born_host=born_host
            )
        attempts = terms.attempts + failure.local_attempts + 1
        return [
            Returned(failure.return_id, attempts, bool(terms.reason), due_ms, place)
            for place in appended.commit_log_offsets.tolist()
        ]

    def _block(
        self, failure: Failure, failed: FailedColumns, rows: Int64s, terms: AppendTerms, topic: str
    ) -> RecordTable:
        """Encode the records, without the cause of failure if it does not fit."""
        attempts = terms.attempts + failure.local_attempts + 1

        def copies(cause: str) -> RecordTable:
            return failed.copies(
                rows,
                topic,
                attempts=attempts,
                deaths=failed.deaths[rows] + failure.died,
                cause=cause,
                return_id=failure.return_id,
                reason=terms.reason,
            )

        try:
            return copies(failure.cause)
        except RecordTooLarge:
            if len(rows) > 1:
                raise
            return copies("")

    def _park(
        self,
        failure: Failure,
        group: GroupConfig,
        terms: AppendTerms,
        *,
        block: RecordTable,
        queue: QueueKey,
        born_host: Host,
    ) -> tuple[Appended, int]:
        """Park copies; returns their place and when they are due."""
        span_ms, tried = failure.wait_ms, terms.attempts + failure.local_attempts
        if span_ms is None:
            span_ms = wait_ms(group.retry_policy, tried)
        doubt, levels_ms = self.log.store.clock_doubt, self.parking.levels_ms
        delay = delay_of_try(
            span_ms,
            tried,
            now_ms=self.now_ms(),
            delay_ms_max=self.limits.delay_ms_max,
            levels_ms=levels_ms,
            is_clock_doubted=doubt is not None,
        )
        times_ms = delay.times_ms
        if times_ms is not None:
            delay = Delay(times_ms=np.repeat(times_ms, block.count))
        parked = self.parking.park(block, queue, delay)
        appended = self.log.append(parked.block, parked.queue.queue_id, born_host)
        if times_ms is not None:
            return appended, int(times_ms[0])
        ahead_ms = 0 if doubt is None else doubt.ahead_ms
        return appended, self.now_ms() - ahead_ms + levels_ms[delay.level - 1]
