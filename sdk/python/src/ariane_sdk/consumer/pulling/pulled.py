"""Pulled records on their way into the window of their queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import compress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import (
    PULL_PROJECTION_BODIES,
    PULL_PROJECTION_UNSPECIFIED,
    PullProjection,
    QueueRecords,
)
from ariane_record.errors import RecordCorrupted
from ariane_sdk.checks.local_filter import FilteredBodiesDamaged, LocalFilter
from ariane_sdk.checks.message_filter import MessageFilter
from ariane_sdk.consumer.delivery.damaged_bodies import BodiesDamaged
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.consumer.delivery.pulled_bodies import PulledBodies
from ariane_sdk.consumer.polling.column_window import ColumnWindow
from ariane_sdk.consumer.pulling.pull_wire import PulledRecords
from ariane_sdk.consumer.pulling.received_messages import received_messages
from ariane_sdk.errors import CallError, QueueOffsetOutOfRange
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.status import error_from_status
from ariane_sdk.runtime.log import logger

LOST_REASONS: Final = frozenset(
    {"QUEUE_LOCKED", "QUEUE_LOCK_FENCED", "CONSUMER_OFFSET_RESET", "QUEUE_CUT"}
)
"""The queue must be dropped: another member owns it, its offset was reset, or the broker has lost
the end of the queue."""


def projection_of(
    owned_queues: Iterable[OwnedQueue], filters: Mapping[str, MessageFilter]
) -> PullProjection.ValueType:
    """Return which parts of each message a pull of these queues needs."""
    for owned in owned_queues:
        window, message_filter = owned.window, filters.get(owned.queue.topic)
        if not isinstance(window, ColumnWindow) or not window.bodies_suffice:
            return PULL_PROJECTION_UNSPECIFIED
        if isinstance(message_filter, LocalFilter):
            return PULL_PROJECTION_UNSPECIFIED
        if message_filter is not None and message_filter.tags:
            # The broker compares hashes of tags; the consumer compares the tags themselves.
            return PULL_PROJECTION_UNSPECIFIED
    return PULL_PROJECTION_BODIES


def fill(owned: OwnedQueue, pulled: PulledRecords, message_filter: MessageFilter | None) -> None:
    """Put pulled records into the window of their queue.

    Args:
        owned: The queue.
        pulled: The records, at least one.
        message_filter: The filter of the topic; None for all messages.

    Raises:
        BodiesDamaged: Some bodies cannot be read, and columns or the filter need them.
        FilterFailed: A local filter failed.
        CodecMissing: The library that would decompress a body is not installed.
        RecordCorrupted: The records cannot be decoded.
        RecordDamaged: One of them cannot be decoded.
    """
    head, window = pulled.head, owned.window
    tags = message_filter.tags if message_filter is not None else ()
    if head.body_runs:
        if not isinstance(window, ColumnWindow) or tags or isinstance(message_filter, LocalFilter):
            raise RecordCorrupted("bodies came without records, which was not asked for")
        window.put_bodies(PulledBodies(head.body_runs, pulled.bodies), head.next_queue_offset)
        owned.wake()
        return
    sizes = np.frombuffer(head.record_sizes, "<i4")
    if isinstance(message_filter, LocalFilter):
        pulled = _passed(pulled, sizes, owned.queue, message_filter)
        sizes = np.frombuffer(pulled.head.record_sizes, "<i4")
        if not len(sizes):
            window.put((), head.next_queue_offset)
            owned.wake()
            return
    if isinstance(window, ColumnWindow):
        window.put_records(pulled.records, sizes, head.next_queue_offset, tags)
        owned.wake()
        return
    messages = received_messages(pulled.records, sizes, owned.queue)
    sizes_bytes = sizes.tolist()
    if message_filter is not None and tags:
        wanted = [message_filter.matches(message.tag) for message in messages]
        messages = list(compress(messages, wanted))
        sizes_bytes = list(compress(sizes_bytes, wanted))
    window.put(messages, head.next_queue_offset, sizes_bytes)
    owned.wake()


def _passed(
    pulled: PulledRecords,
    sizes: NDArray[np.int32],
    queue: MessageQueue,
    local_filter: LocalFilter,
) -> PulledRecords:
    """Return the records that a local filter lets pass.

    Raises:
        BodiesDamaged: It looked into bodies that cannot be read.
        FilterFailed: It failed.
        RecordCorrupted: The records cannot be decoded.
    """

    def messages() -> list[ReceivedMessage]:
        return received_messages(pulled.records, sizes, queue)

    try:
        mask = local_filter.mask(pulled.records, sizes, messages)
    except FilteredBodiesDamaged as damage:
        judged = messages()
        raise BodiesDamaged(damage.causes, [judged[row] for row in damage.causes]) from damage
    return pulled if mask.all() else pulled.without(np.flatnonzero(~mask).tolist())


def damage_before_filter(
    pulled: PulledRecords, queue: MessageQueue, error: CallError
) -> BodiesDamaged:
    """Return the message whose body a filter could not read, so that it is given up.

    Args:
        pulled: The record that came with the error: of that message alone.
        queue: Its queue.
        error: The error of the FilterServer.
    """
    sizes = np.frombuffer(pulled.head.record_sizes, "<i4")
    messages = received_messages(pulled.records, sizes, queue)
    return BodiesDamaged({0: error.metadata.get("cause", str(error))}, messages)


def move_into_range(owned: OwnedQueue, head: QueueRecords) -> None:
    """Go on inside the range of offsets that the broker has.

    Below the range, retention has deleted the next messages: go on at the oldest that is kept.
    Above it, the broker has lost messages that were consumed already: all that follow are new.
    """
    asked = owned.window.next_pull_offset
    oldest, end = head.min_queue_offset, head.max_queue_offset
    next_offset = oldest if asked < oldest else end
    logger.warning(
        "%s keeps %d to %d, and not %d; going on at %d",
        owned.queue,
        oldest,
        end,
        asked,
        next_offset,
    )
    owned.window.put((), next_offset)


def judge_replica(
    owned: OwnedQueue,
    head: QueueRecords,
    peer: str,
    on_lost: Callable[[MessageQueue, CallError], None],
    on_failed: Callable[[OwnedQueue, CallError], None],
) -> None:
    """Hear from a primary whether its log has what was before the messages of a replica.

    Args:
        owned: The queue.
        head: The primary's answer for ``replica_begin``.
        peer: The primary.
        on_lost: Called if the queue must be dropped.
        on_failed: Called if that is not known yet.
    """
    if head.HasField("error"):
        error = error_from_status(head.error, peer=peer)
        if error.reason in LOST_REASONS:
            on_lost(owned.queue, error)
            return
        if not isinstance(error, QueueOffsetOutOfRange):  # Of that, the next pull hears.
            on_failed(owned, error)
            return
    owned.log_epoch, owned.replica_begin = head.log_epoch, None
