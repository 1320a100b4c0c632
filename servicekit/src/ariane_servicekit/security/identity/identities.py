"""All by which a process knows its callers: certificates, logins, and when these end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.machine import Machine
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.running.background import Loop
from ariane_servicekit.security.caller import Identify, anonymous
from ariane_servicekit.security.identity.identify import Identifier
from ariane_servicekit.security.identity.logins import Logins, PublicKey, TokenVerifier
from ariane_servicekit.security.tls.service_tls import ServiceTls
from ariane_wire import Identity

LOOK_S: Final = 5.0
"""Seconds between two looks at files, and at logins that may have ended."""

GRACE_S: Final = 30.0
"""Seconds that calls may take whose connection ends with what it has proved."""

_log = get_logger(__name__)


class Identities:
    """Of one process."""

    def __init__(
        self,
        settings: ServiceSettings,
        machine: Machine,
        tls: ServiceTls | None,
        key_of: Callable[[str], PublicKey | None],
    ) -> None:
        """Know callers as the settings say.

        Args:
            settings: Of the process.
            machine: What it runs on.
            tls: What it shows; None for plain text.
            key_of: Finds keys that admin has told.
        """
        self._tls = tls
        self._judged = 1
        verifier: TokenVerifier | None = None
        if settings.openid_issuer:
            # Loading it takes time that few processes need.
            from ariane_servicekit.security.identity.openid import OpenIdVerifier  # noqa: PLC0415

            verifier = OpenIdVerifier(settings, machine.clock)
        self.logins = Logins(key_of, machine, tls, insecure=settings.insecure, verifier=verifier)
        """Of users."""
        self.identify: Identify = machine.identify
        """Finds who calls."""
        self._identifier = Identifier(tls, self.logins)
        if machine.identify is anonymous:
            self.identify = self._identifier
        self._server: Any = None
        self._loop = Loop("identities", self.turn, interval_s=LOOK_S, clock=machine.clock)

    def start(self, server: Any) -> None:
        """Watch the connections of a server."""
        self._server = server
        self._loop.start()

    async def stop(self) -> None:
        """Watch no more. Repeating is harmless."""
        await self._loop.stop()

    def is_stranger(self, identity: Identity) -> bool:
        """Whether nothing has been proved on a connection."""
        return self._identifier.is_stranger(identity)

    def ask_again(self) -> None:
        """Have the server ask anew who is a stranger: the rules or the mode are others."""
        self._server.ask_again()

    def proved_until_ms(self, call: Call) -> int:
        """Until when what the caller of a call has proved lasts; 0 for no end of its own."""
        return self.logins.proved_until_ms(call.caller, call.context.identity())  # type: ignore[attr-defined]  # Of our transport.

    async def turn(self) -> None:
        """Take new files; let connections end that prove nothing any more."""
        tls = self._tls
        if tls is not None:
            tls.reread()
            if tls.readings != self._judged:
                self._judged = tls.readings
                self._end(lambda peer: _has_untrusted(peer, tls), "untrusted authority")
        self._end(self.logins.has_ended, "login ended")
        self._server.ask_again(self._identifier.has_lost_proof)

    def _end(self, where: Callable[[Identity], bool], cause: str) -> None:
        count = self._server.end_connections(where, GRACE_S)
        if count:
            _log.info("connections_ended", count=count, cause=cause)


def _has_untrusted(peer: Identity, tls: ServiceTls) -> bool:
    return peer.certificate is not None and not tls.is_trusted(peer.certificate)
