"""What browsers are shown, and whose certificates they are asked for."""

from __future__ import annotations

from pathlib import Path

from ariane_servicekit import StartRefused, get_logger
from ariane_servicekit.security.tls.service_tls import ServiceTls
from ariane_wire import TlsContext, server_tls

_log = get_logger(__name__)


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
