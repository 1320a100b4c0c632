"""State machines over the log: rebuilt from records, with snapshots that shorten the rebuild.

Stored producer batches, delayed messages and pending transactions are all derived from the records
of the log. A snapshot of each in ``config/``, saved now and then, only saves reading the log before
it::

    log       |------------------------------------------------|
    snapshot of A             ^- - - - - walk for A - - - - - ->
    snapshot of B   ^- - - - - - - - - - walk for B - - - - - ->

All states share one walk; each takes part from the place of its snapshot. A snapshot is saved only
when the log is on the disk up to that place, so it never includes a record that power loss takes
away. Without a valid snapshot, the walk begins at the oldest record that still matters.

A state that did not change keeps its snapshot, which holds for later places, too. One small file
says up to which place, so that a start reads only what was written since the last turn of saving,
however long a state has rested::

    config/logStates.json    {"commitLogOffset": end, "snapshots": {"config/x.json": begin, ...}}

It counts for a snapshot whose own offset it names, and for no older generation. It is written after
the snapshots; copies of it and of them may be of different turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from ariane_broker.log.derived.snapshots import Document
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import get_logger
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged, StorePoisoned
from ariane_storage.log.scan import Stretch
from ariane_storage.state_file import StateFile
from ariane_storage.store import Store

COMMON_FILE_NAME: Final = "config/logStates.json"

UNSAVED_BYTES_MAX: Final = 64 << 20
"""Log behind the snapshots that is not left to the clock: a start reads it in half a second."""

_log = get_logger(__name__)


class LogState(Protocol):
    """A state machine over the log: its state is derived from the records passed to it.

    While the broker serves, it gets each relevant record in the loop turn of the append.
    """

    @property
    def name(self) -> str:
        """Name of this state in the process's log, such as ``producer sequences``."""
        ...

    @property
    def change_count(self) -> int:
        """Grows with every change."""
        ...

    @property
    def matters_since_ms(self) -> int | None:
        """Records stored before this time do not matter any more; None if all may matter."""
        ...

    def replay(self, stretch: Stretch) -> None:
        """Process records in the order of the log, including irrelevant ones.

        Records from before the snapshot are never passed again. Runs in a thread before the broker
        serves.
        """
        ...

    def snapshot(self, commit_log_offset: int) -> Document:
        """Copy the state; called on the loop, in one turn whatever its size.

        Args:
            commit_log_offset: The present end of the log, which ``load`` returns.
        """
        ...

    def load(self, document: dict[str, Any], /) -> int:
        """Load a document.

        Returns:
            Its commit-log offset.

        Raises:
            KeyError: The document is not of this state; also TypeError and ValueError.
        """
        ...

    def clear(self) -> None:
        """Clear the state; the log is then read again."""
        ...

    def forget_lost(self, end_of: Callable[[QueueKey], int], /) -> None:
        """After the replay: drop messages after the ends of their queues.

        If the last messages of a queue are damaged, and its files did not have them yet, the next
        messages get their queue offsets.

        Args:
            end_of: The next queue offset of a queue.
        """
        ...

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """Drop the state of topics that no longer exist."""
        ...


@dataclass(slots=True)
class KeptState:
    """A state machine and its snapshots."""

    state: LogState
    """The state machine."""
    file: StateFile
    """The file of its snapshots."""
    file_name: str
    """That file's name for people."""
    saved_change_count: int = field(default=-1, init=False)
    """Change count of the last saved snapshot; -1 before the first."""
    saved_end: int = field(default=0, init=False)
    """Commit-log offset of the last saved snapshot."""


class _Snapshot(NamedTuple):
    """A state as it was at one place of the log."""

    kept: KeptState
    """The state machine."""
    change_count: int
    """Its change count."""
    end: int
    """The commit-log offset."""
    document: Document
    """Makes the content of the file, in a thread."""


def _snapshot(kept: KeptState, end: int) -> _Snapshot:
    return _Snapshot(kept, kept.state.change_count, end, kept.state.snapshot(end))


class LogStates:
    """Restores all state machines at the start, and saves them when they have changed."""

    def __init__(self, store: Store, executor: Executor, root: Path, disk: Disk) -> None:
        """Start without states; ``root`` is the folder of the store, ``disk`` has the snapshots."""
        self._store = store
        self._executor = executor
        self._root = root
        self._disk = disk
        self._kept: list[KeptState] = []
        self._common = StateFile(root / COMMON_FILE_NAME, disk)
        self._restored = False
        self._saved_end: int | None = None
        self._lock = asyncio.Lock()

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset from which a start would read: retention must keep the log after it."""
        return self._saved_end

    def keep(self, state: LogState, file_name: str) -> None:
        """Add a state; call this before ``restore``.

        Args:
            state: The state machine.
            file_name: The file of its snapshots, below the root: ``config/producerSequences.json``.
        """
        file = StateFile(self._root / file_name, self._disk)
        self._kept.append(KeptState(state, file, file_name))

    async def restore(self, is_known_topic: Callable[[str], bool]) -> None:
        """Load the snapshots, then read the rest from the log.

        Args:
            is_known_topic: Whether a topic exists; state of other topics is forgotten.

        Raises:
            StorageError: The log cannot be read.
            OSError: The disk failed: what was forgotten would come back.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._restore)
        for kept in self._kept:
            kept.state.forget_lost(self._end_of)
            kept.state.keep_topics(is_known_topic)
        self._restored = True
        # What the snapshots, and the log before this place, say of lost messages and of topics that
        # are gone would count for later ones of the same places and names.
        await self.save()

    def _end_of(self, queue: QueueKey) -> int:
        return self._store.queue_end(*queue)

    async def save(self) -> None:
        """Save a snapshot of each state that changed, and up to where the others hold.

        Raises:
            OSError: The disk failed; the earlier snapshots remain.
        """
        async with self._lock:
            if not self._restored:
                return  # The store may not even be open: another process has it.
            end = self._store.max_offset
            changed = [
                kept for kept in self._kept if kept.state.change_count != kept.saved_change_count
            ]
            if not changed and end == self._saved_end:
                return
            snapshots = []
            for kept in changed:
                snapshots.append(_snapshot(kept, self._store.max_offset))
                # The others need not be of the same place.
                await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            if await loop.run_in_executor(self._executor, self._save, snapshots, end):
                for snapshot in snapshots:
                    snapshot.kept.saved_change_count = snapshot.change_count
                self._saved_end = end

    async def save_after_much(self) -> None:
        """Save if a start would have to read more than ``UNSAVED_BYTES_MAX``; see ``save``."""
        if self._restored and self._store.max_offset - (self._saved_end or 0) > UNSAVED_BYTES_MAX:
            await self.save()

    def _restore(self) -> None:
        """Load snapshots and read the log. Blocks."""
        store = self._store
        held_to = self._load_common()
        begins = [self._load(kept, held_to) for kept in self._kept]
        self._saved_end = min(begins, default=None)
        first, end = min(begins, default=store.max_offset), store.max_offset
        for stretch in store.stretches(first):
            for kept, begin in zip(self._kept, begins, strict=True):
                behind = stretch.between(begin, end)
                if len(behind.places.starts):
                    kept.state.replay(behind)
        _log.info(
            "log_states_restored",
            begin_commit_log_offsets={
                kept.state.name: int(begin) for kept, begin in zip(self._kept, begins, strict=True)
            },
            max_commit_log_offset=int(end),
        )

    def _load(self, kept: KeptState, held_to: Callable[[KeptState, int], int]) -> int:
        """Load one state; returns the commit-log offset from which to read the log."""
        begin = self._load_snapshot(kept)
        if begin is not None:
            return held_to(kept, begin)
        since_ms = kept.state.matters_since_ms
        return self._store.min_offset if since_ms is None else self._store.offset_before(since_ms)

    def _load_snapshot(self, kept: KeptState) -> int | None:
        """Load a snapshot; returns its commit-log offset, or None without a valid one."""
        reason = f"{kept.file_name} is ahead of the log"
        try:
            document = kept.file.load()
            if document is None:
                return None
            begin = kept.state.load(document)
            if begin <= self._store.max_offset:
                self._forget_deleted(kept.state, begin)
                return begin
        except StateFileDamaged as error:
            reason = str(error)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{kept.file_name} has another shape than ours ({error})"
        kept.state.clear()
        finding = f"{reason}; {kept.state.name} are read from the log"
        _log.warning("state_finding", finding=finding)
        return None

    def _forget_deleted(self, state: LogState, begin: int) -> None:
        """Drop what a snapshot has of topics that were deleted later: others have their names."""
        ends = self._store.copying.deleted_topic_ends
        # One of the same place may be older: a deletion appends nothing.
        if gone := {topic for topic, end in ends.items() if end >= begin}:
            state.keep_topics(lambda topic: topic not in gone)

    def _load_common(self) -> Callable[[KeptState, int], int]:
        """Returns a function: up to where a snapshot of a certain offset holds."""
        try:
            document = self._common.load() or {"commitLogOffset": 0, "snapshots": {}}
            end, named = int(document["commitLogOffset"]), dict(document["snapshots"])
        except (StateFileDamaged, KeyError, TypeError, ValueError) as error:
            _log.warning("state_finding", finding=f"{error}; more of the log is read")
            end, named = 0, {}
        if end > self._store.max_offset:
            named = {}

        def held_to(kept: KeptState, begin: int) -> int:
            return max(begin, end) if named.get(kept.file_name) == begin else begin

        return held_to

    def _save(self, made: Sequence[_Snapshot], end: int) -> bool:
        """Write snapshots once the log is flushed; returns whether they were saved. Blocks."""
        try:
            self._store.flush()
        except StorePoisoned:
            return False  # The flush has reported its failure; the next start reads the log.
        for snapshot in made:
            snapshot.kept.file.save(snapshot.document())
            snapshot.kept.saved_end = snapshot.end
        snapshots = {kept.file_name: kept.saved_end for kept in self._kept}
        self._common.save({"commitLogOffset": end, "snapshots": snapshots})
        return True
