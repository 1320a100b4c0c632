"""A replica's copy of its primary's topics while it follows: enough to let queues be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ariane_broker.topics.topic_table import TopicTable
from ariane_storage.state_file import StateFile


class FollowedState:
    """The topics of the primary's file."""

    def __init__(self, topics: TopicTable, topics_file: StateFile) -> None:
        self._topics = topics
        self._topics_file = topics_file

    def read(self) -> Mapping[str, Any] | None:
        """Read the file. Blocks.

        Raises:
            StateFileDamaged: It cannot be read.
            OSError: The disk failed.
        """
        return self._topics_file.load()

    def take(self, topics: Mapping[str, Any] | None) -> None:
        """Apply the topics of the file."""
        if topics is not None:
            self._topics.load(topics)
