"""Copies of a primary's state files: the files in ``config/`` beside the log.

Only files that differ are sent, each whole and as it is on the primary's disk. There are two kinds:
decisions of people and consumers, and snapshots of state derived from the log. A snapshot includes
records up to some offset. So a replica stores it once its own log reaches the end that the
primary's log had then, and removes those that include what it cuts before it cuts its log. After a
crash it removes those that include more than its log has: a disk may have lost what it said to have
flushed, and other records take that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from ariane_record.checksums.checksum import crc32
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.state_file import StateFile, decode_state

STATE_FILE_BYTES_MAX: Final = 256 << 20
"""The largest state file that a replica accepts: offsets of a million queues are less."""

_NAME: Final = re.compile(r"[A-Za-z0-9]{1,64}\.json")

_TOPICS: Final = "topics.json"

DECIDED: Final = frozenset(
    {
        _TOPICS,
        "subscriptionGroup.json",
        "consumerOffset.json",
        "queueLocks.json",
        "consumerDeaths.json",
        "logEpochs.json",
    }
)
"""Files that cannot be derived from the log. All others are snapshots."""


class StatePart(NamedTuple):
    """A state file."""

    name: str
    """Its name."""
    content: bytes
    """Its bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class StateCopies:
    """The state files of one store. Blocks: waits for the disk."""

    disk: Disk
    folder: Path

    def versions(self) -> dict[str, int]:
        """The checksum of each file."""
        return {part.name: crc32(part.content) for part in self.parts({})}

    def parts(self, known: Mapping[str, int]) -> Iterator[StatePart]:
        """Files that differ from those whose checksums are known.

        Topics come first. What groups have consumed of a queue is saved before the queue is closed:
        so no closed queue comes along with offsets of before.
        """
        for name in sorted(self.disk.names(self.folder), key=lambda name: name != _TOPICS):
            if not is_state_file(name):
                continue
            try:
                content = self.disk.read(self.folder / name)
            except FileNotFoundError:
                continue
            if crc32(content) != known.get(name):
                yield StatePart(name, content)

    def put(self, part: StatePart) -> None:
        """Replace a file durably.

        Raises:
            StateFileDamaged: It is not a state file.
            OSError: The disk failed.
        """
        path = self.folder / part.name
        if not is_state_file(part.name):
            raise StateFileDamaged(path, "no name of a state file")
        try:
            state = decode_state(part.content)
        except ValueError as error:
            raise StateFileDamaged(path, f"came as no JSON ({error})") from error
        StateFile(path, self.disk).save(state)

    def forget_snapshots(self, end: int = -1) -> None:
        """Remove snapshots that may include records at or behind a commit-log offset.

        Their state is read from the log again. By default all of them are removed.
        """
        for name in self.disk.names(self.folder):
            if is_state_file(name) and name not in DECIDED:
                file = StateFile(self.folder / name, self.disk)
                if _end_of(file) > end:
                    file.remove()


def _end_of(file: StateFile) -> float:
    """Up to where a snapshot includes the log; infinite if that is not known."""
    try:
        return int((file.load() or {})["commitLogOffset"])
    except (StateFileDamaged, KeyError, TypeError, ValueError):
        return inf


def is_state_file(name: str) -> bool:
    """Whether a name can be one of a state file."""
    return _NAME.fullmatch(name) is not None
