"""The recovery of a store in words: its progress and its findings."""

from __future__ import annotations

from collections.abc import Iterable

from ariane_record.counted import counted
from ariane_servicekit import get_logger
from ariane_storage.errors import BytesUnreadable
from ariane_storage.log.damage import Damage
from ariane_storage.recovery.recovery import Progress, RecoveryReport


def recovery_notes(report: RecoveryReport) -> list[str]:
    """What recovery did without a loss, as sentences: a crash alone loses nothing."""
    notes = []
    if report.crashed:
        notes.append(
            f"the last run ended without a stop; {counted(report.records, 'record')} scanned from"
            f" commit-log offset {report.scanned_from}"
        )
    elif report.records and not report.rebuilt:
        notes.append(
            f"{counted(report.records, 'record')} scanned from commit-log offset"
            f" {report.scanned_from} although the last run had stopped: the checkpoint was an older"
            " one, or a segment was shortened"
        )
    if report.crashed:
        notes += _rebuilt(report)
    return notes


def recovery_findings(
    report: RecoveryReport, damage: Iterable[Damage], unreadable: Iterable[BytesUnreadable]
) -> list[str]:
    """What may be lost, as sentences.

    Args:
        report: The report of the store's opening.
        damage: Ranges of the log known to be damaged by now.
        unreadable: Places in other files that the disk could not read by now.
    """
    findings = list(report.foreign_features)
    if report.cut_reason is not None:
        findings.append(
            f"the tail was cut at commit-log offset {report.end_offset}: {report.cut_reason}; "
            f"{counted(report.cut_records, 'whole record')} behind that went with it"
        )
    findings += [
        f"a file in commitlog had a segment's name and was none: it was set aside as {name}"
        for name in report.set_aside
    ]
    if (lost := report.lost_begin) is not None:
        findings.append(
            f"commit-log offsets {lost.begin} to {lost.end} are gone from the begin of the log, "
            "which retention has not deleted"
        )
    findings += [
        f"commit-log offsets {each.begin} to {each.end} are damaged: {each.reason}"
        for each in damage
    ]
    findings += [f"{place}; what it held is built again from the log" for place in unreadable]
    if not report.crashed:
        findings += _rebuilt(report)
    return findings


def _rebuilt(report: RecoveryReport) -> list[str]:
    # A new store has neither, and that is no finding.
    rebuilt = report.rebuilt if report.end_offset else ()
    return [f"{what} built again from the log" for what in rebuilt]


_log = get_logger(__name__)


class RecoveryProgress:
    """Logs a line for each tenth of the work: none for a small store, ten for a large one."""

    def __init__(self, event: str = "recovery_progress") -> None:
        self._event = event
        self._tenths = 0

    def __call__(self, progress: Progress) -> None:
        """Log the progress if it has reached another tenth."""
        tenths = progress.done_bytes * 10 // max(1, progress.total_bytes)
        if tenths > self._tenths:
            self._tenths = tenths
            _log.info(
                self._event,
                step=progress.step,
                percent=tenths * 10,
                done_bytes=progress.done_bytes,
                total_bytes=progress.total_bytes,
            )
