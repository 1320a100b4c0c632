"""The relay: sends the waiting messages of an outbox. Any number of relays may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Final, Self, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from ariane_sdk.client import session as _session
from ariane_sdk.errors import ClientNotRunning, IllegalArgument
from ariane_sdk.routing.name_servers import NameServerAddresses, parse_addresses
from ariane_sdk.runtime.clock import Clock, SystemClock, new_random, utc_now
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import CredentialsGiven, TlsGiven, access_of
from ariane_sdk.sql._outbox.outbox import Outbox
from ariane_sdk.sql._outbox.parked import ATTEMPTS_MAX
from ariane_sdk.sql._outbox.pulse import RelayPulse, Standstill
from ariane_sdk.sql._outbox.rows import Lease, LeaseLost, OutboxRows
from ariane_sdk.sql._outbox.sends import OutboxSends
from ariane_sdk.sql._outbox.share import Pace, PartitionShare

PRODUCER_ID_MAX: Final = (1 << 63) - 1
FAILURE_PAUSE_S: Final = 0.5
CLAIM_GAP_S: Final = 0.02
CLAIM_PAUSE_S: Final = 1.0
LOOKS_PER_LEASE: Final = 5
"""How often during a lease a relay looks for partitions without an owner."""

Result = TypeVar("Result")


class OutboxRelay:
    """Sends the messages of an outbox, each partition by one relay at a time.

    Run it in each process of the application, or in processes of its own: when one dies, others
    take over its partitions after ``lease_s``. No message is lost, and groups keep their order.
    Batches that the dead relay may have sent are sent again under the same numbers, by which
    brokers know repeats. The exception: a broker forgets the numbers of a producer after an hour
    (``producer_expiry_s``). If no relay runs for so long after one died in the middle of a call,
    the batch of that call may be stored twice, under the same unique ids.

    Example::

        async with OutboxRelay(outbox, sessions, "127.0.0.1:9876"):
            ...                                      # or: await OutboxRelay(...).run()
    """

    def __init__(
        self,
        outbox: Outbox,
        sessions: sessionmaker[Session] | async_sessionmaker[AsyncSession],
        name_servers: NameServerAddresses | None = None,
        *,
        lease_s: float = 15.0,
        poll_s: float = 0.5,
        call_timeout_s: float = 3.0,
        batch_rows_max: int = 500,
        batch_bytes_max: int = 1 << 20,
        repeat_delay_s_max: float = 10.0,
        attempts_max: int | None = ATTEMPTS_MAX,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Set up; no connection is made before ``start``.

        Args:
            outbox: The outbox to send from.
            sessions: Makes its sessions; plain ones are used in threads.
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            lease_s: Time after which others take over from a relay that died. The clocks of relays
                may differ by a part of it: more costs only repeats.
            poll_s: Interval between looks while no message waits.
            call_timeout_s: How long one call to a broker may take.
            batch_rows_max: Messages of one batch.
            batch_bytes_max: Bytes of their records; a single larger one goes alone.
            repeat_delay_s_max: The longest delay before another attempt.
            attempts_max: How often a message may be refused (no such topic, no permission) before
                it is parked; None: for ever. A message that every broker would refuse is parked at
                once; an unreachable broker does not count as a refusal.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.
            now: Returns the time in UTC; for tests.

        Raises:
            IllegalArgument: An address is not one, a lease is shorter than two calls, or less than
                one attempt is allowed.
        """
        if attempts_max is not None and attempts_max < 1:
            raise IllegalArgument(f"attempts_max must be 1 or more, not {attempts_max}")
        if lease_s < 2 * call_timeout_s:
            raise IllegalArgument(
                f"a lease of {lease_s:g} s is shorter than two calls of {call_timeout_s:g} s"
            )
        self._outbox = outbox
        self._sessions = sessions
        self._addresses = parse_addresses(name_servers)
        self._access = access_of(tls, credentials)
        self._lease_s = lease_s
        self._call_timeout_s = call_timeout_s
        self._clock = clock or SystemClock()
        self._random = random or new_random()
        self._pace = Pace(
            poll_s=poll_s,
            batch_rows_max=batch_rows_max,
            batch_bytes_max=batch_bytes_max,
            repeat_delay_s_min=0.05,
            repeat_delay_s_max=repeat_delay_s_max,
            hold_s=lease_s / 3,
            attempts_max=attempts_max,
        )
        self._owner = f"{self._random.getrandbits(128):032x}"
        self._rows = OutboxRows(outbox.name, lease_s=lease_s, now=now or utc_now)
        self._pulse = RelayPulse(self._clock)
        self._session: _session.Session | None = None
        self._sends: OutboxSends
        self._claims: asyncio.Task[None] | None = None
        self._shares: dict[Lease, asyncio.Task[None]] = {}
        self._wanted = asyncio.Event()
        self._closing = asyncio.Event()

    async def start(self) -> None:
        """Begin to send. A relay that was closed is not started again.

        Raises:
            ClientNotRunning: The relay was started or closed before, or is closed meanwhile.
            SQLAlchemyError: The database does not answer, or lacks the tables.
        """
        self._check_startable()
        producer_ids = [
            self._random.randint(1, PRODUCER_ID_MAX) for _ in range(self._outbox.partitions)
        ]
        await self._transact(lambda session: self._rows.make_partitions(session, producer_ids))
        self._check_startable()
        self._session = _session.Session(
            self._addresses,
            timeout_s=self._call_timeout_s,
            clock=self._clock,
            random=self._random,
            access=self._access,
        )
        self._session.routes.start()
        self._sends = OutboxSends(
            self._session, timeout_s=self._call_timeout_s, random=self._random
        )
        self._claims = start_task(self._claim_free_ones(), "outbox-claims")

    def _check_startable(self) -> None:
        if self._session is not None or self._closing.is_set():
            raise ClientNotRunning("a relay is started once, and not when closed; make another one")

    async def close(self) -> None:
        """End the rounds that have begun, and leave the partitions to others."""
        self._closing.set()
        self.notify()
        if self._session is None:
            return
        if self._claims is not None:
            # Not cancelled: an interrupted driver may leave its transaction open.
            await asyncio.gather(self._claims, return_exceptions=True)
        await asyncio.gather(*self._shares.values(), return_exceptions=True)
        await self._session.close()

    async def run(self) -> None:
        """Send until cancelled; for a process that does nothing else."""
        async with self:
            await asyncio.Event().wait()

    def standstill(self) -> Standstill:
        """How long the relay has made no progress, and why; for a check of health.

        Of use while messages wait (``Outbox.lag``) that no other relay sends.
        """
        return self._pulse.standstill()

    def notify(self) -> None:
        """Let the relay look at once, after a commit; call it on the relay's loop."""
        self._wanted.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _claim_free_ones(self) -> None:
        """Lease partitions without an owner, one at a time, so that relays share them."""
        pause_s = self._lease_s / LOOKS_PER_LEASE
        while not self._closing.is_set():
            self._shares = {lease: task for lease, task in self._shares.items() if not task.done()}
            try:
                lease = await self._transact(lambda session: self._rows.claim(session, self._owner))
            except Exception as error:  # noqa: BLE001 - the database may be back soon.
                logger.warning("outbox %s cannot be leased now: %s", self._outbox.name, error)
                self._pulse.failed(error)
                lease = None
            if lease is not None:
                name = f"outbox-{self._outbox.name}-{lease.partition}"
                self._shares[lease] = start_task(self._send_share(lease), name)
            await self._pause(min(pause_s, CLAIM_GAP_S if lease is not None else CLAIM_PAUSE_S))

    async def _send_share(self, lease: Lease) -> None:
        share = PartitionShare(
            lease,
            self._rows,
            self._sends,
            self._transact,
            pace=self._pace,
            pulse=self._pulse,
            clock=self._clock,
        )
        loaded = False
        pause_s = FAILURE_PAUSE_S
        while not self._closing.is_set():
            try:
                if not loaded:
                    await share.load()
                    loaded = True
                moved = await share.round()
                pause_s = FAILURE_PAUSE_S
                if not moved:
                    await self._rest()
            except LeaseLost:
                logger.warning(
                    "outbox %s: another relay has partition %d", self._outbox.name, lease.partition
                )
                return
            except Exception as error:  # noqa: BLE001 - a share that dies would send no more.
                logger.warning("outbox %s: another try after: %s", self._outbox.name, error)
                self._pulse.failed(error)
                # The effect of a failed transaction is unknown: read the state anew.
                loaded = False
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, max(FAILURE_PAUSE_S, self._pace.repeat_delay_s_max))
        with suppress(LeaseLost, SQLAlchemyError):
            await self._transact(lambda session: self._rows.release(session, lease))

    async def _rest(self) -> None:
        """Wait until messages may be there."""
        if self._closing.is_set():
            return
        self._wanted.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.poll_s):
                await self._wanted.wait()

    async def _pause(self, seconds: float) -> None:
        """Sleep, but wake when the relay is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _transact(self, step: Callable[[Session], Result]) -> Result:
        sessions = self._sessions
        if isinstance(sessions, async_sessionmaker):
            async with sessions.begin() as session:
                return await session.run_sync(step)
        return await asyncio.to_thread(_transact, sessions, step)


def _transact(sessions: sessionmaker[Session], step: Callable[[Session], Result]) -> Result:
    with sessions.begin() as session:
        return step(session)
