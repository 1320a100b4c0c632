"""Appending a block: the one way into the store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordBlock
from ariane_record.crc_algebra import CrcFolder
from ariane_record.layout import CommitLogOffset, Host, QueueOffset
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_storage.append import Appended, OwnedFields, PackedRecords
from ariane_storage.block_check import BlockLimits, check_block
from ariane_storage.consume_queue import ConsumeQueue
from ariane_storage.dispatch import delay_of
from ariane_storage.draft_memory import DraftMemory
from ariane_storage.errors import StoreFull
from ariane_storage.few_records import FewRecords
from ariane_storage.fields import Int64s
from ariane_storage.parts import StoreParts
from ariane_storage.record_crcs import DISK_SECTOR_BYTES
from ariane_storage.wide_records import WideRecords


class Appender:
    """Writes blocks to the commit log and dispatches them in the same step. One thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._folder = CrcFolder()
        self._drafts = DraftMemory()

    def append(self, block: RecordBlock, queue_id: int, born_host: Host) -> Appended:
        """Append a block to a queue; see ``Store.append_block``."""
        parts = self._parts
        parts.check_open()
        parts.guard.check()
        if parts.full_reason:
            raise StoreFull(parts.files.root, parts.full_reason)
        config = parts.config
        # The clock may go back; the log does not.
        stamp = max(parts.clock.now_ms(), parts.store_timestamp_ms)
        owned = OwnedFields(queue_id, 0, 0, born_host, config.store_host, stamp)
        records = self._checked(block, owned)
        if parts.index.pending_keys > config.index_backlog_keys:
            # Before anything is written: this may find the disk full.
            parts.guard.watch(parts.index.file_some)
        queue = parts.queues.find_or_make(block.topic, queue_id)
        size = records.size_bytes
        segment, position = parts.guard.watch(lambda: parts.log.reserve(size))
        begin = segment.start + position
        first = queue.end_offset
        sector_place = position % DISK_SECTOR_BYTES
        draft = self._drafts.of(sector_place + size)
        records.place(draft, sector_place, owned.at(first, begin))
        parts.guard.watch(lambda: segment.write(position, draft[sector_place:]))
        offsets = records.starts + begin
        with parts.queues.lock:
            entries = queue.reserve(len(offsets))
            entries["commit_log_offset"] = offsets
            entries["size"] = records.sizes
            entries["tags_code"] = self._tag_codes(queue, block, stamp)
            queue.extend(len(offsets), begin + size)
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

    def _checked(
        self, block: RecordBlock, owned: OwnedFields
    ) -> FewRecords | PackedRecords | WideRecords:
        """The records of a block as they will be written, if the block is sound."""
        config, block_bytes_max = self._parts.config, self._parts.log.size_max
        limits = BlockLimits(config.record_bytes_max, block_bytes_max, config.checksum)
        wide = owned.has_ipv6_host
        few = None if wide else FewRecords.of(block, limits)
        if few is not None:
            return few
        checked = check_block(
            block,
            record_bytes_max=config.record_bytes_max,
            block_bytes_max=block_bytes_max,
            checksum=config.checksum,
            folder=self._folder,
        )
        if wide:
            return WideRecords.of(block, checked, owned, block_bytes_max)
        return PackedRecords(block, checked)

    def _tag_codes(
        self, queue: ConsumeQueue, block: RecordBlock, stamp: int
    ) -> NDArray[np.int32] | Int64s | int:
        if block.topic == TIMER_TOPIC and block.delivery_times_ms is not None:
            return block.delivery_times_ms
        if block.topic != DELAY_TOPIC:
            return block.tag_codes
        # The delay topic keeps the time of delivery; its queue number says the level.
        return stamp + delay_of(queue.queue_id + 1, self._parts.config.delay_levels_ms)

    def _add_keys(self, block: RecordBlock, offsets: Int64s, stamp: int) -> None:
        if len(block.key_hashes):
            offsets = np.repeat(offsets, block.key_counts)
            self._parts.index.add(block.key_hashes, offsets, np.full(len(offsets), stamp))
