"""Takes failed messages back: for another try later, or as dead letters."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import groupby
from typing import Final

import numpy as np

from ariane_broker.errors.public_errors import broker_draining, message_illegal, message_not_found
from ariane_broker.filters.living_origins import of_deleted_origins
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.refused_records import REFUSALS, append_in_parts
from ariane_broker.queue_key import QueueKey
from ariane_broker.retry.copy_append import AppendTerms, CopyAppend
from ariane_broker.retry.failed_columns import FailedColumns
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.failures import FailedPlace, Failure, ReturnLimits, ReturnOutcome
from ariane_broker.retry.queue_log import SLICE_BYTES, SLICE_COUNT
from ariane_broker.retry.return_table import ReturnTable
from ariane_broker.topics.readable_topics import readable_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.names import RETRY_PREFIX, dead_letter_topic, retry_topic
from ariane_servicekit.errors import ServiceError
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.errors import RecordNotFound

SLICE_SPAN: Final = 512
"""How far the messages of one slice may lie apart in their queue: all in between is read."""


@dataclass(frozen=True, slots=True)
class _Return:
    """A return in progress."""

    failure: Failure
    """The failure of the messages."""
    group: GroupConfig
    """The group that failed."""
    outcomes: dict[FailedPlace, ReturnOutcome | ServiceError] = field(default_factory=dict)
    """The outcome of each so far, or why it is not taken back."""

    def topic_for(self, terms: AppendTerms) -> str:
        """The destination topic."""
        name_topic = dead_letter_topic if terms.reason else retry_topic
        return name_topic(self.failure.consumer_group)


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some of its messages."""

    failed: FailedColumns
    """Their records."""
    row_of: Mapping[FailedPlace, int]
    """The record of each message."""
    terms: Sequence[AppendTerms]
    """How each record is appended."""

    def terms_of(self, place: FailedPlace) -> AppendTerms:
        """How a message is appended."""
        return self.terms[self.row_of[place]]


@dataclass(frozen=True, slots=True, eq=False)
class MessageReturns:
    """Takes failed messages back."""

    log: BrokerLog
    copies: CopyAppend
    table: ReturnTable
    _: KW_ONLY
    topics: TopicTable
    groups: ConsumerGroups
    limits: ReturnLimits
    make_topic: Callable[[str], Awaitable[TopicConfig]]
    """Creates a topic of a group if it is missing."""
    is_draining: Callable[[], bool]

    async def take_back_at(self, failure: Failure, commit_log_offset: int) -> ReturnOutcome:
        """Take back one failed message whose queue offset is not known.

        Raises:
            ServiceError: As ``take_back``, or the error of this message.
            StorageError: The message is not taken back.
        """
        self.groups.get(failure.consumer_group)
        place = FailedPlace(0, commit_log_offset)
        if self._known(failure, place) is None:
            readable_topic(self.topics, failure.topic, failure.consumer_group)
            try:
                failed = await self.log.message_at(commit_log_offset)
            except RecordNotFound:
                raise message_not_found(f"@{commit_log_offset}") from None
            if (failed.topic, failed.queue_id) != (failure.topic, failure.queue_id):
                raise message_not_found(f"@{commit_log_offset}")
            place = FailedPlace(failed.queue_offset, commit_log_offset)
        (outcome,) = await self.take_back(failure, [place])
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome

    async def take_back(
        self, failure: Failure, places: Sequence[FailedPlace]
    ) -> list[ReturnOutcome | ServiceError]:
        """Take failed messages of one queue back.

        Returns:
            The outcome of each, or why it is not taken back: MESSAGE_NOT_FOUND, MESSAGE_ILLEGAL.

        Raises:
            ServiceError: GROUP_NOT_FOUND, why the group may not read the topic, SERVICE_DRAINING,
                FLUSH_UNCONFIRMED.
                SERVICE_DRAINING, FLUSH_UNCONFIRMED.
            StorageError: Some messages are not taken back.
        """
        work = _Return(failure, self.groups.get(failure.consumer_group))
        left: Sequence[FailedPlace] = self._not_known(work, sorted(set(places)))
        await self.handed_out(left)
        while True:
            if self.is_draining():
                raise broker_draining()
            if not (left := self._not_known(work, left)):
                break
            readable_topic(self.topics, failure.topic, failure.consumer_group)
            try:
                left = await self._take_slice(work, left)
            except BytesCold as cold:
                await self.log.cold_reads.fetch(failure.consumer_group, cold)
            await asyncio.sleep(0)
        await self._promised(work.outcomes.values())
        return [work.outcomes[place] for place in places]

    async def handed_out(self, places: Sequence[FailedPlace]) -> None:
        """Wait until messages of this log may be handed out here.

        The primary before may have handed out messages that are not confirmed here yet: they exist.

        Raises:
            ServiceError: FLUSH_UNCONFIRMED.
        """
        end = self.log.store.max_offset
        offsets = (place.commit_log_offset for place in places)
        await self.log.confirmed(max((each for each in offsets if each < end), default=-1))

    def _known(self, failure: Failure, place: FailedPlace) -> ReturnOutcome | None:
        known = self.table.duplicate_of(
            failure.consumer_group, place.commit_log_offset, failure.return_id
        )
        return None if known is None else ReturnOutcome(known, duplicate=True)

    def _not_known(self, work: _Return, places: Sequence[FailedPlace]) -> list[FailedPlace]:
        """The messages that were not taken back before."""
        new = []
        for place in places:
            known = self._known(work.failure, place)
            if known is None:
                new.append(place)
            else:
                work.outcomes[place] = known
        return new

    async def _take_slice(
        self, work: _Return, places: Sequence[FailedPlace]
    ) -> Sequence[FailedPlace]:
        """Take the first messages back; returns the rest.

        Raises:
            BytesCold: The messages are not in memory; none was taken back.
        """
        span = (places[0].queue_offset + SLICE_SPAN,)
        count = bisect_left(places[:SLICE_COUNT], span)
        columns, end = self._read(work.failure, places[:count])
        count = max(1, bisect_left(places[:count], (end,)))
        row_of: dict[FailedPlace, int] = {}
        if columns is not None:
            offsets = columns.queue_offset.tolist(), columns.commit_log_offset.tolist()
            row_of = dict(zip(map(FailedPlace, *offsets), range(len(columns)), strict=True))
            if work.failure.topic.startswith(RETRY_PREFIX):
                gone = of_deleted_origins(columns, self.log.store.copying.deleted_topic_ends)
                row_of = {place: row for place, row in row_of.items() if not gone[row]}
        for missing in [place for place in places[:count] if place not in row_of]:
            work.outcomes[missing] = message_not_found(f"@{missing.commit_log_offset}")
        found = [place for place in places[:count] if place in row_of]
        if columns is not None and found:
            failed = FailedColumns(columns, work.failure.topic, work.failure.consumer_group)
            terms = self._terms(work, failed)
            await self._take_found(work, _Slice(failed, row_of, terms), found)
        return places[count:]

    def _read(
        self, failure: Failure, places: Sequence[FailedPlace]
    ) -> tuple[RecordColumns | None, int]:
        """Read the records from the first place to the last, as far as one read goes.

        Returns:
            The records, or None if there are none, and the queue offset behind them.
        """
        queue = QueueKey(failure.topic, failure.queue_id)
        first, last = places[0].queue_offset, places[-1].queue_offset
        low, high = self.log.store.queue_bounds(*queue)
        if not low <= first < high:
            return None, first + 1
        with IN_MEMORY:
            read = self.log.store.read_queue(
                *queue, first, max_count=last - first + 1, max_bytes=SLICE_BYTES
            )
        end = max(int(read.next_queue_offset), first + 1)
        if not read.count:
            return None, end
        # A copy: the log may delete them while a topic is created.
        return decode_columns(b"".join(read.chunks), read.sizes.astype(np.int32)), end

    def _terms(self, work: _Return, failed: FailedColumns) -> list[AppendTerms]:
        """How each record is appended, by its limits or as the client asked."""
        failure, deaths_max = work.failure, self.limits.deaths_max
        attempts_max = failure.attempts_max or work.group.attempts_max
        exhausted = failed.attempts + failure.local_attempts >= attempts_max
        reason = failure.reason or DeadLetterReason.ATTEMPTS_EXHAUSTED
        if failure.died:
            reason = DeadLetterReason.CONSUMER_DIED
            if deaths_max:
                exhausted |= failed.deaths + 1 >= deaths_max
        if failure.reason is not None:
            exhausted[:] = True
        return [
            AppendTerms(attempts, reason if dead else "", born_key)
            for attempts, dead, born_key in zip(
                failed.attempts.tolist(), exhausted.tolist(), failed.born_keys, strict=True
            )
        ]

    async def _take_found(self, work: _Return, part: _Slice, places: Sequence[FailedPlace]) -> None:
        names = {work.topic_for(part.terms_of(place)) for place in places}
        configs = {name: await self.make_topic(name) for name in sorted(names)}
        # Meanwhile another call may have made the same returns.
        places = self._not_known(work, places)
        for terms, members in groupby(sorted(places, key=part.terms_of), key=part.terms_of):
            config = configs[work.topic_for(terms)]
            count = max(1, config.write_queue_count)
            queue = QueueKey(config.topic, work.failure.queue_id % count)
            store = partial(self._store, work, part, queue)
            for place, error in append_in_parts(list(members), store, (*REFUSALS, ServiceError)):
                work.outcomes[place] = _refusal(error)

    def _store(
        self, work: _Return, part: _Slice, queue: QueueKey, places: Sequence[FailedPlace]
    ) -> None:
        """Append the messages that share their values, in this turn of the loop."""
        rows = np.array([part.row_of[place] for place in places], np.int64)
        stored = self.copies.append(
            work.failure,
            work.group,
            part.failed,
            rows,
            terms=part.terms_of(places[0]),
            queue=queue,
        )
        for place, returned in zip(places, stored, strict=True):
            self.table.remember(work.failure.consumer_group, place.commit_log_offset, returned)
            work.outcomes[place] = ReturnOutcome(returned, duplicate=False)

    async def _promised(self, outcomes: Iterable[ReturnOutcome | ServiceError]) -> None:
        """Wait until the promise holds for all that is stored."""
        offsets = [
            outcome.returned.commit_log_offset
            for outcome in outcomes
            if not isinstance(outcome, ServiceError)
        ]
        if offsets:
            await self.log.promised(min(self.log.store.max_offset, max(offsets) + 1))


def _refusal(error: Exception) -> ServiceError:
    """The error for a message that cannot be taken back."""
    if isinstance(error, ServiceError):
        return error
    return message_illegal(0, f"{error}, those of its return included")
