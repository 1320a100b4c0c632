"""Looking through a replica's log for damage that nobody has read yet.

A disk may turn a bit while a broker is stopped, or long before. A replica that has begun to follow
reads what its log had then, once and slowly. Damage takes it out of the set and is mended, like all
that readers find; else it would be found when this broker is primary and a consumer comes by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from ariane_servicekit import get_logger
from ariane_storage.store import Store

STEP_BYTES: Final = 1 << 20
STEP_S: Final = 0.1
"""10 MiB/s: a twentieth of what one core reads and checks."""

_log = get_logger(__name__)


class LogChecking:
    """Looks through the log of one store, a step at a time. Lives on one loop."""

    def __init__(
        self, store: Store, keeper: Executor, *, agreement_count: Callable[[], int]
    ) -> None:
        """``keeper``: the thread that cuts the log, so that no step meets a cut.

        ``agreement_count`` grows with each cut; 0 before the first primary is followed.
        """
        self._store = store
        self._keeper = keeper
        self._agreement_count = agreement_count
        self._agreed = 0
        self._place = self._end = 0

    async def step(self) -> None:
        """Look at the next part, if there is one.

        Raises:
            BytesUnreadable: The disk cannot read it.
        """
        agreed = self._agreement_count()
        if agreed != self._agreed:
            # What was behind the place may be of another primary by now.
            self._agreed = agreed
            self._place, self._end = self._store.min_offset, self._store.max_offset
        if self._place >= self._end:
            return
        loop, check = asyncio.get_running_loop(), self._store.copying.check_part
        self._place = await loop.run_in_executor(
            self._keeper, check, self._place, self._end, STEP_BYTES
        )
        if self._place >= self._end:
            missing = self._store.copying.missing(self._store.min_offset)
            _log.info("log_checked", end_commit_log_offset=self._end, damaged_ranges=len(missing))
