"""Appending tables and records of the broker's own: the one way into the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ariane_record import RecordTable
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.layout import Host
from ariane_record.names import TIMER_TOPIC
from ariane_storage.errors import BlockRejected, StoreFull
from ariane_storage.layout import DISK_SECTOR_BYTES
from ariane_storage.log.records.fields import Int64s
from ariane_storage.parts import StoreParts
from ariane_storage.queues.consume_queue import next_offsets
from ariane_storage.queues.consume_queue_entry import encoded_entry
from ariane_storage.queues.record_rows import delay_of
from ariane_storage.writing.append import IPV4_FIELD_BYTES, Appended, Places, host_field
from ariane_storage.writing.few_records import FewRecords
from ariane_storage.writing.own_records import OwnRecords
from ariane_storage.writing.packed_records import PackedRecords, wide_records
from ariane_storage.writing.property_check import Sequences
from ariane_storage.writing.table_check import PARKED_TOPICS, TableLimits, check_table

_KEPT_BYTES_MAX: Final = 8 << 20
"""The memory of larger tables is not kept."""


class Appender:
    """Writes tables to the commit log and dispatches them in the same step. One thread."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        config = parts.config
        self._limits = TableLimits(config.record_bytes_max, parts.log.size_max)
        self._store_field = host_field(config.store_host)
        self._own_records = OwnRecords(self._store_field)
        self._folder = CrcFolder()
        self._drafts = _DraftMemory()

    def append(
        self,
        table: RecordTable,
        queue_ids: Sequence[int],
        born_host: Host,
        sequences: Sequences,
    ) -> Appended:
        """Append a table; see ``Store.append``."""
        parts, stamp = self._parts, self._stamp()
        born_field = host_field(born_host)
        hosts = born_field + stamp.to_bytes(8, "big") + self._store_field
        records = self._checked(table, sequences, born_field, hosts)
        size = len(records.records)
        try:
            if parts.index.pending_keys > parts.config.index_backlog_keys:
                # Before any write: the disk may be full.
                parts.index.file_some()
            queues = parts.queues.find_or_make_all(table.topics, queue_ids)
            segment, position = parts.log.reserve(size)
            begin = segment.start + position
            firsts = next_offsets(queues, table.counts)
            other_codes = None
            if table.topics[0] in PARKED_TOPICS:
                other_codes = self._other_codes(table, queue_ids[0], stamp)
            sector_place = position % DISK_SECTOR_BYTES
            draft = self._drafts.of(sector_place + size)
            places = Places(begin, queue_ids, firsts, other_codes)
            starts, edges, entries = records.place(draft, sector_place, hosts, places)
            segment.write(position, draft[sector_place:])
        except OSError as error:
            raise parts.guard.poison(error) from error
        parts.queues.append_all(queues, entries, edges[1:])
        parts.index.add_of(table.key_hashes, table.key_counts, starts, stamp)
        parts.store_timestamp_ms = stamp
        parts.log.write_offset = begin + size
        return Appended(firsts, table.counts, edges, stamp, starts)

    def append_own(self, topic: str, queue_id: int, body: bytes) -> tuple[int, int]:
        """Append a record of the broker's own; see ``Store.append_own``."""
        parts, stamp, own = self._parts, self._stamp(), self._own_records
        size = own.size_bytes(topic, body)
        if size > self._limits.record_bytes_max:
            raise BlockRejected(f"larger than {self._limits.record_bytes_max} bytes", 0)
        try:
            queue = parts.queues.find_or_make(topic, queue_id)
            segment, position = parts.log.reserve(size)
            begin = segment.start + position
            (queue_offset,) = next_offsets((queue,), (1,))
            segment.write(position, own.encoded(topic, queue_id, body, queue_offset, begin, stamp))
        except OSError as error:
            raise parts.guard.poison(error) from error
        end = begin + size
        with parts.queues.lock:
            queue.add(encoded_entry(begin, size, 0), end)
        parts.store_timestamp_ms = stamp
        parts.log.write_offset = end
        return begin, end

    def _stamp(self) -> int:
        """The timestamp of what is appended now, if the store takes anything."""
        parts = self._parts
        if not parts.is_open:
            parts.check_open()
        parts.guard.check()
        if parts.full_reason:
            raise StoreFull(parts.files.root, parts.full_reason)
        # The clock may go back; timestamps in the log do not.
        return max(parts.clock.now_ms(), parts.store_timestamp_ms)

    def _checked(
        self, table: RecordTable, sequences: Sequences, born_field: bytes, hosts: bytes
    ) -> FewRecords | PackedRecords:
        """The records of a table in the form to write, if the table is valid."""
        limits = self._limits
        is_wide = len(born_field) + len(self._store_field) > 2 * IPV4_FIELD_BYTES
        few = None if is_wide else FewRecords.of(table, limits, sequences)
        if few is not None:
            return few
        records = check_table(table, limits, sequences=sequences, folder=self._folder)
        return (
            wide_records(records, born_field, hosts, limits.table_bytes_max) if is_wide else records
        )

    def _other_codes(self, table: RecordTable, queue_id: int, stamp: int) -> Int64s | int | None:
        """What the queue of parked records has in the place of the codes of their tags."""
        if table.topics[0] == TIMER_TOPIC:
            return table.delivery_times_ms
        # Entries of the delay topic have the delivery time; the queue number gives the level. The
        # stamp, which never goes back, may be ahead of the clock that delivers.
        return min(stamp, self._parts.clock.now_ms()) + delay_of(
            queue_id + 1, self._parts.config.delay_levels_ms
        )


class _DraftMemory:
    """Memory in which one table at a time is built before it is written to its segment.

    Every table uses the same memory, so that it stays in the caches of the processor: the
    additional cost is one copy by the kernel into the pages of the file.
    """

    def __init__(self) -> None:
        self._memory = memoryview(b"")

    def of(self, size: int) -> memoryview:
        """``size`` bytes of any content; valid until the next call."""
        if size <= len(self._memory):
            return self._memory[:size]
        if size > _KEPT_BYTES_MAX:
            return memoryview(bytearray(size))
        # A power of two, so that it does not grow with every table.
        self._memory = memoryview(bytearray(1 << size.bit_length()))
        return self._memory[:size]
