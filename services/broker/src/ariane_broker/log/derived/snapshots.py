"""The head of a snapshot: which version wrote it, and up to where it has taken in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class SnapshotState:
    """A state machine over the log (``LogState``) whose snapshots are in a form of our own.

    Attributes:
        snapshot_version: Of what ``contents`` says; snapshots of other versions are refused.
    """

    snapshot_version: ClassVar[int] = 1

    def contents(self) -> dict[str, Any]:
        """Everything as JSON."""
        raise NotImplementedError

    def take_over(self, contents: Mapping[str, Any]) -> None:
        """Be as ``contents`` said.

        Raises:
            KeyError: It is none of ours; so with TypeError and ValueError.
        """
        raise NotImplementedError

    def document(self, commit_log_offset: int) -> dict[str, Any]:
        """A snapshot.

        Args:
            commit_log_offset: The end of the log now: what is behind it is read from the log.
        """
        return {
            "version": self.snapshot_version,
            "commitLogOffset": commit_log_offset,
            **self.contents(),
        }

    def load(self, document: Mapping[str, Any], /) -> int:
        """Take over a snapshot.

        Returns:
            Its commit-log offset.

        Raises:
            KeyError: It is none of ours; so with TypeError and ValueError.
        """
        if document["version"] != self.snapshot_version:
            raise ValueError(f"version {document['version']} is not known here")
        self.take_over(document)
        return int(document["commitLogOffset"])
