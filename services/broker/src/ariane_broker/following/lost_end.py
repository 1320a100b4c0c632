"""Whether the log may lack its end after a power loss, as long as a set relies on this end.

::

    machine.json    {"boot_id": ..., "flush_mode": ..., "may_lack_end": ...}

A crash of the process alone loses nothing; the boot id shows whether the machine kept running. The
flush mode of the crashed process decides. The note outlives starts that end before the broker has
found itself outside of the in-sync set, or has left it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ariane_broker.durable.saved_state import StateFile
from ariane_storage.errors import StateFileDamaged


@dataclass(frozen=True, slots=True, eq=False)
class LostEnd:
    """The note of one store. Blocks; one thread."""

    file: StateFile
    boot_id: Callable[[], str]
    """Returns the id of the machine's present run; empty if unknown."""
    _: KW_ONLY
    flush_mode: str

    def check(self, *, crashed: bool) -> bool:
        """Whether the log may lack its end; notes it, and the present run of the machine.

        Args:
            crashed: Whether the process before has died.

        Raises:
            OSError: The disk failed.
        """
        try:
            before = self.file.load() or {}
        except StateFileDamaged:
            before = {"may_lack_end": True}  # Leaving the in-sync set for nothing is harmless.
        boot_id = self.boot_id()
        was_off = crashed and (not boot_id or boot_id != before.get("boot_id"))
        was_async = before.get("flush_mode") != "sync"
        is_lost = bool(before.get("may_lack_end")) or (was_off and was_async)
        note = self._note(boot_id, may_lack_end=is_lost)
        if note != before:
            self.file.save(note)
        return is_lost

    def settle(self) -> None:
        """No set counts on that end any more.

        Raises:
            OSError: The disk failed.
        """
        self.file.save(self._note(self.boot_id(), may_lack_end=False))

    def _note(self, boot_id: str, *, may_lack_end: bool) -> dict[str, Any]:
        return {
            "boot_id": boot_id,
            "flush_mode": self.flush_mode,
            "may_lack_end": may_lack_end,
        }
