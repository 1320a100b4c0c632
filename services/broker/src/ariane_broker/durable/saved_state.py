"""State in memory that is saved, as a whole, to one file.

Saving waits for the disk, so it runs off the loop. All callers that ask during a save are served
by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Protocol

from ariane_servicekit import in_turns


class StateFile(Protocol):
    """A file that is replaced whole, durably, and keeps its previous generation."""

    @property
    def used_backup(self) -> bool:
        """Whether the last ``load`` had to use the previous generation."""
        ...

    def load(self) -> dict[str, Any] | None:
        """The last saved document, or None without a file."""
        ...

    def previous(self) -> dict[str, Any] | None:
        """The previous generation, or None without a valid one."""
        ...

    def save(self, document: dict[str, Any], /) -> None:
        """Replace the file; it is on the disk when this returns."""
        ...


class NotifyingFile:
    """A file whose saves call back on the loop, before callers that wait for the save continue."""

    def __init__(self, file: StateFile, on_saved: Callable[[], None]) -> None:
        """Must be called on the loop of the callback."""
        self._file = file
        self._on_saved = on_saved
        self._loop = asyncio.get_running_loop()

    @property
    def used_backup(self) -> bool:
        """Whether the last ``load`` had to use the previous generation."""
        return self._file.used_backup

    def load(self) -> dict[str, Any] | None:
        """The last saved document, or None without a file."""
        return self._file.load()

    def previous(self) -> dict[str, Any] | None:
        """The previous generation, or None without a valid one."""
        return self._file.previous()

    def save(self, document: dict[str, Any], /) -> None:
        """Replace the file; any thread."""
        self._file.save(document)
        self._loop.call_soon_threadsafe(self._on_saved)


class SavedState:
    """Saves one piece of state after changes."""

    def __init__(
        self,
        file: StateFile,
        snapshot: Callable[[], Iterable[dict[str, Any] | None]],
        executor: Executor,
        *,
        flush_log: Callable[[], object] | None = None,
    ) -> None:
        """Start with nothing to save.

        ``snapshot`` makes the present document in short turns of the loop (``turns``), and yields
        it last; what changes meanwhile is in it or in the next one. ``flush_log`` forces the commit
        log to the disk, in any thread, before each write, so that a document that refers to
        messages never refers to one that a power loss removes.
        """
        self._file = file
        self._flush_log = flush_log
        self._snapshot = snapshot
        self._executor = executor
        self._changed = 0
        self._saved = 0
        self._lock = asyncio.Lock()

    def mark_changed(self) -> None:
        """Note a change that must be saved soon."""
        self._changed += 1

    async def save(self) -> None:
        """Return once all changes marked before are on the disk.

        Raises:
            OSError: The disk failed; the changes stay marked.
            StorePoisoned: The log could not be flushed; the changes stay marked.
        """
        wanted = self._changed
        async with self._lock:
            if self._saved >= wanted:
                return
            version = self._changed
            (document,) = await in_turns(self._snapshot())
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._write, document)
            self._saved = version

    def _write(self, document: dict[str, Any]) -> None:
        """Write the document; blocks until it is on the disk."""
        if self._flush_log is not None:
            self._flush_log()
        self._file.save(document)
