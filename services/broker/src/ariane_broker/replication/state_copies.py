"""State files of a store as copies of one another: what lies in ``config/`` beside the log.

They travel whole, as they lie on the primary's disk, and only those that differ. Two kinds lie
there: what people and consumers decided, and snapshots of what follows from the log. Snapshots
speak of records up to some place, so that a replica takes files over once its own log reaches the
primary's end at that time, and forgets snapshots before it cuts its log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ariane_record.checksums.checksum import crc32
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.state_file import StateFile, decode_state

STATE_FILE_BYTES_MAX: Final = 256 << 20
"""Bytes of one state file that a replica takes: offsets of a million queues are less."""

_NAME: Final = re.compile(r"[A-Za-z0-9]{1,64}\.json")

DECIDED: Final = frozenset(
    {
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
        "queueLocks.json",
        "consumerDeaths.json",
        "logEpochs.json",
    }
)
"""What no log says. All others are snapshots."""


class StatePart(NamedTuple):
    """A state file.

    Attributes:
        name: Its name.
        content: Its bytes.
    """

    name: str
    content: bytes


class StateCopies:
    """The state files of one store. Blocks: waits for the disk."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder

    def versions(self) -> dict[str, int]:
        """The checksum of each file."""
        return {part.name: crc32(part.content) for part in self.parts({})}

    def parts(self, known: Mapping[str, int]) -> Iterator[StatePart]:
        """Files that differ from those whose checksums are known."""
        for name in self._disk.names(self._folder):
            if not is_state_file(name):
                continue
            try:
                content = self._disk.read(self._folder / name)
            except FileNotFoundError:
                continue
            if crc32(content) != known.get(name):
                yield StatePart(name, content)

    def put(self, part: StatePart) -> None:
        """Replace a file durably.

        Raises:
            StateFileDamaged: It is no state.
            OSError: The disk failed.
        """
        path = self._folder / part.name
        if not is_state_file(part.name):
            raise StateFileDamaged(path, "no name of a state file")
        try:
            state = decode_state(part.content)
        except ValueError as error:
            raise StateFileDamaged(path, f"came as no JSON ({error})") from error
        StateFile(path, self._disk).save(state)

    def forget_snapshots(self) -> None:
        """Remove all that follows from the log: it is read from there again."""
        for name in self._disk.names(self._folder):
            if is_state_file(name) and name not in DECIDED:
                StateFile(self._folder / name, self._disk).remove()


def is_state_file(name: str) -> bool:
    """Whether a name can be one of a state file."""
    return _NAME.fullmatch(name) is not None
