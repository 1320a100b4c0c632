"""Taking failed messages back: for another try later, or as dead letters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from ariane_broker.append import AppendWatch
from ariane_broker.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.delay.delay import DeliveryTimes
from ariane_broker.delay.delayed_append import DelayedAppend
from ariane_broker.errors import broker_draining, message_illegal, message_not_found
from ariane_broker.readable_topics import readable_topic
from ariane_broker.retry.failed_records import (
    DeadLetterReason,
    Trial,
    consumer_deaths,
    dead_letter,
    retry_copy,
    without_cause,
)
from ariane_broker.retry.return_table import Returned, ReturnTable
from ariane_broker.retry.waits import delay_of_try, wait_ms
from ariane_broker.topic_table import TopicConfig, TopicTable
from ariane_broker.transactions.writing import TransactionLog
from ariane_record import RecordBlock, RecordFields, RecordTooLarge
from ariane_record.block import encode_block
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_storage.append import Appended
from ariane_storage.errors import RecordNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A message that a group failed on.

    Attributes:
        consumer_group: The group.
        topic: The topic that it was read from.
        queue_id: The queue that it was read from.
        commit_log_offset: Of its record.
        wait_ms: Before the next try; None leaves it to the group's policy.
        reason: Why it shall become a dead letter at once; None when it need not.
        cause: Why it failed, for people.
        attempts_max: The client's own limit of tries after the first; 0 is the group's.
        local_attempts: Earlier tries that nobody returned.
        return_id: The client's name for this return; perhaps empty.
        died: Whether its consumer died of it, and nobody returned it.
    """

    consumer_group: str
    topic: str
    queue_id: int
    commit_log_offset: int
    wait_ms: int | None = None
    reason: DeadLetterReason | None = None
    cause: str = ""
    attempts_max: int = 0
    local_attempts: int = 0
    return_id: str = ""
    died: bool = False


@dataclass(frozen=True, slots=True)
class ReturnLimits:
    """What bounds a return.

    Attributes:
        delay_ms_max: The longest wait for another try.
        deaths_max: How many of its consumers may die of a message; 0: no own limit.
    """

    delay_ms_max: int
    deaths_max: int = 0


class MessageReturns:
    """Takes failed messages back."""

    def __init__(
        self,
        log: TransactionLog,
        watch: AppendWatch,
        delayed: DelayedAppend,
        table: ReturnTable,
        *,
        topics: TopicTable,
        groups: ConsumerGroups,
        limits: ReturnLimits,
        make_topic: Callable[[str], Awaitable[TopicConfig]],
        is_draining: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """Take the parts.

        Args:
            log: Where copies and dead letters go.
            watch: Is told of copies that are parked.
            delayed: Parks copies.
            table: The last returns.
            topics: The topics of this broker.
            groups: Its consumer groups.
            limits: What bounds a return.
            make_topic: Makes a topic of a group, unless it stands.
            is_draining: Whether the broker takes nothing more.
            now_ms: Milliseconds since the epoch.
        """
        self._log = log
        self._watch = watch
        self._delayed = delayed
        self._table = table
        self._topics = topics
        self._groups = groups
        self._limits = limits
        self._make_topic = make_topic
        self._is_draining = is_draining
        self._now_ms = now_ms

    async def take_back(self, failure: Failure) -> tuple[Returned, bool]:
        """Take a failed message back.

        Returns:
            What became of it, and whether that was so before.

        Raises:
            ServiceError: GROUP_NOT_FOUND, MESSAGE_NOT_FOUND, what forbids the group to read the
                topic, MESSAGE_ILLEGAL, SERVICE_DRAINING, FLUSH_UNCONFIRMED.
            StorageError: It is not taken back.
        """
        if self._is_draining():
            raise broker_draining()
        group = self._groups.get(failure.consumer_group)
        returned = self._known(failure)
        if returned is None:
            failed = await self._failed_record(failure)
            reason = self._dead_letter_reason(failure, failed, group)
            name_topic = retry_topic if reason is None else dead_letter_topic
            config = await self._make_topic(name_topic(failure.consumer_group))
            # Meanwhile the same return may have come by another way.
            returned = self._known(failure)
            if returned is None:
                returned = self._store(failure, failed, reason, config, group)
                await self._promised(returned)
                return returned, False
        await self._promised(returned)
        return returned, True

    def _known(self, failure: Failure) -> Returned | None:
        return self._table.duplicate_of(
            failure.consumer_group, failure.commit_log_offset, failure.return_id
        )

    async def _failed_record(self, failure: Failure) -> RecordFields:
        """The record that failed.

        Raises:
            ServiceError: MESSAGE_NOT_FOUND, or what forbids the group to read the topic.
        """
        readable_topic(self._topics, failure.topic, failure.consumer_group)
        place = failure.commit_log_offset
        try:
            failed = await self._log.message_at(place)
        except RecordNotFound:
            raise message_not_found(f"@{place}") from None
        if (failed.topic, failed.queue_id) != (failure.topic, failure.queue_id):
            raise message_not_found(f"@{place}")
        return failed

    def _store(
        self,
        failure: Failure,
        failed: RecordFields,
        reason: DeadLetterReason | None,
        config: TopicConfig,
        group: GroupConfig,
    ) -> Returned:
        """Append the copy or the dead letter, in this turn of the loop."""
        group_name = failure.consumer_group
        attempts = failed.attempts + failure.local_attempts + 1
        return_id = failure.return_id
        trial = Trial(
            attempts=attempts,
            deaths=consumer_deaths(failed, group_name) + failure.died,
            cause=failure.cause,
            return_id=return_id,
        )
        queue = QueueKey(config.topic, failed.queue_id % max(1, config.write_queue_count))
        if reason is not None:
            block = _block(queue.topic, dead_letter(failed, group_name, reason, trial))
            appended = self._log.append(block, queue.queue_id, failed.born_host)
            due_ms = 0
        else:
            block = _block(queue.topic, retry_copy(failed, group_name, trial))
            appended, due_ms = self._park(failure, failed, block, queue, group)
        place = int(appended.first_commit_log_offset)
        returned = Returned(return_id, attempts, reason is not None, due_ms, place)
        self._table.remember(group_name, failure.commit_log_offset, returned)
        return returned

    def _park(
        self,
        failure: Failure,
        failed: RecordFields,
        block: RecordBlock,
        queue: QueueKey,
        group: GroupConfig,
    ) -> tuple[Appended, int]:
        """Park the copy; where it lies, and when it is due."""
        wait = failure.wait_ms
        tried = failed.attempts + failure.local_attempts
        if wait is None:
            wait = wait_ms(group.retry_policy, tried)
        delay = delay_of_try(
            wait,
            tried,
            now_ms=self._now_ms(),
            delay_ms_max=self._limits.delay_ms_max,
            level_count=len(self._delayed.levels_ms),
        )
        parked = self._delayed.park(block, queue, delay)
        begin = self._watch.monotonic()
        appended = self._delayed.append(parked, born_host=failed.born_host)
        self._watch.appended(parked.queue, appended, parked.block.size_bytes, begin)
        self._watch.on_growth(appended.next_commit_log_offset)
        if isinstance(delay, DeliveryTimes):
            return appended, int(np.min(delay.times_ms))
        return appended, appended.store_timestamp_ms + self._delayed.levels_ms[delay.level - 1]

    async def _promised(self, returned: Returned) -> None:
        end = min(self._log.log.max_offset, returned.commit_log_offset + 1)
        await self._log.promised(end)

    def _dead_letter_reason(
        self, failure: Failure, failed: RecordFields, group: GroupConfig
    ) -> DeadLetterReason | None:
        """Why a message becomes a dead letter now; None when it is tried again."""
        if failure.reason is not None:
            return failure.reason
        attempts_max = failure.attempts_max or group.attempts_max
        exhausted = failed.attempts + failure.local_attempts >= attempts_max
        if failure.died:
            deaths = consumer_deaths(failed, failure.consumer_group) + 1
            exhausted = exhausted or 0 < self._limits.deaths_max <= deaths
            return DeadLetterReason.CONSUMER_DIED if exhausted else None
        return DeadLetterReason.ATTEMPTS_EXHAUSTED if exhausted else None


def _block(topic: str, record: RecordFields) -> RecordBlock:
    """A block of one record, without its cause where that is too much.

    Raises:
        ServiceError: MESSAGE_ILLEGAL when the message has no room for what is said of it.
    """
    try:
        return encode_block(topic, [record])
    except RecordTooLarge:
        try:
            return encode_block(topic, [without_cause(record)])
        except RecordTooLarge as error:
            raise message_illegal(0, f"{error}, those of its return included") from error
