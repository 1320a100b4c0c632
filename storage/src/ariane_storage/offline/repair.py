"""Repair of a closed store, and a report of it.

Derived data is rebuilt from the log; damage is quarantined. Every loss is reported: the findings
before the repair are compared with those after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ariane_record.counted import counted
from ariane_storage.config import StoreConfig
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StorageError
from ariane_storage.layout import check_sizes_known
from ariane_storage.offline.closed_store import ClosedStore
from ariane_storage.offline.finding import Finding, FindingState
from ariane_storage.offline.inspection import Inspection, inspect
from ariane_storage.recovery.recovery import ProgressCallback
from ariane_storage.store import Store

_PASSES_MAX = 2
"""The first pass may only recover from a crash; the rest shows in the second."""
_BEYOND = ("entries beyond the log", "leads to no record")


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair."""

    findings: list[Finding]
    """The findings before the repair, each with its new state, and new ones."""
    after: Inspection
    """The inspection after the repair."""
    was_needed: bool
    """Whether anything was changed."""
    refusal: Exception | None = None
    """Why the repair could not be finished, or None."""


def repair(root: Path, disk: Disk, progress: ProgressCallback | None = None) -> Repair:
    """Repair a store as far as that is possible.

    Args:
        root: The store's folder.
        disk: The disk with the store.
        progress: Called now and then with the progress.

    Raises:
        StoreLocked: A process has it open.
        StoreFormatError: The folder holds no store, or files of impossible lengths.
        StateFileDamaged: The file with its sizes cannot be read.
        OSError: The store cannot be read.
    """
    config, before = _inspected(root, disk, progress)
    after, refusal, passes = before, None, 0
    while refusal is None and passes < _PASSES_MAX and (after.is_repairable or after.crashed):
        # If only the end of the log is torn, queues and index need no rebuild.
        rebuild = any(_needs_rebuild(finding) for finding in after.findings)
        try:
            check_sizes_known(root, disk)
            Store.open(root, config, disk=disk, progress=progress, rebuild=rebuild).close()
        except (StorageError, OSError) as error:
            refusal = error
        _, after = _inspected(root, disk, progress)
        passes += 1
    findings = before.findings
    if passes:
        findings = [*_with_new_states(before, after), *_cut_records(before, after)]
    return Repair(findings, after, bool(passes), refusal)


def _inspected(
    root: Path, disk: Disk, progress: ProgressCallback | None
) -> tuple[StoreConfig, Inspection]:
    with ClosedStore(root, disk) as store:
        return store.config, inspect(store, progress)


def _needs_rebuild(finding: Finding) -> bool:
    return finding.state is FindingState.OPEN and finding.where not in {"tail", "foreign file"}


def _with_new_states(before: Inspection, after: Inspection) -> Iterator[Finding]:
    """The findings before with their new states, then the new findings."""
    left = list(after.findings)
    was_cut = after.end_offset < before.end_offset or any(
        finding.where == "tail" for finding in before.findings
    )
    for finding in before.findings:
        same = [other for other in left if _is_same(finding, other)]
        left = [other for other in left if other not in same]
        if same:
            yield same[0] if len(same) == 1 else finding.in_state(same[0].state)
        else:
            yield finding.in_state(_fate(finding, after, was_cut=was_cut))
    yield from left


def _is_same(finding: Finding, other: Finding) -> bool:
    """Whether two findings are the same, perhaps with different extents."""
    names = (finding.where, finding.topic, finding.queue_id)
    if names != (other.where, other.topic, other.queue_id) or finding.where == "index":
        return finding == other
    overlap = finding.begin < other.end and other.begin < finding.end
    return overlap or (finding.begin, finding.end) == (other.begin, other.end)


def _fate(finding: Finding, after: Inspection, *, was_cut: bool) -> FindingState:
    """The repair of a finding that the second inspection does not have."""
    if finding.state is not FindingState.OPEN:
        return finding.state
    if finding.where == "commit log":
        is_cut = finding.begin >= after.end_offset
        return FindingState.CUT if is_cut else FindingState.LOST
    if finding.where == "foreign file":
        return FindingState.SET_ASIDE
    if finding.where == "tail" or (was_cut and finding.reason in _BEYOND):
        return FindingState.CUT
    return FindingState.BUILT_AGAIN


def _cut_records(before: Inspection, after: Inspection) -> Iterator[Finding]:
    """Valid records that were cut with the end of the log: behind a hole left by power loss."""
    count, begin, last = before.record_starts.missing_in(after.record_starts)
    if not count:
        return
    reason = f"{counted(count, 'whole record')} behind a hole"
    end = max(last, before.end_offset)
    yield Finding("commit log", reason, begin, end, state=FindingState.CUT)
    for (topic, queue_id), (first, end) in sorted(before.queue_spans.items()):
        kept = after.queue_spans.get((topic, queue_id), (first, first))[1]
        if kept < end:
            reason = "cut with the end of the log"
            yield Finding(
                "queue offsets", reason, kept, end, topic, queue_id, state=FindingState.CUT
            )
