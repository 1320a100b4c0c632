"""Appending a block: the one way into the store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ariane_record import RecordBlock
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.layout import CommitLogOffset, Host, QueueOffset
from ariane_record.names import DELAY_TOPIC, TIMER_TOPIC
from ariane_storage.errors import StoreFull
from ariane_storage.layout import DISK_SECTOR_BYTES
from ariane_storage.log.records.fields import Int64s
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import ConsumeQueue, end_offsets
from ariane_storage.queues.consume_queue_entry import ENTRY_BYTES, encoded_entries
from ariane_storage.queues.record_rows import delay_of
from ariane_storage.writing.append import Appended, AppendedTable, OwnedFields, PackedRecords
from ariane_storage.writing.block_check import BlockLimits, check_block
from ariane_storage.writing.block_table import BlockTable
from ariane_storage.writing.draft_memory import DraftMemory
from ariane_storage.writing.few_records import FewRecords
from ariane_storage.writing.joined_blocks import JoinedBlocks
from ariane_storage.writing.wide_records import WideRecords


class Appender:
    """Writes blocks to the commit log and dispatches them in the same step. One thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._folder = CrcFolder()
        self._drafts = DraftMemory()

    def append(self, block: RecordBlock, queue_id: int, born_host: Host) -> Appended:
        """Append a block to a queue; see ``Store.append_block``."""
        parts = self._parts
        owned = self._owned(queue_id, born_host)
        stamp = owned.store_timestamp_ms
        records = self._checked(block, owned)
        self._make_room_for_keys()
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
        entries = encoded_entries(offsets, records.sizes, self._tag_codes(queue, block, stamp))
        with parts.queues.lock:
            queue.add(entries, begin + size)
        self._add_keys(block.key_hashes, block.key_counts, offsets, stamp)
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

    def append_table(self, table: BlockTable, born_host: Host) -> AppendedTable | None:
        """Append blocks to their queues at once; see ``Store.append_table``."""
        parts = self._parts
        owned = self._owned(0, born_host)
        stamp = owned.store_timestamp_ms
        if owned.has_ipv6_host:
            return None
        limits = BlockLimits(parts.config.record_bytes_max, parts.log.room, parts.config.checksum)
        joined = JoinedBlocks.of(table, limits, self._drafts)
        if joined is None:
            return None
        self._make_room_for_keys()
        queues = parts.queues.find_or_make_all(table.topics, table.queue_ids)
        firsts = _first_queue_offsets(queues, table.counts)
        size = joined.size_bytes
        segment, position = parts.guard.watch(lambda: parts.log.reserve(size))
        begin = segment.start + position
        rows = np.arange(len(table.sizes))
        queue_offsets = rows + (firsts - table.firsts).repeat(table.counts)
        joined.fill_in(owned.at(0, begin), queue_offsets)
        parts.guard.watch(lambda: segment.write(position, joined.records))
        offsets = joined.starts + begin
        commit_log_edges = joined.edges[table.edges] + begin
        entries = encoded_entries(offsets, table.sizes, table.tag_codes)
        edges = (table.edges * ENTRY_BYTES).tolist()
        of_each = list(map(entries.__getitem__, map(slice, edges, edges[1:])))
        parts.queues.append_all(queues, of_each, commit_log_edges[1:].tolist())
        self._add_keys(table.key_hashes, table.key_counts, offsets, stamp)
        parts.store_timestamp_ms = stamp
        parts.log.advance(begin + size)
        return AppendedTable(firsts, table.counts, commit_log_edges, stamp, offsets)

    def _owned(self, queue_id: int, born_host: Host) -> OwnedFields:
        """The broker's fields for records that are appended now, if the store accepts any."""
        parts = self._parts
        parts.check_open()
        parts.guard.check()
        if parts.full_reason:
            raise StoreFull(parts.files.root, parts.full_reason)
        # The clock may go back; timestamps in the log do not.
        stamp = max(parts.clock.now_ms(), parts.store_timestamp_ms)
        return OwnedFields(queue_id, 0, 0, born_host, parts.config.store_host, stamp)

    def _make_room_for_keys(self) -> None:
        """Make room for keys in the index, before any write: the disk may be full."""
        parts = self._parts
        if parts.index.pending_keys > parts.config.index_backlog_keys:
            parts.guard.watch(parts.index.file_some)

    def _checked(
        self, block: RecordBlock, owned: OwnedFields
    ) -> FewRecords | PackedRecords | WideRecords:
        """The records of a block in the form to write, if the block is valid."""
        config, block_bytes_max = self._parts.config, self._parts.log.size_max
        limits = BlockLimits(config.record_bytes_max, block_bytes_max, config.checksum)
        wide = owned.has_ipv6_host
        few = None if wide else FewRecords.of(block, limits)
        if few is not None:
            return few
        checked = check_block(block, limits, folder=self._folder)
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
        # Entries of the delay topic have the delivery time; the queue number gives the level. The
        # stamp, which never goes back, may be ahead of the clock that delivers.
        return min(stamp, self._parts.clock.now_ms()) + delay_of(
            queue.queue_id + 1, self._parts.config.delay_levels_ms
        )

    def _add_keys(
        self,
        key_hashes: NDArray[np.int32],
        key_counts: NDArray[np.uint8],
        offsets: Int64s,
        stamp: int,
    ) -> None:
        key_count = len(key_hashes)
        if not key_count:
            return
        if key_count > 1 or len(offsets) > 1:  # A message alone with its id needs no more steps.
            offsets = np.repeat(offsets, key_counts)
        stamps = np.empty(key_count, np.int64)
        stamps.fill(stamp)
        self._parts.index.add(key_hashes, offsets, stamps)


def _first_queue_offsets(queues: list[ConsumeQueue], counts: Int64s) -> Int64s:
    """Queue offset of the first record of each block; some may be for the same queue."""
    ends = end_offsets(queues)
    if len(set(queues)) == len(queues):
        return np.array(ends, np.int64)
    firsts = []
    next_offsets = dict(zip(queues, ends, strict=True))
    for queue, count in zip(queues, counts.tolist(), strict=True):
        firsts.append(next_offsets[queue])
        next_offsets[queue] += count
    return np.array(firsts, np.int64)
