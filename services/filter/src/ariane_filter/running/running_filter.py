"""One version of a filter while a group pulls through it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import FilterVersion
from ariane_filter.jail.errors import FilterError, FilterFailed, FilterQuarantined
from ariane_filter.jail.jailed_filter import JailedFilter
from ariane_filter.refusals import refusal_of
from ariane_record.layout import ByteBuffer
from ariane_servicekit import get_logger

_log = get_logger(__name__)


class RunningFilter:
    """A jailed filter that follows the catalogue: a quarantine there applies here."""

    def __init__(
        self,
        version: FilterVersion,
        group: str,
        jailed: JailedFilter,
        catalogue: Catalogue,
        *,
        start_time_ms: int,
        monotonic: Callable[[], float],
    ) -> None:
        self.version = version
        """Its name."""
        self.group = group
        """The consumer group. Each has a worker of its own: a filter may keep what it has read, and
        groups may be of owners who must not see each other's messages."""
        self.jailed = jailed
        self._catalogue = catalogue
        self._monotonic = monotonic
        self._marking = False
        self._marked = False
        self._judging = 0
        self.start_time_ms = start_time_ms
        """When the group first used it, since 1970 UTC."""
        self.last_used_s = monotonic()
        """When it was last used, by the monotonic clock."""
        self.examined_count = 0
        """Records that it has examined."""
        self.delivered_count = 0
        """Records that it has passed."""
        self.digits = {version.sha256}
        """Digits by which the group names its version; they were unique at their first use."""

    def check(self) -> None:
        """Note a use, and check that the filter may run.

        Raises:
            ServiceError: FILTER_QUARANTINED.
        """
        self.last_used_s = self._monotonic()
        cause = self._catalogue.quarantine_cause(self.version)
        if cause:
            self._marked = True
            self.jailed.quarantine(cause)
        elif self._marked and not self._marking:
            _log.info("filter_released", filter=str(self.version))
            self._marked = False
            self.jailed.release()
        if self.jailed.quarantine_cause:
            raise refusal_of(FilterQuarantined(self.jailed.quarantine_cause), str(self.version))

    def is_idle(self, since_s: float) -> bool:
        """Whether it was not used since then, and judges nothing now."""
        return not self._judging and self.last_used_s < since_s

    async def check_rest(self) -> None:
        """Count it as a failure if its worker computes although no batch is judged."""
        try:
            await self.jailed.check_rest()
        except FilterFailed as failure:
            await self._report(failure)

    async def judge(self, records: ByteBuffer, sizes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Decide which records are to be delivered: bool[count].

        Args:
            records: Records back to back.
            sizes: Bytes of each.

        Raises:
            ServiceError: FILTER_QUARANTINED, FILTER_FAILED, FILTER_MODULE_INVALID, or
                FEATURE_NOT_AVAILABLE without a jail.
            RecordCorrupted: The filter reported that it cannot read one of them.
        """
        self._judging += 1
        try:
            mask = await self.jailed.judge(records, sizes)
        except FilterError as error:
            await self._report(error)
            raise refusal_of(error, str(self.version)) from error
        finally:
            self._judging -= 1
            self.last_used_s = self._monotonic()
        self.examined_count += len(mask)
        self.delivered_count += int(np.count_nonzero(mask))
        return mask

    async def blame(self, cause: str) -> FilterFailed:
        """Count a failure that only the caller can see, and return it."""
        failure = self.jailed.blame(cause)
        await self._report(failure)
        return failure

    async def _report(self, error: FilterError) -> None:
        """Log a failure; after the last allowed one, store the quarantine for all servers."""
        _log.warning("filter_failed", filter=str(self.version), group=self.group, cause=error.cause)
        cause = self.jailed.quarantine_cause
        if not cause or self._marked:
            return
        self._marked = self._marking = True
        try:
            await asyncio.to_thread(self._catalogue.quarantine, self.version, cause)
            _log.error("filter_quarantined", filter=str(self.version), cause=cause)
        except OSError as refused:
            # It stays quarantined here; the other servers count failures of their own.
            self._marked = False
            _log.error("quarantine_not_saved", filter=str(self.version), cause=str(refused))
        finally:
            self._marking = False
