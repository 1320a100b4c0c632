"""The start and close of clients that hold no state of their own."""

from __future__ import annotations

from random import Random
from typing import Self

from ariane_sdk.client.session import Session
from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.routing.failover import PATIENCE_S
from ariane_sdk.routing.name_servers import NameServerAddresses, parse_addresses
from ariane_sdk.runtime.clock import Clock, SystemClock, new_random
from ariane_sdk.runtime.home import HomeGuard
from ariane_sdk.runtime.unclosed import warn_unclosed
from ariane_sdk.security import CredentialsGiven, TlsGiven, access_of

CALL_TIMEOUT_S = 3.0


class StatelessClient:
    """A client that calls name servers and brokers, and holds no state."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set up; nothing is connected before ``start``.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            call_timeout_s: How long one call may take, in seconds; while a range is read, how long
                its broker may send nothing before a call checks whether it lives.
            patience_s: For how long a call that changes nothing, or may be made twice, is made
                again while its broker has no primary or does not answer; 0: one try.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address is not one.
        """
        self._addresses = parse_addresses(name_servers)
        self._access = access_of(tls, credentials)
        self._call_timeout_s = call_timeout_s
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        self._random = random or new_random()
        self._home = HomeGuard()
        self._running: Session | None = None

    @property
    def _session(self) -> Session:
        self._home.check()
        if self._running is None:
            raise ClientNotRunning("the client is not running: start it, or use `async with`")
        return self._running

    async def start(self) -> None:
        """Make the client ready for calls."""
        self._home.settle()
        if self._running is None:
            self._running = Session(
                self._addresses,
                timeout_s=self._call_timeout_s,
                clock=self._clock,
                random=self._random,
                access=self._access,
            )

    async def close(self) -> None:
        """Disconnect."""
        self._home.check()
        running, self._running = self._running, None
        self._home.leave()
        if running is not None:
            await running.close()

    def __del__(self) -> None:
        if getattr(self, "_running", None) is not None and self._home.in_its_process:
            warn_unclosed(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
