"""The console with all its parts, inside admin."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from grpc import aio

from ariane_admin.console.api import Api
from ariane_admin.console.app import Clusters, Console
from ariane_admin.console.entrance import Reception
from ariane_admin.console.server import ConsoleServer
from ariane_admin.console.sessions import Sessions
from ariane_admin.console.sign_in import SignIn
from ariane_admin.service.console_settings import ConsoleSettings
from ariane_servicekit import Address, StartRefused, get_logger, open_channel
from ariane_servicekit.clock import Clock
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS, ServiceTls
from ariane_wire import ChannelOptions, TlsContext, server_tls

_TO_ITSELF: Final = ChannelOptions(receive_octets_max=-1)
"""The console shows messages of any size, and admin has made the answer itself."""

_log = get_logger(__name__)


class ConsoleRoom:
    """One console.

    People sign in where admin has a certificate: only then may it act for them.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock) -> None:
        """Build the parts.

        Raises:
            StartRefused: A file of its certificate cannot be read.
        """
        self.address: Address | None = None
        """Where it listens; None if it is off or not bound yet."""
        self.proof = secrets.token_hex(32)
        """The secret with which admin believes it the address of a browser."""
        self._settings = settings
        self._clock = clock
        self._server = ConsoleServer(settings.console_listen, settings.proxy_networks)
        self.sessions = Sessions(clock, settings.console_session_s_max)
        """Of those who have signed in."""
        self._channel: aio.Channel | None = None
        self._reception: Reception | None = None
        self._member = MEMBER_TLS.get() if settings.console_on else None
        self._tls: ConsoleTls | None = None
        if self._member is not None:
            files = settings.console_certificate, settings.console_key
            self._tls = ConsoleTls(self._member, *files)

    @property
    def signs_in(self) -> bool:
        """Whether people can sign in."""
        return self._reception is not None

    @property
    def origin(self) -> str:
        """Where browsers reach it; empty if it is off or not bound yet."""
        settings, address = self._settings, self.address
        if address is None or settings.console_origin:
            return settings.console_origin if address is not None else ""
        if settings.console_hosts or address.is_wildcard:
            host = settings.console_hosts[0] if settings.console_hosts else "127.0.0.1"
            address = Address(host, address.port)
        return f"{'http' if self._tls is None else 'https'}://{address}"

    def guarded_by(self, gate: Gate) -> None:
        """Ask a gate who may be here."""
        if self._member is not None:
            self._reception = Reception(gate, self.sessions, self._member.caller)
            gate.watch(self._reception.look)

    def bind(self) -> None:
        """Take the port, if it is on.

        Raises:
            StartRefused: The port is in use, or the host is not of this machine.
        """
        if self._settings.console_on:
            self.address = self._server.bind()

    async def start(self, admin: Address, clusters: Clusters) -> None:
        """Serve pages, if it is on.

        Args:
            admin: Where admin listens.
            clusters: Returns the names of clusters, for prompts.
        """
        if self.address is None:
            return
        # A wildcard is not an address to call.
        own = Address("127.0.0.1", admin.port) if admin.is_wildcard else admin
        self._channel = open_channel(own, _TO_ITSELF)
        hosts = console_hosts(self._settings, self.address)
        api, reception = Api(self._channel, self.proof), self._reception
        sign_in = None if reception is None else self._sign_in(reception)
        console = Console(api, hosts, reception, sign_in, clusters=clusters)
        await self._server.start(console.app, None if self._tls is None else self._tls.context)
        _log.info("console_ready", url=f"{self.origin}/")

    def _sign_in(self, reception: Reception) -> SignIn:
        settings = self._settings
        if not settings.openid_client_id:
            return SignIn(reception)
        # Loading it takes time that few processes need.
        from ariane_admin.console.code_flow import CodeFlow  # noqa: PLC0415

        return SignIn(reception, CodeFlow(settings, self._clock), settings.console_origin)

    async def close(self) -> None:
        """Finish requests in work, then close the port. Repeating is harmless."""
        await self._server.stop()

    async def stop(self) -> None:
        """Close it with all that it has. Repeating is harmless."""
        await self.close()
        if self._channel is not None:
            await self._channel.close()


def console_hosts(settings: ConsoleSettings, address: Address) -> set[str]:
    """The host names under which browsers may open the console: no others, ever."""
    own = () if address.is_wildcard else (address.host,)
    origin = urlsplit(settings.console_origin).hostname
    named = (origin,) if origin else ()
    return {"127.0.0.1", "localhost", "[::1]", *own, *named, *settings.console_hosts}


class ConsoleTls:
    """The context for connections of browsers; files are read again when they change.

    Args:
        tls: That of the process, whose certificate is shown unless there is one of its own.
        certificate: One that browsers trust, PEM.
        key: Its private key.

    Raises:
        StartRefused: A file cannot be read, or is none.
    """

    def __init__(self, tls: ServiceTls, certificate: Path | None, key: Path | None) -> None:
        files = tls.files
        self._certificate = certificate or files.certificate
        self._key = key or files.key
        self._users = files.users
        self._oldest = files.oldest
        self._state: tuple[tuple[int, int], ...] = ()
        try:
            self._context = self._read()
        except (OSError, ValueError) as error:
            raise StartRefused(f"console_certificate: {error}") from None

    def context(self) -> TlsContext:
        """The context of the next connection."""
        try:
            if self._seen() != self._state:
                self._context = self._read()
        except (OSError, ValueError) as error:
            _log.warning("console_certificate_not_read", cause=str(error))
        return self._context

    def _seen(self) -> tuple[tuple[int, int], ...]:
        files = (self._certificate, self._key, *([self._users] if self._users else []))
        return tuple((each.stat().st_mtime_ns, each.stat().st_ino) for each in files)

    def _read(self) -> TlsContext:
        state = self._seen()
        # Only users' authority: a process of the cluster is no visitor.
        context = server_tls(
            self._certificate, self._key, client_authorities=self._users, oldest=self._oldest
        )
        self._state = state
        return context
