"""Damage of the commit log: a range of it, and why it holds no valid record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DamageReason(StrEnum):
    """Why a range of the commit log holds no valid record."""

    SEGMENT_MISSING = "segment missing"
    UNREADABLE = "the disk cannot read it"
    SIZE = "impossible size"
    MAGIC = "unknown magic code"
    NOTHING = "zeros where a record should be"
    BLANK = "filler that does not reach the end of its segment"
    STRUCTURE = "lengths that do not add up"
    POSITION = "a record of another place"
    CHECKSUM = "checksum differs"
    QUEUE = "a topic or queue id that names no queue"
    QUEUE_OFFSET = "a queue offset that does not follow"
    BATCH = "a batch without its end"


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of the commit log that holds no valid record."""

    begin: int
    """Commit-log offset of its first byte."""
    end: int
    """The start of the next valid record, or of the next segment."""
    reason: DamageReason
    """The fault at its first byte."""
