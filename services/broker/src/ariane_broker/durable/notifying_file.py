"""A state file that calls back after each save."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ariane_broker.durable.saved_state import StateFile


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
