"""Producer sequences across restarts: a snapshot now and then, and the log behind it.

The log is the truth; ``config/producerSequences.json`` only spares the scan of what lies before it.
A snapshot is saved when the log is on the disk up to where it was taken, so it never speaks of a
batch that power loss takes away. Without a snapshot that can be believed the log is scanned from
where the oldest batch that still matters can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Protocol

from ariane_broker.producer_sequences import ProducerSequences
from ariane_broker.saved_state import StateFile
from ariane_servicekit import get_logger
from ariane_storage.errors import StateFileDamaged, StorePoisoned
from ariane_storage.sequenced_batches import SequencedBatch

_log = get_logger(__name__)


class ScannedLog(Protocol):
    """What is asked of the store."""

    @property
    def max_offset(self) -> int:
        """Next commit-log offset to be written."""
        ...

    def flush(self) -> int:
        """Force all that is appended to the disk; any thread."""
        ...

    def sequenced_batches(
        self, begin: int | None, *, stored_since_ms: int
    ) -> Iterator[list[SequencedBatch]]:
        """Batches of idempotent producers, in the order of the log."""
        ...


class SequenceKeeping:
    """Restores producer sequences at start, and saves them while they change."""

    def __init__(
        self,
        sequences: ProducerSequences,
        log: ScannedLog,
        file: StateFile,
        executor: Executor,
    ) -> None:
        """Take the parts.

        Args:
            sequences: What is kept.
            log: The store.
            file: Where snapshots are.
            executor: Where the disk is waited for.
        """
        self._sequences = sequences
        self._log = log
        self._file = file
        self._executor = executor
        self._saved = -1
        self._restored = False
        self._lock = asyncio.Lock()

    async def restore(self, is_known_topic: Callable[[str], bool]) -> None:
        """Load the snapshot, and read from the log what came after it.

        Args:
            is_known_topic: Whether a topic stands; what others had is forgotten.

        Raises:
            StorageError: The log cannot be read.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._restore)
        self._sequences.keep_topics(is_known_topic)
        self._restored = True

    async def save(self) -> None:
        """Save a snapshot if something changed.

        Raises:
            OSError: The disk failed; the one before stands.
        """
        async with self._lock:
            change_count = self._sequences.change_count
            if change_count == self._saved or not self._restored:
                return
            document = self._sequences.document(self._log.max_offset)
            loop = asyncio.get_running_loop()
            if await loop.run_in_executor(self._executor, self._save, document):
                self._saved = change_count

    def _restore(self) -> None:
        """Blocks: reads file and log."""
        sequences, log = self._sequences, self._log
        begin = self._load()
        if begin is not None and begin > log.max_offset:
            finding = "config/producerSequences.json is ahead of the log; the log is read again"
            _log.warning("state_finding", finding=finding)
            sequences.clear()
            begin = None
        batch_count = 0
        for batches in log.sequenced_batches(begin, stored_since_ms=sequences.expired_before_ms):
            for batch in batches:
                sequences.restore(batch)
            batch_count += len(batches)
        _log.info(
            "producer_sequences_restored",
            stream_count=len(sequences),
            snapshot_commit_log_offset=begin,
            max_commit_log_offset=int(log.max_offset),
            batch_count=batch_count,
        )

    def _load(self) -> int | None:
        """The commit-log offset of the snapshot; None when there is none to believe."""
        try:
            document = self._file.load()
            return None if document is None else self._sequences.load(document)
        except StateFileDamaged as error:
            reason = str(error)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"config/producerSequences.json has another shape than ours ({error})"
        finding = f"{reason}; producer sequences are read from the log"
        _log.warning("state_finding", finding=finding)
        return None

    def _save(self, document: dict[str, Any]) -> bool:
        """Blocks: waits for the disk; whether it is saved."""
        try:
            self._log.flush()
        except StorePoisoned:
            return False  # Those who wait for messages are told; the start reads the log.
        self._file.save(document)
        return True
