"""Taking a delayed message back before it is delivered.

A note in the timer topic takes the message out, as its delivery would: whichever comes first in the
log counts. The note has RocketMQ's shape, so that RocketMQ's broker follows it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import numpy as np

from ariane_broker.delay.parked.parked_queue import rows_from
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE, TimerQueue
from ariane_broker.errors.public_errors import broker_draining, message_delivered, message_not_found
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.cold_reads import QUERIES
from ariane_record import PropertyName, RecordFields, encode_block
from ariane_record.errors import RecallHandleIllegal
from ariane_record.layout import Host
from ariane_record.single.recall_handle import RecallHandle, decode_recall_handle
from ariane_servicekit.errors import field_invalid
from ariane_storage.reading.record_finder import KeyQuery

_COPIES_MAX: Final = 64
"""Records of one unique id that are looked at: the message, copies, repeated sends, notes."""

_NOTE_BODY: Final = b"recalled"
"""RocketMQ's client refuses messages without a body."""


@dataclass(frozen=True, slots=True, eq=False)
class Recall:
    """Takes delayed messages back."""

    log: BrokerLog
    timer: TimerQueue
    _: KW_ONLY
    broker_name: str
    is_draining: Callable[[], bool]

    async def recall(self, topic: str, handle: str, born_host: Host) -> str:
        """Take a message back; repeating that changes nothing.

        Args:
            topic: The topic that the message was sent to.
            handle: The handle in the answer to its send.
            born_host: The caller's address.

        Returns:
            The message's unique id.

        Raises:
            ServiceError: FIELD_INVALID for a handle that is illegal, or of another topic or broker;
                MESSAGE_NOT_FOUND if no such message was parked; RECEIPT_HANDLE_EXPIRED if it was
                delivered.
        """
        if self.is_draining():
            raise broker_draining()
        named = self._named(topic, handle)
        records = await self._records(named)
        messages = [record for record in records if not _is_note(record)]
        waiting = [record for record in messages if self.timer.is_pending(record.queue_offset)]
        ends = [self._take_out(record, named, born_host) for record in waiting]
        if ends:
            await self.log.promised(max(ends))
        if waiting or len(messages) < len(records):
            return named.unique_id
        if messages:
            raise message_delivered(named.unique_id)
        raise message_not_found(named.unique_id)

    def _named(self, topic: str, handle: str) -> RecallHandle:
        try:
            named = decode_recall_handle(handle)
        except RecallHandleIllegal as error:
            raise field_invalid("recall_handle", str(error)) from error
        if named.topic != topic:
            raise field_invalid("topic", f"must be that of the handle, {named.topic!r}", topic)
        if named.broker_name != self.broker_name:
            rule = f"is of broker {named.broker_name!r}, and this is {self.broker_name!r}"
            raise field_invalid("recall_handle", rule)
        return named

    async def _records(self, named: RecallHandle) -> list[RecordFields]:
        """All records of a message in the timer topic: the message, its copies, and notes."""
        query = KeyQuery(TIMER_QUEUE.topic, named.unique_id, max_count=_COPIES_MAX)
        records = await self.log.cold_reads.in_turns(QUERIES, self.log.store.search_by_key(query))
        fields = {
            PropertyName.REAL_TOPIC: named.topic,
            PropertyName.UNIQUE_ID: named.unique_id,
        }
        return [record for record in records if fields.items() <= record.properties.items()]

    def _take_out(self, record: RecordFields, named: RecallHandle, born_host: Host) -> int:
        """Append a note that takes a record out; returns where the note ends."""
        kept = (
            PropertyName.REAL_TOPIC,
            PropertyName.REAL_QUEUE_ID,
            PropertyName.DELIVERY_TIME_MS,
            PropertyName.TIMER_OUT_MS,
        )
        properties = {name: record.properties[name] for name in kept if name in record.properties}
        properties[PropertyName.RECALLED_KEY] = f"{named.topic}+{named.unique_id}"
        properties[PropertyName.UNIQUE_ID] = named.unique_id
        end = int(rows_from(self.log.store, TIMER_QUEUE, record.queue_offset, 1).ends[0])
        note = RecordFields(
            topic=TIMER_QUEUE.topic,
            body=_NOTE_BODY,
            properties=properties,
            born_timestamp_ms=record.born_timestamp_ms,
            half_offset=end,
        )
        # Not that of the handle: a producer that asked for a delay only knows about when it is.
        due_ms = int(record.properties.get(PropertyName.DELIVERY_TIME_MS, named.delivery_time_ms))
        times_ms = np.array([due_ms], np.int64)
        block = replace(encode_block(TIMER_QUEUE.topic, [note]), delivery_times_ms=times_ms)
        appended = self.log.append(block, TIMER_QUEUE.queue_id, born_host)
        self.timer.mark(np.array([record.queue_offset, int(appended.first_queue_offset)]))
        return appended.next_commit_log_offset


def _is_note(record: RecordFields) -> bool:
    return PropertyName.RECALLED_KEY in record.properties
