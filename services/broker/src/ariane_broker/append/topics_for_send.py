"""Topics for sends: found, or created by the first send where that is allowed."""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.errors.public_errors import queue_not_found, topic_not_found
from ariane_broker.topics.topic_changes import TopicChanges, check_user_topic
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record import RecordTable


class TopicsForSend:
    """Finds the topics of arriving messages, and creates missing ones."""

    def __init__(
        self, topics: TopicChanges, *, check_table: Callable[[RecordTable], object]
    ) -> None:
        self.find = topics.find
        """As ``TopicTable.find``."""
        self.check_table = check_table
        """Raises BlockRejected for a table that could not be appended; writes nothing."""
        self._topics = topics

    async def find_or_create(self, topic: str, queue_id: int, table: RecordTable) -> TopicConfig:
        """Return the topic; create it if it is missing, may be created and could take the row.

        Args:
            topic: Its name.
            queue_id: The queue that the row goes to.
            table: The row for that queue: a broken one creates no topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED or QUEUE_NOT_FOUND.
            BlockRejected: The row is broken.
        """
        config = self.find(topic)
        if config is not None:
            return config
        check_user_topic(topic)
        queue_count = self._topics.auto_create_queue_count
        if not queue_count:
            raise topic_not_found(topic)
        if queue_id >= queue_count:
            raise queue_not_found(topic, queue_id, queue_count)
        self.check_table(table)
        config = await self._topics.create_for_send(topic)
        if config is None:
            raise topic_not_found(topic)
        return config
