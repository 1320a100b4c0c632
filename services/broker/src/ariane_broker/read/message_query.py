"""Finding single messages: by id, by key, by unique id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from ariane_broker.errors.public_errors import message_not_found
from ariane_broker.log.cold_reads import QUERIES, ColdReads
from ariane_broker.topics.readable_topics import readable_topic
from ariane_broker.topics.topic_table import TopicTable
from ariane_record import RecordFields
from ariane_record.errors import IllegalMessageId
from ariane_record.layout import Host
from ariane_record.single.message_id import decode_offset_message_id
from ariane_servicekit.errors import field_invalid
from ariane_storage.errors import RecordNotFound
from ariane_storage.reading.record_finder import NO_LIMIT, KeyQuery
from ariane_storage.store import Store

MESSAGES_MAX: Final = 64
MESSAGES_DEFAULT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedMessages:
    """A query for messages by key."""

    topic: str
    """Their topic."""
    key: str
    """One of their keys, or their unique id."""
    begin_ms: int = 0
    """Earliest store time, in milliseconds since the epoch."""
    end_ms: int = NO_LIMIT
    """Latest store time, inclusive."""
    before: int = 0
    """Only messages before this commit-log offset; 0: all."""
    count_max: int = 0
    """At most this many; 0 means the default."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageQuery:
    """Answers queries of people and tools for single messages."""

    store: Store
    topics: TopicTable
    cold_reads: ColdReads
    _: KW_ONLY
    own_host: Callable[[], Host | None]
    """Returns the broker's present address, from which clients make message ids."""

    async def by_id(self, message_id: str, topic: str = "") -> RecordFields:
        """Return the message with an id.

        Args:
            message_id: The id.
            topic: The topic that the message must be of; empty for any.

        Raises:
            ServiceError: MESSAGE_NOT_FOUND, FIELD_INVALID, or why its topic may not be read.
            RecordCorrupted: The record is damaged.
        """
        try:
            place = decode_offset_message_id(message_id)
        except IllegalMessageId:
            raise field_invalid("message_id", "must be 32 or 56 hex digits") from None
        try:
            message = await self.cold_reads.run(
                QUERIES, partial(self.store.message_at, place.commit_log_offset)
            )
        except RecordNotFound:
            raise message_not_found(message_id) from None
        own_hosts = {message.store_host, self.own_host()}
        if place.store_host not in own_hosts or topic not in {"", message.topic}:
            # The id is another broker's: the same offset here holds another message.
            raise message_not_found(message_id)
        if place.commit_log_offset < self.store.deleted_end(message.topic):
            # It was deleted with its topic, though another one may have that name now.
            raise message_not_found(message_id)
        readable_topic(self.topics, message.topic)
        return message

    async def by_key(
        self, wanted: KeyedMessages, *, bytes_max: int
    ) -> tuple[Sequence[RecordFields], bool]:
        """Return messages by one of their keys or their unique id, newest first.

        Args:
            wanted: The query.
            bytes_max: The message that reaches so many bytes of bodies is the last.

        Returns:
            The messages, and whether there may be more.

        Raises:
            ServiceError: TOPIC_NOT_FOUND or FIELD_INVALID.
        """
        readable_topic(self.topics, wanted.topic)
        if not wanted.key:
            raise field_invalid("term", "must be a key or a unique id")
        count_max = wanted.count_max
        if not 0 <= count_max <= MESSAGES_MAX:
            raise field_invalid("message_count_max", f"must be 0 to {MESSAGES_MAX}", count_max)
        if wanted.before < 0:
            raise field_invalid("before_commit_log_offset", "must be 0 or more", wanted.before)
        count = count_max or MESSAGES_DEFAULT
        query = KeyQuery(
            wanted.topic,
            wanted.key,
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
            before=wanted.before or NO_LIMIT,
            max_count=count + 1,
            max_bytes=bytes_max,
        )
        # A key may have a million messages, and most may lie outside of the bounds.
        found = await self.cold_reads.in_turns(QUERIES, self.store.search_by_key(query))
        is_cut = sum(len(message.body) for message in found) >= bytes_max
        return found[:count], is_cut or len(found) > count
