"""Shares the brokers among checkers.

Every checker's share is the number of brokers divided by that of living checkers, rounded up. A
checker takes brokers without a checker up to its share, and releases those beyond it, so that a new
checker finds some.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ariane_servicekit import Clock, get_logger
from ariane_servicekit.database import Database
from ariane_txn_checker.database import LeaseStore
from ariane_txn_checker.errors import LeaseLost
from ariane_txn_checker.transaction import BrokerKey, Lease
from ariane_txn_checker.watching.brokers import Brokers

RENEWALS_PER_LEASE: Final = 3
"""Renewals per lease: two may fail before it expires."""

Watch = Callable[[Lease], Awaitable[None]]
"""Watches a broker until it is cancelled or the lease is lost."""

_log = get_logger(__name__)


@dataclass(slots=True)
class _Held:
    """A lease that this checker holds."""

    lease: Lease
    watching: asyncio.Task[None]
    end_s: float
    """When it expires, by this machine's monotonic clock: counted from before the database call."""


class LeaseKeeper:
    """Takes, renews and releases leases, and watches their brokers meanwhile."""

    def __init__(
        self,
        checker_id: str,
        brokers: Brokers,
        database: Database,
        watch: Watch,
        clock: Clock,
        *,
        lease_s: float,
    ) -> None:
        self._checker_id = checker_id
        self._brokers = brokers
        self._database = database
        self._leases = LeaseStore(database)
        self._watch = watch
        self._clock = clock
        self._lease_s = lease_s
        self._held: dict[BrokerKey, _Held] = {}

    @property
    def interval_s(self) -> float:
        """Seconds between two turns."""
        return self._lease_s / RENEWALS_PER_LEASE

    @property
    def held(self) -> frozenset[BrokerKey]:
        """The brokers that this checker watches."""
        return frozenset(self._held)

    async def turn(self) -> None:
        """Renew, take and release leases. A database that does not answer costs leases, no more."""
        try:
            async with asyncio.timeout(self.interval_s):
                await self._share()
        except TimeoutError:
            _log.warning("database_slow", seconds=self.interval_s)
        finally:
            await self._drop_lapsed()

    async def close(self) -> None:
        """Stop watching, and release all brokers at once."""
        await self.drop_all()
        try:
            await self._database.call(self._leases.leave, self._checker_id)
        except Exception as error:  # noqa: BLE001 - a stop goes on; the leases run out by themselves.
            _log.warning("leases_not_given_back", cause=repr(error))

    async def drop_all(self) -> None:
        """Stop watching; the leases expire by themselves."""
        for broker in tuple(self._held):
            await self._drop(broker)

    async def _share(self) -> None:
        span_ms = round(self._lease_s * 1000)
        living = await self._database.call(self._leases.beat, self._checker_id, span_ms)
        await self._renew(span_ms)
        brokers = sorted(self._brokers.keys)
        for broker in sorted(self.held - set(brokers)):
            await self._let_go(broker)
        share = -(-len(brokers) // len(living))
        for broker in sorted(self.held)[share:]:
            await self._let_go(broker)
        if len(self._held) < share:
            for broker in await self._database.call(self._leases.free, brokers):
                if len(self._held) < share and broker not in self._held:
                    await self._take(broker, span_ms)

    async def _renew(self, span_ms: int) -> None:
        end_s = self._clock.monotonic() + self._lease_s
        renewed = await self._database.call(self._leases.renew, self._checker_id, span_ms)
        tokens = {lease.broker: lease.fencing_token for lease in renewed}
        for broker, held in tuple(self._held.items()):
            if tokens.get(broker) == held.lease.fencing_token and not held.watching.done():
                held.end_s = end_s
            else:
                await self._drop(broker)
        for lease in renewed:
            if lease.broker not in self._held:
                # Dropped here, but still ours in the database: begin anew.
                self._hold(lease, end_s)

    async def _take(self, broker: BrokerKey, span_ms: int) -> None:
        end_s = self._clock.monotonic() + self._lease_s
        lease = await self._database.call(self._leases.take, broker, self._checker_id, span_ms)
        if lease is not None:
            _log.info("broker_taken", broker=str(broker), fencing_token=lease.fencing_token)
            self._hold(lease, end_s)

    def _hold(self, lease: Lease, end_s: float) -> None:
        watching = asyncio.create_task(self._look_after(lease), name=f"watch:{lease.broker}")
        self._held[lease.broker] = _Held(lease, watching, end_s)

    async def _look_after(self, lease: Lease) -> None:
        try:
            await self._watch(lease)
        except LeaseLost as lost:
            _log.warning("lease_lost", broker=str(lost.broker), fencing_token=lost.fencing_token)
        except Exception:  # noqa: BLE001 - it is begun anew with the next renewal
            _log.exception("watch_failed", broker=str(lease.broker))

    async def _let_go(self, broker: BrokerKey) -> None:
        lease = self._held[broker].lease
        await self._drop(broker)
        await self._database.call(self._leases.release, lease)
        _log.info("broker_let_go", broker=str(broker))

    async def _drop_lapsed(self) -> None:
        for broker, held in tuple(self._held.items()):
            if self._clock.monotonic() >= held.end_s:
                _log.warning("lease_ran_out", broker=str(broker))
                await self._drop(broker)

    async def _drop(self, broker: BrokerKey) -> None:
        held = self._held.pop(broker)
        held.watching.cancel()
        await asyncio.wait((held.watching,))
