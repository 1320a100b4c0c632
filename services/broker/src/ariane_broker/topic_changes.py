"""Creating, changing and deleting topics: durable first, then visible, then told to others.

Changes run one after the other, so that the file always holds what is visible or will be at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.errors import topic_name_illegal, topic_reserved
from ariane_broker.topic_table import TopicChange, TopicConfig, TopicTable
from ariane_record import IllegalName, check_topic_name, is_system_topic
from ariane_servicekit.errors import ServiceError


class TopicQueues(Protocol):
    """What is asked of the store."""

    def delete_queues(self, topic: str) -> object:
        """Delete all queues of a topic."""
        ...


class TopicChanges:
    """All that changes the set of topics while the broker serves."""

    def __init__(
        self,
        table: TopicTable,
        *,
        save: Callable[[dict[str, Any]], Awaitable[None]],
        announce: Callable[[], Awaitable[None]],
        queues: TopicQueues,
        forget_offsets: Callable[[str], Awaitable[None]],
        wake_queue: Callable[[QueueKey], None],
        auto_create_queue_count: int,
    ) -> None:
        """Take the parts.

        Args:
            table: The topics.
            save: Saves the file of topics durably.
            announce: Tells the name servers at once; waits for them only for a moment.
            queues: The store.
            forget_offsets: Removes the offsets of all groups in a topic, durably.
            wake_queue: Lets those look again who wait for a queue.
            auto_create_queue_count: Queues of a topic that a send creates; 0 when none may.
        """
        self._table = table
        self._save = save
        self._announce = announce
        self._queues = queues
        self._forget_offsets = forget_offsets
        self._wake_queue = wake_queue
        self._lock = asyncio.Lock()
        self.auto_create_queue_count = auto_create_queue_count

    def find(self, topic: str) -> TopicConfig | None:
        """The topic, or None when it is not known here."""
        return self._table.find(topic)

    async def create(self, topic: str, change: TopicChange) -> TopicConfig:
        """Create a topic; it stands in the routes of all name servers that are reached.

        Raises:
            ServiceError: TOPIC_EXISTS, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED or FIELD_INVALID.
        """
        check_user_topic(topic)
        async with self._lock:
            config = await self._put(self._table.created(topic, change))
        await self._announce()
        return config

    async def create_for_send(self, topic: str) -> TopicConfig | None:
        """The topic; made with the default counts if a send may make it.

        Returns:
            None when it is not known and may not be made.

        Raises:
            ServiceError: TOPIC_NAME_ILLEGAL or TOPIC_RESERVED.
        """
        if self.auto_create_queue_count:
            check_user_topic(topic)
            count = self.auto_create_queue_count
            change = TopicChange(read_queue_count=count, write_queue_count=count)
            async with self._lock:
                if self._table.find(topic) is None:
                    await self._put(self._table.created(topic, change))
                    await self._announce()
        return self._table.find(topic)

    async def create_for_group(self, topic: str) -> TopicConfig:
        """The retry topic or the dead letters of a group that stands; made unless it stands."""
        config = self._table.find(topic)
        if config is None:
            async with self._lock:
                config = self._table.find(topic)
                if config is None:
                    change = TopicChange(read_queue_count=1, write_queue_count=1)
                    config = await self._put(self._table.created(topic, change))
            await self._announce()
        return config

    async def update(self, topic: str, change: TopicChange) -> TopicConfig:
        """Change a topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_RESERVED or FIELD_INVALID.
        """
        async with self._lock:
            refuse_system_topic(topic)
            before = self._table.find(topic)
            config = await self._put(self._table.updated(topic, change))
            self._wake_readers(before)
        await self._announce()
        return config

    async def delete(self, topic: str) -> None:
        """Delete a topic with its queues and the offsets of its groups.

        Raises:
            ServiceError: TOPIC_NOT_FOUND or TOPIC_RESERVED.
        """
        async with self._lock:
            refuse_system_topic(topic)
            await self._delete(self._table.get(topic))
        await self._announce()

    async def delete_for_group(self, topic: str) -> None:
        """Delete the retry topic or the dead letters of a group, if they stand."""
        if self._table.find(topic) is None:
            return
        async with self._lock:
            config = self._table.find(topic)
            if config is not None:
                await self._delete(config)
        await self._announce()

    def _wake_readers(self, before: TopicConfig | None) -> None:
        """Those who wait for queues of the topic learn now what became of it."""
        if before is not None:
            for queue_id in range(before.read_queue_count):
                self._wake_queue(QueueKey(before.topic, queue_id))

    async def _delete(self, config: TopicConfig) -> None:
        topic = config.topic
        await self._save(self._table.document_with(without=topic))
        self._table.remove(topic)
        self._queues.delete_queues(topic)
        self._wake_readers(config)
        await self._forget_offsets(topic)

    async def _put(self, config: TopicConfig) -> TopicConfig:
        await self._save(self._table.document_with(config))
        self._table.put(config)
        return config


def check_user_topic(topic: str) -> None:
    """Refuse a name that no user gives to a topic.

    Raises:
        ServiceError: TOPIC_NAME_ILLEGAL or TOPIC_RESERVED.
    """
    refuse_system_topic(topic)
    try:
        check_topic_name(topic)
    except IllegalName:
        raise topic_name_illegal(topic) from None


def refuse_system_topic(topic: str) -> None:
    """Refuse a topic of the system.

    Raises:
        ServiceError: TOPIC_RESERVED.
    """
    if is_system_topic(topic):
        raise topic_reserved(topic)


def check_topic_spelling(topic: str) -> None:
    """Refuse what no topic is called, neither a user's nor the system's.

    Raises:
        ServiceError: TOPIC_NAME_ILLEGAL.
    """
    error = user_topic_error(topic)
    if error is not None and error.reason == ErrorReason.ERROR_REASON_TOPIC_NAME_ILLEGAL:
        raise error


def user_topic_error(topic: str) -> ServiceError | None:
    """Why no user gives a topic this name; None when one may."""
    try:
        check_user_topic(topic)
    except ServiceError as error:
        return error
    return None
