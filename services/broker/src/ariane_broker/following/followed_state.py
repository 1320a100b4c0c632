"""What a replica knows of its primary's topics while it follows: enough to let queues be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.topics.topic_table import TopicTable
from ariane_storage.state_file import StateFile


class FollowedState:
    """Topics and epochs as the primary's files say."""

    def __init__(
        self, topics: TopicTable, epochs: LogEpochs, topics_file: StateFile, epochs_file: StateFile
    ) -> None:
        self._topics = topics
        self._epochs = epochs
        self._topics_file = topics_file
        self._epochs_file = epochs_file

    def read(self) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """What the files say. Blocks.

        Raises:
            StateFileDamaged: One cannot be read.
            OSError: The disk failed.
        """
        return self._topics_file.load(), self._epochs_file.load()

    def take(self, topics: Mapping[str, Any] | None, epochs: Mapping[str, Any] | None) -> None:
        """Take over what they say."""
        if topics is not None:
            self._topics.load(topics)
        if epochs is not None:
            self._epochs.load(epochs)
