"""Inspection of a closed store: every record, and everything that refers to records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ariane_storage.disk.disk import Disk
from ariane_storage.errors import BytesUnreadable, StateFileDamaged
from ariane_storage.layout import load_layout
from ariane_storage.log.checkpoint import CheckpointFile
from ariane_storage.log.damage import Damage, DamageReason
from ariane_storage.log.deleted_topics import DeletedTopics
from ariane_storage.log.quarantine import Quarantine
from ariane_storage.log.scan import Ending, scan
from ariane_storage.log.segment import segment_name
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState
from ariane_storage.offline.index_inspection import check_index
from ariane_storage.offline.queue_inspection import QueueChecks, queues_before
from ariane_storage.offline.record_starts import RecordStarts
from ariane_storage.queues.idle_queues import IdleQueues
from ariane_storage.queues.record_rows import Rows
from ariane_storage.recovery.missing_files import lost_begin
from ariane_storage.recovery.recovery import Progress, ProgressCallback
from ariane_storage.state_file import StateFile


@dataclass(slots=True)
class Inspection:
    """The contents and faults of a store."""

    record_starts: RecordStarts
    """Where all valid records begin."""
    queue_spans: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """First queue offset and end of each queue that the log has records of."""
    end_offset: int = 0
    """The end of the log."""
    crashed: bool = False
    """Whether the last run ended without a stop."""
    findings: list[Finding] = field(default_factory=list)
    """The faults, damage of the commit log first."""

    @property
    def records(self) -> int:
        """Number of valid records."""
        return len(self.record_starts)

    @property
    def topics(self) -> set[str]:
        """Topics of these records."""
        return {topic for topic, _ in self.queue_spans}

    @property
    def first_offset(self) -> int:
        """Commit-log offset of the first valid record, or -1."""
        return self.record_starts.first

    @property
    def last_offset(self) -> int:
        """Commit-log offset of the last valid record, or -1."""
        return self.record_starts.last

    @property
    def damaged(self) -> list[Finding]:
        """Damaged ranges of the commit log that no rebuild can mend."""
        return [finding for finding in self.findings if finding.where == "commit log"]

    @property
    def is_sound(self) -> bool:
        """Whether the only fault is a torn tail, which the next start cuts."""
        return all(finding.where == "tail" for finding in self.findings)

    @property
    def is_repairable(self) -> bool:
        """Whether a repair would change anything."""
        return any(finding.state is FindingState.OPEN for finding in self.findings)


def inspect(store: ClosedStore, progress: ProgressCallback | None = None) -> Inspection:
    """Scan the whole log, and compare consume queues and index with it.

    Records of deleted topics count as records; they need no queue entry.

    Args:
        store: The store.
        progress: Called now and then with the progress.
    """
    checks, starts = QueueChecks(store), RecordStarts()
    damage = [*_lost_begin(store), *_missing_end(store)]
    end_offset = begin = store.log.min_offset
    total = _log_end(store) - begin
    for event in scan(store.log.walk(begin), begin):
        if isinstance(event, Damage):
            damage.append(_of_log(store, event))
        elif isinstance(event, Ending):
            end_offset = event.commit_log_offset
            damage += _end_of_log(store, event)
        else:
            rows = Rows.of(event)
            starts.add(event.segment.start, rows.commit_log_offsets)
            checks.take(rows)
            if progress is not None:
                progress(Progress("check the commit log", event.end - begin, total))
    found = Inspection(starts, end_offset=end_offset, crashed=store.crashed, findings=damage)
    lost = [(finding.begin, finding.end) for finding in damage if finding.where == "commit log"]
    found.findings += _foreign_files(store)
    found.findings += check_state(store)
    if gone := lost_begin(store.log, store.checkpoint, crashed=store.crashed):
        found.findings += queues_before(store, gone)
    found.findings += checks.finish(lost)
    found.queue_spans = checks.spans
    found.findings += check_index(store, found.record_starts)
    found.findings += map(partial(_of_file, store), store.unreadable.found)
    return found


def _of_file(store: ClosedStore, place: BytesUnreadable) -> Finding:
    """A finding for an unreadable place of a consume queue or the index."""
    path = str(place.path.relative_to(store.files.root))
    where = "index" if path.startswith("index/") else "consume queue"
    reason = f"{DamageReason.UNREADABLE.value}: {place.reason}"
    return Finding(where, reason, path=path, position=place.position)


def _log_end(store: ClosedStore) -> int:
    """The end of the last segment."""
    return store.log.segments[-1].end if store.log.segments else store.log.min_offset


def _of_log(store: ClosedStore, damage: Damage, where: str = "commit log") -> Finding:
    """A finding of the commit log, with the file in which it begins, or would begin."""
    start = damage.begin - damage.begin % store.log.segment_bytes
    segment = store.log.segment_at(damage.begin)
    if segment is not None:
        start = segment.start
    known = where == "commit log" and store.quarantine.holds(damage.begin, damage.end)
    return Finding(
        where,
        damage.reason.value,
        damage.begin,
        damage.end,
        path=f"commitlog/{segment_name(start)}",
        position=damage.begin - start,
        state=FindingState.QUARANTINED if known else FindingState.OPEN,
    )


def _end_of_log(store: ClosedStore, ending: Ending) -> Iterator[Finding]:
    """Classify the bytes after the last record: a torn tail, or damage of durable records."""
    flushed = store.checkpoint.flushed_offset if store.checkpoint is not None else 0
    begin = ending.commit_log_offset
    if begin < flushed <= _log_end(store):
        is_there = store.log.segment_at(begin) is not None
        nothing = DamageReason.NOTHING if is_there else DamageReason.SEGMENT_MISSING
        yield _of_log(store, Damage(begin, flushed, ending.reason or nothing))
    elif ending.reason is not None:
        yield _of_log(store, Damage(begin, _log_end(store), ending.reason), "tail")


def _lost_begin(store: ClosedStore) -> Iterator[Finding]:
    """Segments missing at the begin of the log that retention has not deleted."""
    gone = lost_begin(store.log, store.checkpoint, crashed=store.crashed)
    if gone is not None:
        yield _of_log(store, gone)


def _missing_end(store: ClosedStore) -> Iterator[Finding]:
    """Segments missing at the end of the log that the checkpoint knows."""
    end = _log_end(store)
    if store.checkpoint is not None and end < store.checkpoint.flushed_offset:
        flushed = store.checkpoint.flushed_offset
        yield _of_log(store, Damage(end, flushed, DamageReason.SEGMENT_MISSING))


def _foreign_files(store: ClosedStore) -> Iterator[Finding]:
    """Files with a segment's name that belong to no log."""
    for start in store.foreign_segments:
        reason = "has a segment's name, and is none of this log: the next start sets it aside"
        end = start + store.log.segment_bytes
        path = f"commitlog/{segment_name(start)}"
        yield Finding("foreign file", reason, start, end, path=path)


_FOLDER: Final = "a folder in the place of a file: restore the file, or remove the folder"


def check_state(store: ClosedStore) -> Iterator[Finding]:
    """Faults of the checkpoint and of all state files, including the broker's."""
    disk, files = store.disk, store.files
    is_ours = load_layout(disk, files) is not None
    if is_ours and CheckpointFile(disk, files.checkpoint).is_damaged():
        reason = "cannot be believed: the next start reads the whole log"
        yield Finding("checkpoint", reason, path=files.checkpoint.name)
    if store.checkpoint is not None and not is_ours:
        reason = f"{files.layout.name} is missing: sizes are read off the files; restore it"
        yield Finding("layout", reason, path=files.layout.name, state=FindingState.BY_HAND)
    if disk.is_folder(files.quarantine):
        path = files.quarantine.name
        yield Finding("quarantine", _FOLDER, path=path, state=FindingState.BY_HAND)
    elif not Quarantine(disk, files.quarantine).load():
        reason = "cannot be read: what is damaged is found again"
        yield Finding("quarantine", reason, path=files.quarantine.name)
    yield from _check_file(disk, files.root, files.deleted_topics, "deleted topics")
    yield from _check_file(disk, files.root, files.idle_queues, "idle queues")
    for name in _state_names(disk.names(files.config)):
        yield from _check_file(disk, files.root, files.config / name, "state file")


def _state_names(names: list[str]) -> list[str]:
    """Names of state files of which any generation exists."""
    endings = (".json", ".json.bak", ".json.sums")
    found = {name[: name.index(".json") + 5] for name in names if name.endswith(endings)}
    return sorted(found)


def _check_file(disk: Disk, root: Path, path: Path, where: str) -> Iterator[Finding]:
    shown = str(path.relative_to(root))
    file = StateFile(path, disk)
    reason = ""
    try:
        file.load()
        if where == "deleted topics":
            DeletedTopics(disk, path).load(0)
        elif where == "idle queues":
            IdleQueues(disk, path).check()
        if file.used_backup:
            reason = "damaged or missing: the generation before it is used"
    except StateFileDamaged as error:
        reason = error.reason
    except IsADirectoryError:
        reason = _FOLDER
    if reason:
        yield Finding(where, reason, path=shown, state=FindingState.BY_HAND)
