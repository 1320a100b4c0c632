"""The versions that groups pull through now, with a worker for each group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import FilterVersion
from ariane_filter.jail.jailed_filter import JailedFilter
from ariane_filter.jail.limits import JailLimits
from ariane_filter.jail.strikes import Strikes
from ariane_filter.jail.worker_handle import Launch
from ariane_filter.running.running_filter import RunningFilter
from ariane_servicekit import Clock, ServiceError, get_logger

_log = get_logger(__name__)

UNUSED_S: Final = 5.0
"""A worker that was not used for so long leaves its place to a group that needs one: its own group
waits for the start of a new one some time, and the other not for a worker that nobody uses."""


class RunningFilters:
    """Starts filters at their first use by a group, and ends unused ones."""

    def __init__(
        self,
        catalogue: Catalogue,
        clock: Clock,
        *,
        launch: Launch,
        limits: JailLimits,
        workers_max: int,
        idle_s: float,
    ) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._launch = launch
        self._limits = limits
        self._workers_max = workers_max
        self._idle_s = idle_s
        self._running: dict[tuple[FilterVersion, str], RunningFilter] = {}
        self._strikes: dict[FilterVersion, Strikes] = {}
        self._starting = asyncio.Lock()
        self.examined_count = 0
        """Records that ended filters have examined."""
        self.delivered_count = 0
        """Records that ended filters have passed."""

    def all(self) -> list[RunningFilter]:
        """Running filters, by name, version and group."""
        return [self._running[key] for key in sorted(self._running)]

    def groups_of(self, version: FilterVersion) -> list[str]:
        """The groups that pull through a version, sorted."""
        since_s = self._clock.monotonic() - self._idle_s
        return sorted(
            group
            for (other, group), running in self._running.items()
            if other == version and running.last_used_s >= since_s
        )

    async def get(self, name: str, digits: str, group: str) -> RunningFilter:
        """Return a filter for a group; starts it if it does not run.

        Args:
            name: Its name.
            digits: Its version, or the beginning of it.
            group: The consumer group.

        Raises:
            ServiceError: FILTER_NOT_FOUND, FILTER_QUARANTINED, FILTER_MODULE_INVALID when its file
                is damaged, SERVICE_BUSY when all workers are in use.
        """
        running = self._known(name, digits, group)
        if running is None or not self._catalogue.has(running.version):
            async with self._starting:
                version = self._catalogue.find(name, digits).version
                known = self._running.get((version, group))
                running = known or await self._start(version, group)
                running.digits.add(digits)
        running.check()
        return running

    async def end_unused(self) -> None:
        """End workers that are not used any more, and those that compute without a batch."""
        for each in self.all():
            await each.check_rest()
        since_s = self._clock.monotonic() - self._idle_s
        await self._end([each for each in self._running.values() if each.is_idle(since_s)])
        running = {version for version, _ in self._running}
        self._strikes = {
            version: strikes
            for version, strikes in self._strikes.items()
            if version in running or strikes.count
        }

    async def close(self) -> None:
        """End all workers."""
        await self._end(list(self._running.values()))

    def _known(self, name: str, digits: str, group: str) -> RunningFilter | None:
        """The group's running filter with a name and digits; None if the catalogue has to be asked.

        Digits that no group has used yet may also be the beginning of a version that does not run.
        """
        found = [
            running
            for (version, user), running in self._running.items()
            if user == group and version.name == name and digits in running.digits
        ]
        return found[0] if len(found) == 1 else None

    async def _start(self, version: FilterVersion, group: str) -> RunningFilter:
        if len(self._running) >= self._workers_max:
            await self._make_room()
        if len(self._running) >= self._workers_max:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_BUSY,
                f"{self._workers_max} workers are in use here, as many as may run (workers_max)",
                {"limit": self._workers_max},
            )
        module = await asyncio.to_thread(self._catalogue.load, version)
        jailed = JailedFilter(
            module,
            self._limits,
            launch=self._launch,
            monotonic=self._clock.monotonic,
            sleep=self._clock.sleep,
            strikes=self._strikes.setdefault(version, Strikes(self._clock.monotonic)),
        )
        running = RunningFilter(
            version,
            group,
            jailed,
            self._catalogue,
            start_time_ms=self._clock.now_ms(),
            monotonic=self._clock.monotonic,
        )
        self._running[version, group] = running
        return running

    async def _make_room(self) -> None:
        """End the worker that was not used for longest, if that is long enough."""
        since_s = self._clock.monotonic() - UNUSED_S
        unused = [each for each in self._running.values() if each.is_idle(since_s)]
        if unused:
            await self._end([min(unused, key=lambda each: each.last_used_s)])

    async def _end(self, filters: Iterable[RunningFilter]) -> None:
        for running in filters:
            self._running.pop((running.version, running.group), None)
            self.examined_count += running.examined_count
            self.delivered_count += running.delivered_count
            await running.jailed.close()
            _log.info("filter_idle", filter=str(running.version), group=running.group)
