"""Errors of a store.

::

    StorageError
    +-- StoreLocked               another process owns the folder
    +-- StoreClosed               the store was closed, or opened for reading only
    +-- StorePoisoned             a flush failed: no further write is ever accepted
    +-- StoreFull                 no space, or the disk is above the ratio that stops writes
    +-- StoreFormatError          files of another size, version or kind than configured
    +-- BytesUnreadable           the disk cannot read a place of a file
    +-- StateFileDamaged          both generations of a state file are bad
    +-- BlockRejected             a block that is not valid; nothing was written
    +-- IllegalQueue              a topic or queue id that cannot name a folder
    +-- QueueOffsetOutOfRange     below the oldest kept, or beyond the next to be written
    +-- QueueUnderRepair          a wrong entry of a queue; it is rebuilt from the commit log
    +-- CommitLogOffsetOutOfRange below the begin of the log, or beyond its end
    +-- LogPositionMismatch       raw bytes that belong elsewhere in the log
    +-- RawBytesRefused           raw bytes that are not valid at their place
    +-- (corruption, never retried)
        +-- RecordNotFound        no record starts at this commit-log offset
        +-- RecordCorrupted       a record starts here, and its bytes have changed
"""

from __future__ import annotations

from pathlib import Path


class StorageError(Exception):
    """Root of every error of this package."""


class StoreLocked(StorageError):
    """Another process owns the folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(f"{root}: another process has this store open; stop it first")
        self.root = root
        """Folder of the store."""


class StoreClosed(StorageError):
    """The store was closed."""


class StorePoisoned(StorageError):
    """A flush failed, so that the state of the disk is unknown until recovery reads it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(
            f"a flush failed ({cause}); the store accepts no more writes, restart to recover"
        )
        self.cause = cause
        """The first error of the disk."""


class StoreFull(StorageError):
    """There is no space for another record."""

    def __init__(self, root: Path, reason: str) -> None:
        super().__init__(f"{root}: {reason}")
        self.root = root
        """Folder of the store."""
        self.reason = reason
        """The limit that was reached."""


class StoreFormatError(StorageError):
    """A file of the store is of another size, version or kind than expected."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        """The file."""
        self.reason = reason
        """The difference, and the remedy."""


class BytesUnreadable(StorageError):
    """The disk cannot read a place of a file, or the file ends in front of it."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path}: unreadable from byte {position} on: {reason}")
        self.path = path
        """The file."""
        self.position = position
        """Byte of the file from which it could not be read."""
        self.reason = reason
        """The error of the disk."""


class StateFileDamaged(StorageError):
    """No generation of a state file is valid."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        """The file."""
        self.reason = reason
        """The fault of each generation, and the remedy."""


class BlockRejected(StorageError):
    """A block is not valid; nothing of it was written."""

    def __init__(self, reason: str, position: int = -1) -> None:
        place = "block" if position < 0 else f"record {position}"
        super().__init__(f"{place}: {reason}")
        self.reason = reason
        """The fault, one short clause."""
        self.position = position
        """Which record of the block, or -1 for the block as a whole."""


class IllegalQueue(StorageError):
    """A topic or queue id that cannot name a folder."""


class QueueOffsetOutOfRange(StorageError):
    """A queue offset below the oldest kept or beyond the next to be written."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        min_queue_offset: int,
        max_queue_offset: int,
    ) -> None:
        super().__init__(
            f"queue offset {queue_offset} of {topic}:{queue_id} is outside "
            f"[{min_queue_offset}, {max_queue_offset}]"
        )
        self.topic = topic
        """Topic of the queue."""
        self.queue_id = queue_id
        """Number of the queue within the topic."""
        self.queue_offset = queue_offset
        """The requested offset."""
        self.min_queue_offset = min_queue_offset
        """The oldest queue offset that is kept."""
        self.max_queue_offset = max_queue_offset
        """The next queue offset to be written (exclusive end)."""


class QueueUnderRepair(StorageError):
    """An entry of a queue points to a wrong record, and is rebuilt from the commit log.

    Reading past it would skip its message: read again once the queue is repaired.
    """

    def __init__(self, topic: str, queue_id: int, queue_offset: int) -> None:
        super().__init__(
            f"the consume queue of {topic}:{queue_id} is damaged at queue offset {queue_offset} "
            "and is being repaired from the commit log; read again in a moment"
        )
        self.topic = topic
        """Topic of the queue."""
        self.queue_id = queue_id
        """Number of the queue within the topic."""
        self.queue_offset = queue_offset
        """Queue offset of the entry."""


class RecordNotFound(StorageError):
    """No record starts at this commit-log offset."""

    def __init__(self, commit_log_offset: int) -> None:
        super().__init__(f"no record at commit-log offset {commit_log_offset}")
        self.commit_log_offset = commit_log_offset
        """Byte position in the commit log."""


class RecordCorrupted(StorageError):
    """A record starts here, and its bytes have changed since they were written."""

    def __init__(self, commit_log_offset: int, reason: str) -> None:
        super().__init__(f"record at commit-log offset {commit_log_offset}: {reason}")
        self.commit_log_offset = commit_log_offset
        """Byte position in the commit log."""
        self.reason = reason
        """The fault, one short clause."""


class CommitLogOffsetOutOfRange(StorageError):
    """A commit-log offset below the begin of the log, or beyond its end."""

    def __init__(self, commit_log_offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(
            f"commit-log offset {commit_log_offset} is not between {min_offset} and {max_offset}"
        )
        self.commit_log_offset = commit_log_offset
        """The requested offset."""
        self.min_offset = min_offset
        """Begin of the log."""
        self.max_offset = max_offset
        """End of the log."""


class LogPositionMismatch(StorageError):
    """Raw bytes of the log that belong elsewhere."""

    def __init__(self, expected: int, commit_log_offset: int) -> None:
        super().__init__(
            f"bytes of commit-log offset {commit_log_offset} came where {expected} is next"
        )
        self.expected = expected
        """The next expected commit-log offset."""
        self.commit_log_offset = commit_log_offset
        """The offset of these bytes."""


class RawBytesRefused(StorageError):
    """Raw bytes that are not valid at their place in the log."""

    def __init__(self, commit_log_offset: int, reason: str) -> None:
        super().__init__(
            f"no record of this log at commit-log offset {commit_log_offset}: {reason}"
        )
        self.commit_log_offset = commit_log_offset
        """Commit-log offset of the first invalid record."""
        self.reason = reason
        """Its fault."""
