"""Topics for sends: found, or created by the first send where that is allowed."""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.errors.public_errors import queue_not_found, topic_not_found
from ariane_broker.topics.topic_changes import TopicChanges, check_user_topic
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record import RecordBlock


class TopicsForSend:
    """Finds the topics of arriving messages, and creates missing ones."""

    def __init__(
        self, topics: TopicChanges, *, check_block: Callable[[RecordBlock], object]
    ) -> None:
        """``check_block`` raises if the block could not be appended; writes nothing."""
        self._topics = topics
        self._check_block = check_block

    def find(self, topic: str) -> TopicConfig | None:
        """Return the topic, or None if the broker does not know it."""
        return self._topics.find(topic)

    def check_block(self, block: RecordBlock) -> None:
        """Check that a block could be appended.

        Raises:
            BlockRejected: It is broken.
        """
        self._check_block(block)

    async def find_or_create(self, topic: str, queue_id: int, block: RecordBlock) -> TopicConfig:
        """Return the topic; create it if it is missing, may be created and could take the block.

        Args:
            topic: Its name.
            queue_id: The queue that the block goes to.
            block: The block for that queue: a broken block creates no topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED or QUEUE_NOT_FOUND.
            BlockRejected: The block is broken.
        """
        config = self._topics.find(topic)
        if config is not None:
            return config
        check_user_topic(topic)
        queue_count = self._topics.auto_create_queue_count
        if not queue_count:
            raise topic_not_found(topic)
        if queue_id >= queue_count:
            raise queue_not_found(topic, queue_id, queue_count)
        self._check_block(block)
        config = await self._topics.create_for_send(topic)
        if config is None:
            raise topic_not_found(topic)
        return config
