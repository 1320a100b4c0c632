"""Snapshots: the tables of a state are copied on the loop, and turned into JSON in a thread.

A snapshot is of one place of the log, so it is made in one turn of the loop, whatever the size of
the state: by calls that copy whole tables in C, without a Python statement for each entry. So what
tables hold is never changed in place, or is copied with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from ariane_broker.queue_key import QueueKey

Document: TypeAlias = Callable[[], dict[str, Any]]
"""Makes the content of a file, as JSON, of tables that were copied; for any thread."""


class SnapshotState:
    """A state machine over the log (``LogState``) with snapshots in a format of our own."""

    snapshot_version: ClassVar[int] = 1
    """Version of the contents; snapshots of other versions are refused."""

    def copied(self) -> Document:
        """Copy everything, in C; what is returned makes JSON of the copies."""
        raise NotImplementedError

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Restore the state from what ``copied`` made.

        Raises:
            KeyError: The contents are not of this state; so with TypeError and ValueError.
        """
        raise NotImplementedError

    def forget_lost(self, end_of: Callable[[QueueKey], int]) -> None:
        """Do nothing: the state knows no messages by their queue offsets."""

    def snapshot(self, commit_log_offset: int) -> Document:
        """Take a snapshot.

        Args:
            commit_log_offset: The present end of the log: later records are read from the log.
        """
        version, contents = self.snapshot_version, self.copied()

        def document() -> dict[str, Any]:
            return {"version": version, "commitLogOffset": commit_log_offset, **contents()}

        return document

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
