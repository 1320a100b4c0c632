"""Half messages of many transactions, stored as one block.

Only what can be done at once and raises no question is done here. Whatever is unusual (a new topic,
a repeat, anything that will be refused) is left to ``HalfSend``, which says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ariane.common.v1.message_pb2 import MESSAGE_TYPE_TRANSACTION, Message
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.groups.group_changes import check_user_group
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.rpc.wire.stored_message import EncodingDefaults, encode_message
from ariane_broker.topics.topic_changes import check_user_topic
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.half_send import (
    HalfLimits,
    check_takes_half_messages,
    is_delayed,
)
from ariane_broker.transactions.transaction_records import (
    HalfMessage,
    half_message_with,
    half_properties,
)
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import BlockEncoder
from ariane_record.errors import RecordError
from ariane_record.layout import Host
from ariane_record.names import HALF_TOPIC
from ariane_servicekit.errors import ServiceError
from ariane_storage.errors import StorageError
from ariane_storage.writing.append import Appended


class HalfWish(NamedTuple):
    """A half message that shall be stored.

    Attributes:
        topic: The topic it is for.
        queue_id: The queue it is for; None lets the broker choose.
        producer_group: Whose members can be asked.
        message: The message.
    """

    topic: str
    queue_id: int | None
    producer_group: str
    message: Message


class _Placed(NamedTuple):
    """A half message that is in the block."""

    position: int
    wish: HalfWish
    queue_id: int


class HalvesTogether:
    """Stores half messages that nothing speaks against."""

    def __init__(
        self,
        log: BrokerLog,
        table: TransactionTable,
        topics: TopicsForSend,
        limits: HalfLimits,
    ) -> None:
        """Take the parts; as ``HalfSend`` has them.

        Args:
            log: Where they go.
            table: The transactions of this broker.
            topics: The topics of this broker.
            limits: What is taken.
        """
        self._log = log
        self._table = table
        self._topics = topics
        self._limits = limits

    def store(
        self, wishes: Sequence[HalfWish], born_host: Host, now_ms: int
    ) -> list[HalfMessage | None]:
        """Store them, all in one block; nothing is waited for.

        Args:
            wishes: Each is of a transaction of its own.
            born_host: Where the producer was seen.
            now_ms: Milliseconds since the epoch.

        Returns:
            For each the half message, or None if it is not stored and must be sent by itself.
        """
        stored: list[HalfMessage | None] = [None] * len(wishes)
        encoder = BlockEncoder(HALF_TOPIC, size_bytes_max=self._limits.call_bytes_max)
        placed = self._encode(encoder, wishes, now_ms)
        if not placed:
            return stored
        try:
            appended = self._log.append(encoder.finish(), born_host=born_host)
        except StorageError:
            return stored
        # Memory and log say the same: nothing was waited for in between.
        for row, each in enumerate(placed):
            half = _half_message(each, appended, row)
            self._table.stored(half)
            stored[each.position] = half
        return stored

    def _encode(
        self, encoder: BlockEncoder, wishes: Sequence[HalfWish], now_ms: int
    ) -> list[_Placed]:
        """Put into the block what may be."""
        placed: list[_Placed] = []
        ids: set[str] = set()
        configs: dict[tuple[str, str], TopicConfig | None] = {}
        room = self._limits.pending_count_max - self._table.pending_count
        defaults = EncodingDefaults("", now_ms, self._limits.body_bytes_max)
        for position, wish in enumerate(wishes):
            topic, queue_id, group, message = wish
            unique_id = message.unique_id
            if (topic, group) not in configs:
                configs[topic, group] = self._config_for(topic, group)
            config = configs[topic, group]
            if (
                config is None
                or queue_id is None
                or not 0 <= queue_id < config.write_queue_count
                or len(placed) >= room
                or not self._is_new(unique_id)
                or unique_id in ids
                or message.message_type != MESSAGE_TYPE_TRANSACTION
                or is_delayed(message)
                or message.topic not in {"", topic}
            ):
                continue
            system_properties = half_properties(topic, queue_id, group, unique_id)
            try:
                encode_message(
                    encoder, message, position, defaults, system_properties=system_properties
                )
            except (ServiceError, RecordError):
                continue
            ids.add(unique_id)
            placed.append(_Placed(position, wish, queue_id))
        return placed

    def _config_for(self, topic: str, producer_group: str) -> TopicConfig | None:
        """The topic, if it takes half messages of a group."""
        config = self._topics.find(topic)
        if config is None:
            return None
        try:
            check_user_topic(topic)
            check_user_group(producer_group)
            check_takes_half_messages(config)
        except ServiceError:
            return None
        return config

    def _is_new(self, unique_id: str) -> bool:
        table = self._table
        return (
            bool(unique_id) and table.find(unique_id) is None and table.decision(unique_id) is None
        )


def _half_message(placed: _Placed, appended: Appended, row: int) -> HalfMessage:
    wish = placed.wish
    half = HalfMessage(
        transaction_id=wish.message.unique_id,
        topic=wish.topic,
        queue_id=placed.queue_id,
        producer_group=wish.producer_group,
        queue_offset=appended.first_queue_offset + row,
        commit_log_offset=int(appended.commit_log_offsets[row]),
        store_timestamp_ms=appended.store_timestamp_ms,
        keys=tuple(wish.message.keys),
    )
    return half_message_with(wish.message.properties, half)
