"""Repairs of the consume queues of an open store: whether some are needed, and having them done."""

from __future__ import annotations

from collections.abc import Callable

from ariane_storage.queues.repair_requests import RepairRequests
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.recovery.recovery import ProgressCallback


class QueueRepairs:
    """Makes entries again, from the log, that lead astray. Any thread.

    Reads ask for it, and so does opening a store. The owner of the store runs it beside them.
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
        """Whether entries are known to lead astray."""
        return bool(self._requests)

    def run(self, progress: ProgressCallback | None = None) -> list[QueueRepair]:
        """Repair what is known; it takes as long as reading the log takes, or a part of it.

        That is the part between the sound neighbours of those entries: all of it when a whole file
        is foreign. Reads of other queues and appends go on meanwhile.

        Args:
            progress: Told now and then how far it is.

        Returns:
            The repair of each queue; none when it was stopped.

        Raises:
            StoreFull: No space for the entries; reads ask again.
            StorePoisoned: The disk failed.
        """
        return self._repair(progress)

    def stop(self) -> None:
        """Let a repair end as soon as it can, and begin none: the store is about to be closed."""
        self._requests.stopped = True
