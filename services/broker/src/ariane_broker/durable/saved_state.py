"""State that lives in memory and is saved, whole, to one file.

Saving waits on the disk, so it runs off the loop. Everybody who asks while a save is under way is
served by the next one, however many they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol


class StateFile(Protocol):
    """A file that is replaced whole, durably, and keeps its previous generation."""

    @property
    def used_backup(self) -> bool:
        """Whether the last ``load`` had to fall back to the generation before."""
        ...

    def load(self) -> dict[str, Any] | None:
        """What was saved last, or None when there is no such file."""
        ...

    def previous(self) -> dict[str, Any] | None:
        """The generation before the last, or None when there is none to believe."""
        ...

    def save(self, document: dict[str, Any], /) -> None:
        """Replace the file; it is on the disk when this returns."""
        ...


class SavedState:
    """Saves one piece of state when it changed."""

    def __init__(
        self,
        file: StateFile,
        snapshot: Callable[[], dict[str, Any]],
        executor: Executor,
        *,
        flush_log: Callable[[], object] | None = None,
    ) -> None:
        """Start with nothing to save.

        Args:
            file: Where to.
            snapshot: The document to save now; runs on the loop.
            executor: Where the disk is waited for.
            flush_log: Forces the commit log to the disk, in any thread: for documents that speak
                of messages. The log is flushed before the document is written, so that the
                document never speaks of a message that a power loss takes away.
        """
        self._file = file
        self._flush_log = flush_log
        self._snapshot = snapshot
        self._executor = executor
        self._changed = 0
        self._saved = 0
        self._lock = asyncio.Lock()

    def mark_changed(self) -> None:
        """Something is to be saved, soon."""
        self._changed += 1

    async def save(self) -> None:
        """Return once everything that was marked before is on the disk.

        Raises:
            OSError: The disk failed; what was marked stays marked.
            StorePoisoned: The log could not be flushed; the same.
        """
        wanted = self._changed
        async with self._lock:
            if self._saved >= wanted:
                return
            version = self._changed
            document = self._snapshot()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._write, document)
            self._saved = version

    def _write(self, document: dict[str, Any]) -> None:
        """Blocks: waits for the disk."""
        if self._flush_log is not None:
            self._flush_log()
        self._file.save(document)
