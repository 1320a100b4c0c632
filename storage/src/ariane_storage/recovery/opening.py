"""Opening a store: its parts are put together and recovered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ariane_storage.config import StoreConfig
from ariane_storage.disk.clock import Clock
from ariane_storage.disk.disk import Disk, FileLock, is_exhausted
from ariane_storage.disk.unreadable_places import UnreadablePlaces
from ariane_storage.errors import StoreFull
from ariane_storage.index.index import Index
from ariane_storage.keeping.keeper import Keeper
from ariane_storage.layout import settle_layout
from ariane_storage.log.believed_time import BelievedTime
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.log.commit_log import CommitLog
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.flush import FlushGuard
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.segment import segment_name
from ariane_storage.log.segment_files import find_segments, set_aside
from ariane_storage.parts import StoreParts
from ariane_storage.queues.idle_queues import IdleQueues
from ariane_storage.queues.queue_table import QueueTable
from ariane_storage.reading.entry_check import astray_edges
from ariane_storage.recovery.foreign_features import (
    foreign_findings,
    has_extended_queues,
    refuse_foreign_features,
)
from ariane_storage.recovery.recovery import ProgressCallback, Recovery, RecoveryReport
from ariane_storage.store_files import StoreFiles, mark_running, own_store


def open_parts(
    files: StoreFiles,
    config: StoreConfig,
    disk: Disk,
    clock: Clock,
    progress: ProgressCallback | None,
    *,
    rebuild: bool = False,
) -> tuple[StoreParts, FileLock, Keeper, RecoveryReport]:
    """Lock a store, put its parts together and recover them.

    Args:
        files: Paths of the store.
        config: Its settings.
        disk: The disk with the store.
        clock: The clock.
        progress: Called now and then with the progress of recovery, or None.
        rebuild: Whether to rebuild consume queues and index in any case.

    Raises:
        StoreLocked: Another process has it open.
        StoreFormatError: Files of another size or of a newer version.
        StateFileDamaged: State that cannot be rebuilt cannot be read.
        StoreFull: No space for the writes of recovery.
        OSError: The disk failed.
    """
    try:
        lock = own_store(disk, files)
        try:
            parts, keeper, report = _recovered(
                files, config, disk, clock, progress, rebuild=rebuild
            )
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        if is_exhausted(error):
            reason = f"no space left to open the store ({error.strerror})"
            raise StoreFull(files.root, reason) from error
        raise
    return parts, lock, keeper, report


def _recovered(
    files: StoreFiles,
    config: StoreConfig,
    disk: Disk,
    clock: Clock,
    progress: ProgressCallback | None,
    *,
    rebuild: bool,
) -> tuple[StoreParts, Keeper, RecoveryReport]:
    settle_layout(disk, files, config)
    checkpoint_file = CheckpointFile(disk, files.checkpoint)
    checkpoint = checkpoint_file.load()
    for folder in (files.commit_log, files.consume_queues, files.config):
        disk.make_folders(folder)
    # Before any change: a store that needs an operator's decision stays as it is.
    refuse_foreign_features(disk, files)
    findings = tuple(foreign_findings(disk, files))
    extended = has_extended_queues(disk, files)
    DeletedTopics(disk, files.deleted_topics).load(0)
    known = Quarantine(disk, files.quarantine)
    known.load()
    rebuild = rebuild or known.is_mended or extended
    if rebuild:
        IdleQueues(disk, files.idle_queues).check()
    crashed = mark_running(disk, files)
    if crashed:
        # A process that is killed while it saves state may leave names that only memory has: what
        # is read now must still be there after a loss of power.
        disk.sync(folders=[files.root, files.config])
    size = config.segment_bytes
    found = find_segments(disk, files.commit_log, size, checkpoint, crashed=crashed)
    # Before anything is written: what a file was last written to still says.
    changed_from = _changed_from(disk, files, found.starts)
    foreign = set_aside(disk, files.commit_log, found.foreign)
    parts = _parts(files, config, disk, clock, found.starts)
    parts.believed_time.resume(_last_seen_ms(disk, files, found.starts))
    parts.quarantine.load()
    parts.deleted_topics.load(parts.log.min_offset)
    recovery = Recovery(
        config=config,
        log=parts.log,
        queues=parts.queues,
        index=parts.index,
        idle_queues=parts.idle_queues,
        deleted_topics=parts.deleted_topics,
        quarantine=parts.quarantine,
        checkpoint=checkpoint,
        changed_from=changed_from,
        crashed=crashed,
        progress=progress,
        rebuild=rebuild,
    )
    report = recovery.run()
    parts.quarantine.is_rebuilt()
    confirmed = checkpoint.confirmed_offset if checkpoint is not None else 0
    confirmed = min(max(confirmed, parts.log.min_offset), report.end_offset)
    report = replace(
        report, set_aside=foreign, confirmed_offset=confirmed, foreign_features=findings
    )
    # Entries may point into damage that the scan has met: only records behind it are certain.
    parts.trusted_from = max([report.scanned_from, *(damage.end for damage in report.damage)])
    parts.store_timestamp_ms = max(
        recovery.store_timestamp_ms,
        checkpoint.store_timestamp_ms if checkpoint is not None else 0,
    )
    keeper = Keeper(parts, checkpoint_file)
    _begin_keeping(parts, keeper, confirmed)
    if extended:
        disk.remove_folder(files.extended_queues)  # What is built again is durable.
    return parts, keeper, report


def _begin_keeping(parts: StoreParts, keeper: Keeper, confirmed: int) -> None:
    """Ask for repairs, and make the derived files durable."""
    keeper.follow_log()
    for queue in parts.queues:
        for queue_offset in astray_edges(parts, queue):
            parts.repairs.ask(queue, queue_offset)
    # Whether more may be handed out, the owner of the store says later.
    parts.confirm_limit = confirmed
    keeper.flush_derived()
    parts.confirm_limit = None


def _parts(
    files: StoreFiles, config: StoreConfig, disk: Disk, clock: Clock, segment_starts: Sequence[int]
) -> StoreParts:
    """The parts of a store, before they are loaded."""
    unreadable = UnreadablePlaces()
    return StoreParts(
        config=config,
        disk=disk,
        clock=clock,
        believed_time=BelievedTime(clock, disk, files.clock_doubt, patience_ms=config.retention_ms),
        files=files,
        log=CommitLog(disk, files.commit_log, segment_starts, segment_bytes=config.segment_bytes),
        queues=QueueTable(
            disk,
            files.consume_queues,
            file_entries=config.consume_queue_file_entries,
            open_max=config.files_open_max,
            unreadable=unreadable,
        ),
        index=Index(
            disk,
            files.index,
            clock,
            slots=config.index_slots,
            items=config.index_items,
            unreadable=unreadable,
        ),
        idle_queues=IdleQueues(disk, files.idle_queues),
        deleted_topics=DeletedTopics(disk, files.deleted_topics),
        quarantine=Quarantine(disk, files.quarantine),
        unreadable=unreadable,
        guard=FlushGuard(),
    )


def _changed_from(disk: Disk, files: StoreFiles, starts: Sequence[int]) -> int | None:
    """The first segment that was written to after the checkpoint, by its files; None if none was.

    After a stop another program has done that; after a crash it may also be the end of the log.
    """
    checked_ms = disk.modified_ms(files.checkpoint)
    if checked_ms is None:
        return None
    written = (
        (start, disk.modified_ms(files.commit_log / segment_name(start))) for start in starts
    )
    return next((start for start, ms in written if ms is not None and ms > checked_ms), None)


def _last_seen_ms(disk: Disk, files: StoreFiles, starts: Sequence[int]) -> int | None:
    """When the store was last written to, by its files; None for a new one."""
    segments = [files.commit_log / segment_name(start) for start in starts[-1:]]
    return max(filter(None, map(disk.modified_ms, [files.checkpoint, *segments])), default=None)
