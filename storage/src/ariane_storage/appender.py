"""Appending a block: the one way into the store."""

from __future__ import annotations

import numpy as np

from ariane_record import RecordBlock
from ariane_record.layout import CommitLogOffset, Host, QueueOffset
from ariane_record.names import DELAY_TOPIC
from ariane_storage.append import Appended, OwnedFields, place_block
from ariane_storage.block_check import check_block
from ariane_storage.consume_queue import ConsumeQueue
from ariane_storage.dispatch import delay_of
from ariane_storage.errors import StoreFull
from ariane_storage.fields import Int64s
from ariane_storage.index import PENDING_KEYS_MAX
from ariane_storage.parts import StoreParts


class Appender:
    """Writes blocks to the commit log and dispatches them in the same step. One thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def append(self, block: RecordBlock, queue_id: int, born_host: Host) -> Appended:
        """Append a block to a queue; see ``Store.append_block``."""
        parts = self._parts
        parts.check_open()
        parts.guard.check()
        if parts.full_reason:
            raise StoreFull(parts.files.root, parts.full_reason)
        config = parts.config
        checked = check_block(
            block,
            record_bytes_max=config.record_bytes_max,
            block_bytes_max=parts.log.size_max,
            checksum=config.checksum,
        )
        if parts.index.pending_keys > PENDING_KEYS_MAX:
            # Before anything is written: this may find the disk full.
            parts.index.settle()
        queue = parts.queues.find_or_make(block.topic, queue_id)
        size = len(block.records)
        segment, position = parts.guard.watch(lambda: parts.log.reserve(size))
        begin = segment.start + position
        # The clock may go back; the log does not.
        stamp = max(parts.clock.now_ms(), parts.store_timestamp_ms)
        first = queue.end_offset
        owned = OwnedFields(queue_id, first, begin, born_host, config.store_host, stamp)
        place_block(segment.view, position, block, checked, owned)
        offsets = checked.starts + begin
        self._extend_queue(queue, block, offsets, begin + size, stamp)
        self._add_keys(block, offsets, stamp)
        parts.store_timestamp_ms = stamp
        parts.log.advance(begin + size)
        return Appended(
            first_queue_offset=QueueOffset(first),
            count=len(offsets),
            first_commit_log_offset=CommitLogOffset(begin),
            next_commit_log_offset=CommitLogOffset(begin + size),
            store_timestamp_ms=stamp,
            commit_log_offsets=offsets,
        )

    def _extend_queue(
        self, queue: ConsumeQueue, block: RecordBlock, offsets: Int64s, end: int, stamp: int
    ) -> None:
        parts = self._parts
        with parts.queues.lock:
            entries = queue.reserve(len(offsets))
            entries["commit_log_offset"] = offsets
            entries["size"] = block.sizes
            if block.topic == DELAY_TOPIC:
                # The delay topic keeps the time of delivery; its queue number says the level.
                delay_ms = delay_of(queue.queue_id + 1, parts.config.delay_levels_ms)
                entries["tags_code"] = stamp + delay_ms
            else:
                entries["tags_code"] = block.tag_codes
            queue.extend(len(offsets), end)

    def _add_keys(self, block: RecordBlock, offsets: Int64s, stamp: int) -> None:
        if len(block.key_hashes):
            offsets = np.repeat(offsets, block.key_counts)
            self._parts.index.add(block.key_hashes, offsets, np.full(len(offsets), stamp))
