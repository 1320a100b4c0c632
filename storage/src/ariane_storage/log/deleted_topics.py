"""Records in the log that belong to deleted topics.

::

    deleted-topics.json    {"topics": {"flights": 81920}}

Deleting a topic removes its consume queues; its records stay in the log until retention deletes
them. A rebuild of queues from the log would bring them back, and a topic created again under the
same name would begin with old messages. So before the queues are removed, the end of the log is
written down, durably: records of the topic below it have no place in a queue and no key any more.
So it is with records of other topics that wait for it, such as delayed ones: whoever keeps these
asks for the offset.

No later record is below it: if power loss takes the end of the log, recovery lowers the offset to
the new end before anything is appended. An offset is forgotten once the log begins above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ariane_storage.disk.disk import Disk
from ariane_storage.state_file import StateFile, other_shape


class DeletedTopics:
    """The commit-log offset below which each topic's records are deleted. One writing thread."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(path, disk)
        self._ends: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def load(self, commit_log_begin: int) -> None:
        """Load the file.

        Args:
            commit_log_begin: The begin of the log; offsets below it are dropped.

        Raises:
            StateFileDamaged: The offsets are unknown; an operator must decide.
        """
        state = self._file.load() or {}
        try:
            self._saved = {topic: int(end) for topic, end in state.get("topics", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise other_shape(self._file.path, error) from error
        self._ends = {topic: end for topic, end in self._saved.items() if end > commit_log_begin}

    def end_of(self, topic: str) -> int:
        """Records of a topic below this commit-log offset are deleted; 0 if none are."""
        return self._ends.get(topic, 0)

    @property
    def ends(self) -> Mapping[str, int]:
        """All topics with deleted records, and the offset of each."""
        return self._ends

    def note(self, ends: Mapping[str, int]) -> None:
        """Write down, durably, that the records of topics below these offsets are deleted.

        Raises:
            OSError: The disk failed; nothing is deleted.
        """
        self._save({**self._ends, **ends})

    def keep_between(self, commit_log_begin: int, commit_log_end: int) -> None:
        """Drop offsets below the begin of the log, and lower offsets beyond its end.

        Raises:
            OSError: The disk failed.
        """
        kept = {
            topic: min(end, commit_log_end)
            for topic, end in self._ends.items()
            if min(end, commit_log_end) > commit_log_begin
        }
        if kept != self._saved:
            self._save(kept)

    def _save(self, ends: dict[str, int]) -> None:
        self._file.save({"topics": ends})
        # Replaced, not changed: the appending thread may be reading it.
        self._ends = self._saved = ends
