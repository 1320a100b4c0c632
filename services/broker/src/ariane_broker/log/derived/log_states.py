"""State machines over the log, kept across restarts by one mechanism.

What producers have stored, what is delayed, what is undecided: all of it follows from the records
of the log, so the log is where it is kept. A snapshot of each in ``config/`` now and then only
spares the walk over what lies before it::

    log       |------------------------------------------------|
    snapshot of A             ^- - - - - walk for A - - - - - ->
    snapshot of B   ^- - - - - - - - - - walk for B - - - - - ->

All share one walk, each from where its snapshot was taken. A snapshot is saved when the log is on
the disk up to there, so it never speaks of a record that power loss takes away. One that cannot be
believed is as good as none: then the walk begins at the oldest record that still matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from ariane_broker.durable.saved_state import StateFile
from ariane_servicekit import get_logger
from ariane_storage.errors import StateFileDamaged, StorePoisoned
from ariane_storage.log.scan import Stretch
from ariane_storage.store import Store

_log = get_logger(__name__)


class LogState(Protocol):
    """A state machine over the log: what it says follows from the records that it was shown.

    Serving, it is told of each record that concerns it in the turn of the loop that appends it.
    """

    @property
    def name(self) -> str:
        """What it keeps, for the log of the process: ``producer sequences``."""
        ...

    @property
    def change_count(self) -> int:
        """Grows with every change."""
        ...

    @property
    def matters_since_ms(self) -> int | None:
        """Records stored before this time do not matter any more; None when all may."""
        ...

    def replay(self, stretch: Stretch) -> None:
        """Take over what records say, in the order of the log; those that do not concern it, too.

        Records from before the snapshot are never shown again. Runs in a thread, before anything
        is served.
        """
        ...

    def document(self, commit_log_offset: int) -> dict[str, Any]:
        """Everything as JSON; on the loop.

        Args:
            commit_log_offset: The end of the log now: ``load`` gives it back.
        """
        ...

    def load(self, document: dict[str, Any], /) -> int:
        """Take over a document.

        Returns:
            Its commit-log offset.

        Raises:
            KeyError: It is none of ours; so with TypeError and ValueError.
        """
        ...

    def clear(self) -> None:
        """Forget everything: the log is walked again."""
        ...

    def keep_topics(self, is_known_topic: Callable[[str], bool]) -> None:
        """All is replayed: forget what concerns topics that do not stand."""
        ...


@dataclass(slots=True)
class KeptState:
    """A state machine and its snapshots.

    Attributes:
        state: The state machine.
        file: Where its snapshots are.
        file_name: As people know that file.
        saved_change_count: The change count of what was saved last; -1 before.
    """

    state: LogState
    file: StateFile
    file_name: str
    saved_change_count: int = field(default=-1, init=False)


class LogStates:
    """Restores all state machines at start, and saves them while they change."""

    def __init__(self, log: Store, executor: Executor) -> None:
        self._log = log
        self._executor = executor
        self._kept: list[KeptState] = []
        self._restored = False
        self._saved_end: int | None = None
        self._lock = asyncio.Lock()

    @property
    def needed_from(self) -> int | None:
        """Commit-log offset of the oldest snapshot: the log must not lack what came after it."""
        return self._saved_end

    def keep(self, state: LogState, file: StateFile, file_name: str) -> None:
        """Keep one more; before anything is restored.

        Args:
            state: The state machine.
            file: Where its snapshots are.
            file_name: As people know that file: ``config/producerSequences.json``.
        """
        self._kept.append(KeptState(state, file, file_name))

    async def restore(self, is_known_topic: Callable[[str], bool]) -> None:
        """Load the snapshots, and read from the log what came after them.

        Args:
            is_known_topic: Whether a topic stands; what others had is forgotten.

        Raises:
            StorageError: The log cannot be read.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._restore)
        counts = [kept.state.change_count for kept in self._kept]
        for kept in self._kept:
            kept.state.keep_topics(is_known_topic)
        self._restored = True
        if counts != [kept.state.change_count for kept in self._kept]:
            # Their snapshots, and the log before this, would speak of topics that are made again.
            await self.save()

    async def save(self) -> None:
        """Save a snapshot of each that changed.

        Raises:
            OSError: The disk failed; the ones before stand.
        """
        async with self._lock:
            if not self._restored:
                return
            changed = [
                kept for kept in self._kept if kept.state.change_count != kept.saved_change_count
            ]
            if not changed:
                # Nothing that concerns them came since their own.
                self._saved_end = self._log.max_offset
                return
            counts = [kept.state.change_count for kept in changed]
            end = self._log.max_offset
            documents = [kept.state.document(end) for kept in changed]
            loop = asyncio.get_running_loop()
            if await loop.run_in_executor(self._executor, self._save, changed, documents):
                for kept, count in zip(changed, counts, strict=True):
                    kept.saved_change_count = count
                # Nothing that concerns the others came since their own.
                self._saved_end = end

    def _restore(self) -> None:
        """Blocks: reads files and log."""
        log = self._log
        begins = [self._load(kept) for kept in self._kept]
        self._saved_end = min(begins, default=None)
        first, end = min(begins, default=log.max_offset), log.max_offset
        for stretch in log.stretches(first):
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

    def _load(self, kept: KeptState) -> int:
        """From which commit-log offset on the log is still to be read."""
        begin = self._load_snapshot(kept)
        if begin is not None:
            return begin
        since_ms = kept.state.matters_since_ms
        return self._log.min_offset if since_ms is None else self._log.offset_before(since_ms)

    def _load_snapshot(self, kept: KeptState) -> int | None:
        """The commit-log offset of a snapshot; None when there is none to believe."""
        reason = f"{kept.file_name} is ahead of the log"
        try:
            document = kept.file.load()
            if document is None:
                return None
            begin = kept.state.load(document)
            if begin <= self._log.max_offset:
                return begin
        except StateFileDamaged as error:
            reason = str(error)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{kept.file_name} has another shape than ours ({error})"
        kept.state.clear()
        finding = f"{reason}; {kept.state.name} are read from the log"
        _log.warning("state_finding", finding=finding)
        return None

    def _save(self, changed: Sequence[KeptState], documents: Sequence[dict[str, Any]]) -> bool:
        """Blocks: waits for the disk; whether they are saved."""
        try:
            self._log.flush()
        except StorePoisoned:
            return False  # Those who wait for messages are told; the start reads the log.
        for kept, document in zip(changed, documents, strict=True):
            kept.file.save(document)
        return True
