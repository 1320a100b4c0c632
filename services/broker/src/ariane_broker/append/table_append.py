"""Appending the batches of a table at once: each check covers all of them.

Either all batches are stored or none is; in the latter case they are appended one by one. So a
batch that is refused, or was stored before, takes no other with it and gets its usual outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.message_types import are_of_type
from ariane_broker.topics.topic_table import TopicMessageType
from ariane_record.layout import PRODUCER_PROPERTIES_BYTES_MAX, Host
from ariane_storage.errors import StorageError
from ariane_storage.writing.append import AppendedTable
from ariane_storage.writing.block_table import BlockTable


class TableAppend:
    """Appends the batches of a table as one."""

    def __init__(
        self,
        log: BrokerLog,
        topics: TopicsForSend,
        sequences: ProducerSequences,
        *,
        body_bytes_max: int,
    ) -> None:
        self._log = log
        self._topics = topics
        self._sequences = sequences
        # A record of at most this size has neither a body nor properties that are too large.
        self._record_bytes_max = min(body_bytes_max, PRODUCER_PROPERTIES_BYTES_MAX)

    def append(
        self, table: BlockTable, queues: Sequence[QueueKey], born_host: Host
    ) -> AppendedTable | None:
        """Append all batches.

        Args:
            table: The batches.
            queues: The queue of each batch.
            born_host: The producer's address as the broker sees it.

        Returns:
            Where each batch is stored; None if nothing was stored and the batches must go one by
            one.
        """
        if int(table.sizes.max()) > self._record_bytes_max:
            return None
        typed = self._typed(queues)
        if typed is None:
            return None
        next_batches = self._sequences.find_next(queues, table.sequences)
        if next_batches is None:
            return None
        if not all(_are_of_type(table, *each) for each in typed.items()):
            return None
        try:
            return self._log.append_table(table, queues, next_batches, born_host)
        except StorageError:
            return None  # Appended one by one, the first batch gets this error.

    def _typed(self, queues: Sequence[QueueKey]) -> dict[TopicMessageType, list[int]] | None:
        """Group batches by the type of their topics; None if a batch may not go to its queue."""
        find = self._topics.find
        typed: dict[TopicMessageType, list[int]] = {}
        for position, (topic, queue_id) in enumerate(queues):
            config = find(topic)
            if config is None or not 0 <= queue_id < config.plain_queue_count:
                return None
            if config.record_type is not None:
                typed.setdefault(config.record_type, []).append(position)
        return typed


def _are_of_type(table: BlockTable, message_type: TopicMessageType, positions: list[int]) -> bool:
    """Whether a quick look shows that all these batches are of a type."""
    if int(table.sizes.min()) < 0 or not table.are_sizes_whole:
        return False  # Sizes that grow and shrink by turns would copy the same bytes many times.
    chosen = np.zeros(len(table), np.bool_)
    chosen[positions] = True
    sizes = table.sizes[np.repeat(chosen, table.counts)]
    return are_of_type(table.records_of(positions), sizes, message_type)
