"""A number that ties a store to the row: an earlier state of the store has a lower one.

::

    store-mark.json    {"broker_id": 1, "mark": 7}         in the store
    row                marks: {"0": 9, "1": 7}             never above the store's own

A store that was put back to an earlier state, from a backup or a snapshot of its disk, cannot tell
by itself. So each process of a broker raises the mark before the set relies on its store, and once
a lease from then on: first in the store, durably, and then in the row. A store whose mark is below
the row's lacks what was written since, whenever its processes were killed.

Replicas do not copy the file. A copy of a whole store that is started with another id has no mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ariane_broker.durable.saved_state import StateFile
from ariane_servicekit import get_logger
from ariane_storage.errors import StateFileDamaged

_log = get_logger(__name__)


class StoreMark:
    """The mark of one store. Lives on one loop."""

    def __init__(self, file: StateFile, broker_id: int, executor: Executor, value: int = 0) -> None:
        """``executor`` waits for the disk."""
        self.value = value
        """The mark that is durable; 0 without one."""
        self._file = file
        self._broker_id = broker_id
        self._executor = executor

    def load(self) -> None:
        """Read it. A damaged file has none: the set does not rely on this store then. Blocks.

        Raises:
            OSError: The disk failed.
        """
        try:
            note = self._file.load() or {}
            if note.get("broker_id") == self._broker_id:
                self.value = int(note["mark"])
        except (StateFileDamaged, KeyError, TypeError, ValueError) as error:
            _log.warning("store_mark_damaged", cause=str(error))

    async def raise_above(self, known: int) -> None:
        """Raise it above its value and the row's, durably.

        Raises:
            OSError: The disk failed.
        """
        mark = max(self.value, known) + 1
        note = {"broker_id": self._broker_id, "mark": mark}
        await _run(self._executor, self._file.save, note)
        self.value = mark

    async def tend(self) -> None:
        """Raise it; where the disk refuses, the mark before still counts."""
        try:
            await self.raise_above(0)
        except OSError as error:
            _log.warning("store_mark_not_raised", cause=str(error))


async def _run(executor: Executor, work: Callable[..., Any], *given: Any) -> None:
    await asyncio.get_running_loop().run_in_executor(executor, work, *given)
