"""Which records of the log belong to topics that were deleted.

::

    deleted-topics.json    {"topics": {"flights": 81920}}

Deleting a topic takes its consume queues away; its records stay in the log until they are too old.
Whoever builds queues from the log would bring them back, and a topic that was made again under the
same name would begin with messages of the old one. So before the queues go, the end of the log is
written down, durably: records of the topic below it have no place in a queue and no key any more.

No record that comes later lies below it: where power loss takes the end of the log back, recovery
takes the offset back to that end before anything is appended. An offset is forgotten once the log
begins above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ariane_storage.disk.disk import Disk
from ariane_storage.state_file import StateFile, other_shape


class DeletedTopics:
    """Up to which commit-log offset the records of a topic are deleted. One writing thread."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(path, disk)
        self._ends: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def load(self, commit_log_begin: int) -> None:
        """Read what was written down.

        Args:
            commit_log_begin: Where the log begins; what lies below it says nothing any more.

        Raises:
            StateFileDamaged: Nobody knows; an operator has to decide.
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
        """All topics with deleted records, and up to where."""
        return self._ends

    def note(self, ends: Mapping[str, int]) -> None:
        """Write down, durably, that the records of topics below an offset each are deleted.

        Raises:
            OSError: The disk failed; nothing is deleted.
        """
        self._save({**self._ends, **ends})

    def keep_between(self, commit_log_begin: int, commit_log_end: int) -> None:
        """Forget offsets that the log has passed, and none may lie beyond its end.

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
        # Replaced, not changed: the appending thread may be looking.
        self._ends = self._saved = ends
