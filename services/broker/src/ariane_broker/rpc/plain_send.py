"""Sending plain messages, one by one, as generated clients do; they are appended like batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ariane.common.v1.message_pb2 import Message
from ariane_broker.append.append import AppendRecords
from ariane_broker.append.rows import Rows, RowTerms
from ariane_broker.errors.public_errors import message_type_mismatch
from ariane_broker.log.promise import AcknowledgedLevel, Demand
from ariane_broker.rpc.translation.delay_wire import delay_of
from ariane_broker.rpc.translation.stored_message import EncodingDefaults, encoded_message, type_of
from ariane_broker.topics.topic_changes import TopicChanges, check_user_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_ordering import group_position
from ariane_record import ProducerSequence, RecordFields, RecordTable
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.row_encoder import MessageRow, encode_rows
from ariane_record.layout import Host
from ariane_record.names import TRACE_PARENT, TRACE_TOPIC
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_record.single.producer_sequence import SEQUENCE_BYTES
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.security.gate.asking import user_name
from ariane_storage.writing.append import Appended

MESSAGES_MAX: Final = 4096
"""Plain messages of one call: each is encoded by itself, on the loop."""


@dataclass(frozen=True, slots=True)
class PlainSent:
    """The outcome of plain messages that were stored."""

    unique_ids: list[str]
    """Unique id of each message, as given or as filled in here."""
    queue_id: int
    """The queue of all of them."""
    appended: Appended
    """Their offsets."""
    level: AcknowledgedLevel
    """The acknowledged level."""
    duplicate: bool
    """Whether they were stored by an earlier request."""


class SendMessages:
    """Encodes plain messages and appends them."""

    def __init__(
        self,
        append_records: AppendRecords,
        topics: TopicChanges,
        *,
        message_at: Callable[[int], RecordFields],
        unique_ids: UniqueIdGenerator,
        now_ms: Callable[[], int],
        body_bytes_max: int,
        call_bytes_max: int,
        cluster_name: str,
    ) -> None:
        """``call_bytes_max`` bounds all records of a call."""
        self._append_records = append_records
        self._topics = topics
        self._message_at = message_at
        self._unique_ids = unique_ids
        self._now_ms = now_ms
        self._body_bytes_max = body_bytes_max
        self._call_bytes_max = call_bytes_max
        self._cluster_name = cluster_name
        self._turn = 0

    async def send(
        self,
        topic: str,
        queue_id: int | None,
        messages: Sequence[Message],
        born_host: Host,
        sequence: ProducerSequence | None = None,
        *,
        demand: Demand | None = None,
        half_group: str = "",
    ) -> PlainSent:
        """Send messages to one queue, in order, all or none.

        Args:
            topic: The topic of all of them.
            queue_id: The queue; None lets the broker choose.
            messages: At least one.
            born_host: The producer's address.
            sequence: Their number in the producer's stream to this queue; None stores every
                request.
            demand: The level wanted beyond the broker's own promise.
            half_group: The producer group of the only one, a half message; empty for others.

        Raises:
            ServiceError: As ``AppendRecords.append`` for the call and for its one batch,
                MESSAGE_ILLEGAL, MESSAGE_TOO_LARGE or FIELD_INVALID.
        """
        if not 1 <= len(messages) <= MESSAGES_MAX:
            raise field_invalid("messages", f"must be 1 to {MESSAGES_MAX}", len(messages))
        if half_group and len(messages) > 1:
            raise field_invalid("messages", "must be one with a half_group", len(messages))
        if half_group and sequence is not None:
            raise field_invalid("sequence", "must be absent with a half_group")
        if queue_id is not None and queue_id < 0:
            raise field_invalid("queue_id", "must be 0 or more", queue_id)
        if queue_id is None and sequence is not None:
            raise field_invalid("queue_id", "is needed with a sequence: each queue has its own")
        if topic != TRACE_TOPIC:  # The only system topic that clients write to.
            check_user_topic(topic)
        block, unique_ids = self._encode(topic, messages, sequence, is_half=bool(half_group))
        if queue_id is None:
            check = partial(self._append_records.check_table, block)
            config = await self._topics.create_for_send(topic, 0, check)
            queue_id = self._choose_queue(config, messages)
        delay = delay_of(messages)
        terms = (
            RowTerms(delay, demand, half_group or None) if delay or demand or half_group else None
        )
        row = Rows.one(block, queue_id, sequence, terms)
        row.is_plain = True
        row.trace_parents = _trace_parents_of(messages) if self._append_records.spans else ()
        (outcome,) = await self._append_records.append(row, born_host)
        if outcome.appended is None or outcome.error is not None or outcome.level is None:
            raise outcome.error or RuntimeError("a batch without result and without error")
        if outcome.duplicate:
            # The ids filled in by the first request differ from those of this one.
            places = outcome.appended.commit_log_offsets.tolist()
            unique_ids = [self._message_at(place).unique_id for place in places]
        return PlainSent(unique_ids, queue_id, outcome.appended, outcome.level, outcome.duplicate)

    def _encode(
        self,
        topic: str,
        messages: Sequence[Message],
        sequence: ProducerSequence | None,
        *,
        is_half: bool,
    ) -> tuple[RecordTable, list[str]]:
        """The messages as one row, and their unique ids."""
        new_ids = self._unique_ids.next_ids(len(messages))
        properties = TopicProperties(
            topic, id_bytes=new_ids.digit_count, sequenced=sequence is not None
        )
        wanted = _wanted_type(self._topics.find(topic))
        defaults = EncodingDefaults(
            self._now_ms(),
            self._body_bytes_max,
            self._cluster_name,
            trace_writer=user_name() if topic == TRACE_TOPIC else "",
        )
        row = MessageRow()
        taken: list[tuple[bytes, EncodedProperties, int]] = []
        row.topic_properties, row.sequence, row.messages = properties, sequence, taken
        row.size_bytes = 0 if sequence is None else SEQUENCE_BYTES
        for position, message in enumerate(messages):
            if message.topic not in {"", topic}:
                field = f"messages[{position}].topic"
                raise field_invalid(field, f"must be empty or {topic!r}", message.topic)
            found = type_of(message, position, is_half=is_half)
            if wanted is not None and found is not wanted:
                raise message_type_mismatch(topic, wanted.value, found.value)
            body, encoded, _ = each = encoded_message(properties, message, position, defaults)
            taken.append(each)
            row.size_bytes += len(body) + encoded.overhead_bytes
            if row.size_bytes > self._call_bytes_max:
                rule = f"must not take more than {self._call_bytes_max} bytes in all"
                raise field_invalid("messages", rule)
        unique_ids = [
            message.unique_id or new_id
            for message, new_id in zip(messages, new_ids.texts(), strict=True)
        ]
        return encode_rows([row], new_ids), unique_ids

    def _choose_queue(self, config: TopicConfig, messages: Sequence[Message]) -> int:
        """The queue of the message group if there is one, else the next in turn."""
        if config.message_type is TopicMessageType.FIFO:
            rule = (
                "is needed on a topic of type FIFO, whose message groups are divided among all "
                "brokers: a name server tells it (RouteService.GetMessageGroupQueue)"
            )
            raise field_invalid("queue_id", rule)
        count = max(1, config.write_queue_count)
        groups = {message.message_group for message in messages}
        if len(groups) > 1:
            raise field_invalid(
                "messages", "must share one message group when the broker chooses the queue"
            )
        group = groups.pop()
        if group:
            return group_position(group, count)
        self._turn += 1
        return self._turn % count


def _trace_parents_of(messages: Sequence[Message]) -> list[str]:
    """The trace contexts of the messages that have one."""
    found = (message.properties.get(TRACE_PARENT) for message in messages)
    return [trace_parent for trace_parent in found if trace_parent]


def _wanted_type(config: TopicConfig | None) -> TopicMessageType | None:
    """The type that messages of a topic must have; None if any will do."""
    if config is None:
        return None
    wanted = config.message_type
    return None if wanted in {TopicMessageType.UNSPECIFIED, TopicMessageType.MIXED} else wanted
