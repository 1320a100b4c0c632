"""The head of a snapshot: its version, and the commit-log offset that it covers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ariane_broker.queue_key import QueueKey


class SnapshotState:
    """A state machine over the log (``LogState``) with snapshots in a format of our own."""

    snapshot_version: ClassVar[int] = 1
    """Version of ``contents``; snapshots of other versions are refused."""

    def contents(self) -> dict[str, Any]:
        """Everything as JSON."""
        raise NotImplementedError

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from ``contents``.

        Raises:
            KeyError: The contents are not of this state; so with TypeError and ValueError.
        """
        raise NotImplementedError

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Do nothing: the state knows no messages by their queue offsets."""

    def document(self, commit_log_offset: int) -> dict[str, Any]:
        """Make a snapshot.

        Args:
            commit_log_offset: The present end of the log: later records are read from the log.
        """
        return {
            "version": self.snapshot_version,
            "commitLogOffset": commit_log_offset,
            **self.contents(),
        }

    def load(self, document: Mapping[str, Any], /) -> int:
        """Load a snapshot.

        Returns:
            Its commit-log offset.

        Raises:
            KeyError: The document is not of this state; so with TypeError and ValueError.
        """
        if document["version"] != self.snapshot_version:
            raise ValueError(f"version {document['version']} is not known here")
        self.take_over(document)
        return int(document["commitLogOffset"])
