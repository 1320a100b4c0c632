"""A filter version that is kept running: a failed worker is replaced, up to a number of strikes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_filter.jail.errors import FilterFailed, FilterQuarantined
from ariane_filter.jail.limits import FilterModule, JailLimits
from ariane_filter.jail.strikes import STRIKES_MAX, Strikes
from ariane_filter.jail.worker_handle import Launch, WorkerHandle
from ariane_record.layout import ByteBuffer

PAUSE_S: Final = 0.2
PAUSE_GROWTH: Final = 4.0
KILLS_MAX: Final = 3
"""How often a batch is repeated if its worker is killed from outside."""


class JailedFilter:
    """One worker for one group and version of a filter, started anew when it fails.

    A batch has either a verdict for every record, or an error: nothing passes unfiltered, and
    nothing is left out in silence.
    """

    def __init__(
        self,
        module: FilterModule,
        limits: JailLimits,
        *,
        launch: Launch,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        strikes: Strikes | None = None,
    ) -> None:
        """Start nothing yet. ``strikes`` are those of the version, for all of its workers."""
        self._module = module
        self._limits = limits
        self._launch = launch
        self._monotonic = monotonic
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._worker: WorkerHandle | None = None
        self._strikes = strikes or Strikes(monotonic)
        self.quarantine_cause = ""
        """Why it is quarantined; empty if it is not."""
        self.failure_count = 0
        """How often it has failed."""
        self.last_failure = ""
        """The last failure; empty without one."""

    async def judge(self, records: ByteBuffer, sizes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Decide which records are to be delivered: bool[count].

        Args:
            records: Records back to back.
            sizes: Bytes of each.

        Raises:
            FilterQuarantined: It has failed too often.
            FilterFailed: It failed on this batch; asking again is harmless.
            FilterInvalid: The module is not a filter.
            JailUnavailable: No worker can be locked in here.
            RecordCorrupted: The bytes are not records.
        """
        async with self._turn:
            for _ in range(KILLS_MAX):
                try:
                    worker = await self._running()
                    return await worker.judge(records, sizes)
                except FilterFailed as failure:
                    await self._stop_worker()
                    self.last_failure = failure.cause
                    if failure.blamed:
                        self._strike(failure)
                        raise
                except BaseException:
                    # Also when the caller is cancelled: a part of an answer may be on its way.
                    await self._stop_worker()
                    raise
            raise FilterFailed(self.last_failure, blamed=False)

    async def check_rest(self) -> None:
        """Check that its worker rests while no batch is judged.

        Raises:
            FilterFailed: It does not, and was ended.
        """
        if self._turn.locked():
            return  # The batch in work is watched.
        async with self._turn:
            if self._worker is None:
                return
            try:
                self._worker.check_rest()
            except FilterFailed as failure:
                await self._stop_worker()
                self.last_failure = failure.cause
                self._strike(failure)
                raise

    def quarantine(self, cause: str) -> None:
        """Let it run no more; a batch that is being judged is still answered."""
        self.quarantine_cause = cause

    def release(self) -> None:
        """Let it run again, with its strikes forgotten."""
        self.quarantine_cause = ""
        self._strikes.clear()

    async def close(self) -> None:
        """End its worker."""
        async with self._turn:
            await self._stop_worker()

    def blame(self, cause: str) -> FilterFailed:
        """Count a failure that only the caller can see, and return it to be raised."""
        failure = FilterFailed(cause)
        self.last_failure = cause
        self._strike(failure)
        return failure

    @property
    def process_id(self) -> int:
        """The process of its worker; 0 while there is none."""
        return 0 if self._worker is None else self._worker.process_id

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the present worker."""
        return 0.0 if self._worker is None else self._worker.cpu_seconds

    @property
    def strike_count(self) -> int:
        """The number of recent failures."""
        return self._strikes.count

    async def _running(self) -> WorkerHandle:
        """The worker; a new one, after a pause that grows with the strikes, when there is none."""
        if self.quarantine_cause:
            await self._stop_worker()
            raise FilterQuarantined(self.quarantine_cause)
        if self._worker is None:
            strikes = self.strike_count
            if strikes:
                await self._sleep(PAUSE_S * PAUSE_GROWTH ** (strikes - 1))
            self._worker = await WorkerHandle.start(
                self._module, self._limits, launch=self._launch, monotonic=self._monotonic
            )
        return self._worker

    def _strike(self, failure: FilterFailed) -> None:
        self.failure_count += 1
        self._strikes.add()
        if self.strike_count >= STRIKES_MAX:
            self.quarantine_cause = f"failed {STRIKES_MAX} times, at last: {failure.cause}"

    async def _stop_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()
