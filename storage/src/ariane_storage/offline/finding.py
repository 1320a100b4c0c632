"""The findings of an inspection of a closed store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class FindingState(StrEnum):
    """The state of a finding."""

    OPEN = "open"
    """Not mended yet: ``fsck --repair`` does it."""

    BY_HAND = "by hand"
    """Only an operator can repair it: the reason explains how."""

    QUARANTINED = "quarantined"
    """Kept in place, and skipped by readers: no further repair is possible."""

    LOST = "lost"
    """Messages that are gone for good."""

    CUT = "cut"
    """Removed with the end of the log."""

    SET_ASIDE = "set aside"
    """A foreign file that a repair, or a start, has given another name."""

    BUILT_AGAIN = "built again"
    """Made anew from the log."""

    DONE = "done"
    """A file that a repair has written."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a store."""

    where: str
    """One of "commit log", "foreign file", "tail", "consume queue", "queue offsets", "index",
    "checkpoint", "quarantine", "layout", "deleted topics", "idle queues" or "state file"; and of a
    repair, "file" for one that it has written."""
    reason: str
    """The fault."""
    begin: int = 0
    """Commit-log offset, or queue offset, at which it begins."""
    end: int = 0
    """Its end."""
    topic: str = ""
    """Topic of the queue; empty for others."""
    queue_id: int = -1
    """Number of the queue, or -1."""
    path: str = ""
    """The file, relative to the folder of the store; empty for others."""
    position: int = -1
    """Byte of that file at which it begins, or -1."""
    state: FindingState = FindingState.OPEN
    """The state of the finding."""

    def in_state(self, state: FindingState) -> Finding:
        """The same finding in another state."""
        return replace(self, state=state)


def lost_messages(findings: Iterable[Finding]) -> int:
    """How many messages queues have lost for good."""
    return sum(
        finding.end - finding.begin
        for finding in findings
        if finding.where == "queue offsets" and finding.state is FindingState.LOST
    )
