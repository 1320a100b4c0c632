"""Runs the repairs of an open store's consume queues."""

from __future__ import annotations

from collections.abc import Callable

from ariane_storage.queues.repair_requests import RepairRequests
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.recovery.recovery import ProgressCallback


class QueueRepairs:
    """Rebuilds wrong entries from the log. Any thread.

    Reads and the opening of the store request repairs. The store's owner runs them.
    """

    def __init__(
        self,
        requests: RepairRequests,
        repair: Callable[[ProgressCallback | None], list[QueueRepair]],
    ) -> None:
        self._requests = requests
        self._repair = repair

    @property
    def needed(self) -> bool:
        """Whether wrong entries are known."""
        return bool(self._requests)

    def run(self, progress: ProgressCallback | None = None) -> list[QueueRepair]:
        """Make all known repairs; takes as long as reading a part of the log, or all of it.

        That part lies between the sound neighbours of the entries: the whole log if a whole file is
            foreign. Reads of other queues and appends continue meanwhile.

        Args:
            progress: Called now and then with the progress.

        Returns:
            The repair of each queue; none when it was stopped.

        Raises:
            StoreFull: No space for the entries; reads request them again.
            StorePoisoned: The disk failed.
        """
        return self._repair(progress)

    def stop(self) -> None:
        """End a repair as soon as possible, and begin no other: the store is about to be closed."""
        self._requests.stopped = True
