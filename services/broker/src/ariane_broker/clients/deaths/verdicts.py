"""Decides about a message that killed a member: whether this was a failed attempt, or the last one.

If the group consumes in order, the message stays in its place, and its deaths are counted there.
Otherwise it is sent back as if its listener had failed, and the rest of its queue goes on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ariane_broker.clients.deaths.suspicions import Suspicions
from ariane_broker.clients.deaths.vanished_members import SingleMessageDeath, VanishedMembers
from ariane_broker.durable.saved_state import SavedState
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.retry.failed_records import DeadLetterReason
from ariane_broker.retry.failures import FailedPlace, Failure
from ariane_broker.retry.return_table import Returned
from ariane_broker.retry.returning import MessageReturns
from ariane_record import ConsumerOffset, RecordFields
from ariane_record.decoding.columns import decode_columns
from ariane_servicekit import get_logger
from ariane_servicekit.errors import ServiceError
from ariane_storage.errors import StorageError
from ariane_storage.store import Store

_log = get_logger(__name__)


class DeathVerdicts:
    """Decides about messages that killed consumers."""

    def __init__(
        self,
        members: VanishedMembers,
        suspicions: Suspicions,
        saved: SavedState,
        *,
        store: Store,
        offsets: ConsumerOffsets,
        saved_offsets: SavedState,
        groups: ConsumerGroups,
        returns: MessageReturns,
        statistics: BrokerStatistics,
        deaths_max: int,
        message_bytes_max: int,
    ) -> None:
        self._members = members
        self._suspicions = suspicions
        self._saved = saved
        self._store = store
        self._offsets = offsets
        self._saved_offsets = saved_offsets
        self._groups = groups
        self._returns = returns
        self._statistics = statistics
        self._deaths_max = deaths_max
        self._bytes_max = 2 * message_bytes_max

    async def turn(self) -> None:
        """Decide about all deaths that are certain now, and save the suspicions."""
        for death in self._members.due_deaths():
            try:
                await self._judge(death)
            except (ServiceError, StorageError) as error:
                # The message is delivered again, alone, and the next death by it is counted.
                _log.warning("consumer_death_not_counted", cause=str(error), **_names(death))
            finally:
                self._members.judged(death)
        await self._saved.save()

    async def _judge(self, death: SingleMessageDeath) -> None:
        message = self._message(death)
        if message is None or not self._is_next(death):
            return  # Another member went on, or the offset was reset, meanwhile.
        self._statistics.counted_death_count += 1
        if death.ordered:
            await self._count_in_place(death, message)
        else:
            await self._send_back(death, message)

    async def _send_back(self, death: SingleMessageDeath, message: RecordFields) -> None:
        returned = await self._take_back(_failure(death), message)
        _log.warning(
            "consumer_death_counted",
            attempts=returned.attempts,
            dead_letter=returned.dead_letter,
            **_names(death),
        )
        await self._pass(death)

    async def _count_in_place(self, death: SingleMessageDeath, message: RecordFields) -> None:
        """Count a death by a message that stays in its place until it becomes a dead letter."""
        place, queue_offset = death.place, death.queue_offset
        known = self._suspicions.find(place)
        count = known.deaths_of(queue_offset) + 1
        attempts_max = self._groups.get(place.consumer_group).ordered_attempts_max
        tried = message.attempts + count - 1
        dead_letter = count >= self._deaths_max or tried >= attempts_max
        _log.warning(
            "consumer_death_counted", attempts=tried + 1, dead_letter=dead_letter, **_names(death)
        )
        if dead_letter:
            failure = replace(
                _failure(death), reason=DeadLetterReason.CONSUMER_DIED, local_attempts=count - 1
            )
            await self._take_back(failure, message)
            await self._pass(death)
            return
        self._suspicions.put(
            place,
            replace(
                known,
                alone_end=max(known.alone_end, queue_offset + 1),
                death_offset=queue_offset,
                death_count=count,
            ),
        )
        self._saved.mark_changed()

    async def _take_back(self, failure: Failure, message: RecordFields) -> Returned:
        place = FailedPlace(message.queue_offset, message.commit_log_offset)
        (outcome,) = await self._returns.take_back(failure, [place])
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome.returned

    async def _pass(self, death: SingleMessageDeath) -> None:
        """Let the group go on behind the message."""
        if self._is_next(death):
            behind = ConsumerOffset(death.queue_offset + 1)
            self._offsets.put(*death.place, behind)
            self._suspicions.passed(death.place, behind)
            self._saved.mark_changed()
            self._saved_offsets.mark_changed()
            await self._saved_offsets.save()

    def _is_next(self, death: SingleMessageDeath) -> bool:
        return self._offsets.find(*death.place) == death.queue_offset

    def _message(self, death: SingleMessageDeath) -> RecordFields | None:
        read = self._store.read_queue(
            *death.place.queue, death.queue_offset, max_count=1, max_bytes=self._bytes_max
        )
        if not read.count:
            return None
        columns = decode_columns(b"".join(read.chunks), read.sizes.astype(np.int32))
        return columns.message(0)


def _failure(death: SingleMessageDeath) -> Failure:
    return Failure(
        consumer_group=death.place.consumer_group,
        topic=death.place.queue.topic,
        queue_id=death.place.queue.queue_id,
        cause=f"consumer {death.client_id} died while it had this message, and no other, in work",
        died=True,
    )


def _names(death: SingleMessageDeath) -> dict[str, object]:
    queue = death.place.queue
    return {
        "client_id": death.client_id,
        "consumer_group": death.place.consumer_group,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "queue_offset": death.queue_offset,
    }
