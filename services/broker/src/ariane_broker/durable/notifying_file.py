"""A state file that calls back after each save."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ariane_broker.durable.saved_state import StateFile


class NotifyingFile:
    """A file whose saves call back on the loop, before those who waited for the save go on."""

    def __init__(self, file: StateFile, on_saved: Callable[[], None]) -> None:
        """Take the file; call this on the loop that the callback is to run on."""
        self._file = file
        self._on_saved = on_saved
        self._loop = asyncio.get_running_loop()

    @property
    def used_backup(self) -> bool:
        """Whether the last ``load`` had to fall back to the generation before."""
        return self._file.used_backup

    def load(self) -> dict[str, Any] | None:
        """What was saved last, or None when there is no such file."""
        return self._file.load()

    def previous(self) -> dict[str, Any] | None:
        """The generation before the last, or None when there is none to believe."""
        return self._file.previous()

    def save(self, document: dict[str, Any], /) -> None:
        """Replace the file; any thread."""
        self._file.save(document)
        self._loop.call_soon_threadsafe(self._on_saved)
