"""Plain messages of filtered pulls: filters judge records, and the broker returns the messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from ariane.broker.v1.pull_service_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PullRecordsRequest,
    PullRecordsResponse,
    QueueMessages,
    QueueRecords,
)
from ariane_record.decoding.columns import decode_columns

_SIZE: Final = np.dtype("<i4")


def as_records(request: PullMessagesRequest) -> PullRecordsRequest:
    """The equivalent pull of packed records."""
    return PullRecordsRequest(
        consumer_group=request.consumer_group,
        client_id=request.client_id,
        positions=request.positions,
        subscriptions=request.subscriptions,
        record_count_max=request.message_count_max,
        size_bytes_max=request.size_bytes_max,
        hold_duration=request.hold_duration if request.HasField("hold_duration") else None,
    )


def plain_selection(
    chosen: PullRecordsResponse, everything: PullMessagesResponse, topics: Collection[str]
) -> PullMessagesResponse:
    """The plain messages of selected records.

    Args:
        chosen: The records that filters have selected.
        everything: The same positions as plain messages, with nothing left out.
        topics: Topics with an uploaded filter; others are unchanged.
    """
    plain = {(queue.topic, queue.queue_id): queue for queue in everything.queues}
    queues = [queue for queue in everything.queues if queue.topic not in topics]
    for records in chosen.queues:
        if records.topic in topics:
            found = plain.get((records.topic, records.queue_id))
            queues += [] if found is None and records.records else [_queue(records, found)]
    return PullMessagesResponse(queues=queues)


def _queue(records: QueueRecords, found: QueueMessages | None) -> QueueMessages:
    queue = QueueMessages(
        topic=records.topic,
        queue_id=records.queue_id,
        error=records.error if records.HasField("error") else None,
        next_queue_offset=records.next_queue_offset,
        min_queue_offset=records.min_queue_offset,
        max_queue_offset=records.max_queue_offset,
        log_epoch=records.log_epoch,
        lost=records.lost,
    )
    if records.records and not records.HasField("error") and found is not None:
        sizes = np.frombuffer(records.record_sizes, _SIZE)
        wanted = frozenset(decode_columns(records.records, sizes).queue_offset.tolist())
        queue.messages.extend(
            each for each in found.messages if each.position.queue_offset in wanted
        )
        # Fewer plain messages may fit into an answer; the next pull gets the others.
        queue.next_queue_offset = min(records.next_queue_offset, found.next_queue_offset)
    return queue
