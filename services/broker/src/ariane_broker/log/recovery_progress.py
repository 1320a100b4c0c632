"""How far the recovery of a store is, or a repair, for whoever waits for the broker."""

from __future__ import annotations

from ariane_servicekit import get_logger
from ariane_storage.recovery.recovery import Progress

_log = get_logger(__name__)


class RecoveryProgress:
    """Logs a line for each tenth that is done: none for a small store, ten for a long one."""

    def __init__(self, event: str = "recovery_progress") -> None:
        self._event = event
        self._tenths = 0

    def __call__(self, progress: Progress) -> None:
        """Take note of how far it is."""
        tenths = progress.done_bytes * 10 // max(1, progress.total_bytes)
        if tenths > self._tenths:
            self._tenths = tenths
            _log.info(
                self._event,
                step=progress.step,
                percent=tenths * 10,
                done_bytes=progress.done_bytes,
                total_bytes=progress.total_bytes,
            )
