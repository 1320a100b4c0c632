"""Taking half messages: stored, in the half topic, and visible to nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.errors import (
    broker_draining,
    half_messages_exhausted,
    message_illegal,
    message_type_mismatch,
    queue_not_found,
    topic_not_writable,
    transaction_decided,
    transaction_foreign,
)
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.promise import AcknowledgedLevel
from ariane_broker.rpc.wire.stored_message import EncodingDefaults, encode_message
from ariane_broker.topics.topic_changes import check_user_topic
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_broker.transactions.transaction_records import (
    HalfMessage,
    half_message_of,
    half_properties,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import BlockEncoder, RecordBlock, decode_record, java_string_hash
from ariane_record.layout import Host
from ariane_record.names import HALF_TOPIC
from ariane_servicekit.errors import field_invalid

HALF_MESSAGES_MAX: Final = 256
"""Half messages of one call."""

_TYPES: Final = frozenset(
    {TopicMessageType.UNSPECIFIED, TopicMessageType.MIXED, TopicMessageType.TRANSACTION}
)


def is_delayed(message: Message) -> bool:
    """Whether a message is to come later."""
    return message.delay_level != 0 or message.HasField("delivery_time")


def are_half_messages(messages: Sequence[Message]) -> bool:
    """Whether a send is one of half messages: then all of them are."""
    return bool(messages) and messages[0].message_type == MESSAGE_TYPE_TRANSACTION


@dataclass(frozen=True, slots=True)
class HalfLimits:
    """What is taken.

    Attributes:
        body_bytes_max: Largest body of a message.
        call_bytes_max: Bytes of all records of a call.
        pending_count_max: Half messages that may wait for an outcome at a time.
    """

    body_bytes_max: int
    call_bytes_max: int
    pending_count_max: int


@dataclass(frozen=True, slots=True)
class HalfSent:
    """Half messages that are stored.

    Attributes:
        half_messages: Them, in the order of the call.
        level: How safe they are.
        duplicate: Whether they were stored before, and not now.
    """

    half_messages: list[HalfMessage]
    level: AcknowledgedLevel
    duplicate: bool


class HalfSend:
    """Stores half messages."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        topics: TopicsForSend,
        limits: HalfLimits,
        *,
        next_unique_id: Callable[[], str],
        now_ms: Callable[[], int],
        is_draining: Callable[[], bool],
    ) -> None:
        """Take the parts.

        Args:
            log: Where they go.
            table: The transactions of this broker.
            topics: The topics of this broker.
            limits: What is taken.
            next_unique_id: Makes an id for a message that has none.
            now_ms: Milliseconds since the epoch.
            is_draining: Whether the broker takes no messages.
        """
        self._log = log
        self._table = table
        self._topics = topics
        self._limits = limits
        self._next_unique_id = next_unique_id
        self._now_ms = now_ms
        self._is_draining = is_draining
        self._turn = 0

    async def send(
        self,
        topic: str,
        queue_id: int | None,
        messages: Sequence[Message],
        producer_group: str,
        born_host: Host,
    ) -> HalfSent:
        """Store half messages, each of a transaction of its own, all or none.

        Repeating is harmless: what waits for its outcome is not stored again.

        Args:
            topic: The topic that all of them are for.
            queue_id: The queue that they are for; None lets the broker choose.
            messages: At least one.
            producer_group: Whose members can be asked.
            born_host: Where the producer was seen.

        Raises:
            ServiceError: TRANSACTION_DECIDED when one has an outcome already, SERVICE_BUSY when
                too many wait for theirs, FLUSH_UNCONFIRMED, or as a plain send.
            StorageError: Nothing is stored.
        """
        if self._is_draining():
            raise broker_draining()
        if not 1 <= len(messages) <= HALF_MESSAGES_MAX:
            raise field_invalid("messages", f"must be 1 to {HALF_MESSAGES_MAX}", len(messages))
        if queue_id is not None and queue_id < 0:
            raise field_invalid("queue_id", "must be 0 or more", queue_id)
        check_user_topic(topic)
        check_user_group(producer_group)
        ids = [message.unique_id or self._next_unique_id() for message in messages]
        draft = self._encode(topic, queue_id or 0, messages, ids, producer_group)
        config = await self._topics.find_or_create(topic, queue_id or 0, draft)
        check_takes_half_messages(config)
        known = self._known(topic, producer_group, ids)
        if known:
            end = max(half.commit_log_offset for half in known) + 1
            return HalfSent(known, await self._log.promised(end), duplicate=True)
        if queue_id is None:
            queue_id = self._choose_queue(config, messages[0].message_group)
        elif queue_id >= config.write_queue_count:
            raise queue_not_found(topic, queue_id, config.write_queue_count)
        if self._table.pending_count + len(messages) > self._limits.pending_count_max:
            raise half_messages_exhausted(self._limits.pending_count_max)
        block = draft
        if queue_id:
            block = self._encode(topic, queue_id, messages, ids, producer_group)
        halves, end = self._store(block, born_host)
        return HalfSent(halves, await self._log.promised(end), duplicate=False)

    def _encode(
        self,
        topic: str,
        queue_id: int,
        messages: Sequence[Message],
        ids: Sequence[str],
        producer_group: str,
    ) -> RecordBlock:
        encoder = BlockEncoder(HALF_TOPIC, size_bytes_max=self._limits.call_bytes_max)
        now_ms = self._now_ms()
        for position, (message, unique_id) in enumerate(zip(messages, ids, strict=True)):
            if message.message_type != MESSAGE_TYPE_TRANSACTION:
                raise message_illegal(position, "it goes with half messages and is none")
            if is_delayed(message):
                raise message_illegal(position, "a half message cannot be delayed")
            if message.topic not in {"", topic}:
                field = f"messages[{position}].topic"
                raise field_invalid(field, f"must be empty or {topic!r}", message.topic)
            encode_message(
                encoder,
                message,
                position,
                EncodingDefaults(unique_id, now_ms, self._limits.body_bytes_max),
                system_properties=half_properties(topic, queue_id, producer_group, unique_id),
            )
        return encoder.finish()

    def _known(self, topic: str, producer_group: str, ids: Sequence[str]) -> list[HalfMessage]:
        """The half messages of a repeated call; none when it is no repeat."""
        if len(set(ids)) != len(ids):
            raise field_invalid("messages", "must each have a unique id of their own")
        for transaction_id in ids:
            decision = self._table.decision(transaction_id)
            if decision is not None:
                raise transaction_decided(transaction_id, decision.outcome)
        known = [half for half in map(self._table.find, ids) if half is not None]
        for half in known:
            if half.topic != topic:
                raise transaction_foreign(half.transaction_id, "topic", topic)
            if half.producer_group != producer_group:
                raise transaction_foreign(half.transaction_id, "producer_group", producer_group)
        if known and len(known) < len(ids):
            raise field_invalid("messages", "bear unique ids of other half messages")
        return known

    def _store(self, block: RecordBlock, born_host: Host) -> tuple[list[HalfMessage], int]:
        """Append; nothing is waited for in between, so that memory and log say the same."""
        appended = self._log.append(block, born_host=born_host)
        halves = []
        start = 0
        for place, size in enumerate(block.sizes.tolist()):
            fields = decode_record(block.records[start : start + size], verify=False)
            start += size
            half = half_message_of(
                fields,
                queue_offset=appended.first_queue_offset + place,
                commit_log_offset=int(appended.commit_log_offsets[place]),
                store_timestamp_ms=appended.store_timestamp_ms,
            )
            if half is not None:
                self._table.stored(half)
                halves.append(half)
        return halves, appended.next_commit_log_offset

    def _choose_queue(self, config: TopicConfig, message_group: str) -> int:
        """By the message group where there is one, else the next in turn."""
        count = max(1, config.write_queue_count)
        if message_group:
            return java_string_hash(message_group) % count
        self._turn += 1
        return self._turn % count


def check_takes_half_messages(config: TopicConfig) -> None:
    """Refuse half messages for a topic that takes none.

    Raises:
        ServiceError: TOPIC_NOT_WRITABLE, MESSAGE_TYPE_MISMATCH.
    """
    if not config.writable:
        raise topic_not_writable(config.topic, int(config.permission))
    if config.message_type not in _TYPES:
        raise message_type_mismatch(
            config.topic, config.message_type.value, TopicMessageType.TRANSACTION.value
        )
