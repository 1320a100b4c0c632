"""What clients are shown: a certificate from files, or a pair that is made at the start.

The clients of Java, Go, C++ and C# speak TLS unless told otherwise, and look at no certificate. For
them, and for trials, any pair will do; it proves nothing to anybody.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from ariane_gateway.settings import GatewaySettings
from ariane_servicekit import StartRefused, get_logger
from ariane_servicekit.security.tls.authority import new_authority, sign_leaf
from ariane_wire import TlsContext, server_tls

_log = get_logger(__name__)

OLDEST: Final = "1.2"
"""Java 8 and old builds of OpenSSL know no newer one."""


class FrontTls:
    """The context for connections of clients; files are read again when they change."""

    def __init__(self, settings: GatewaySettings, hosts: Sequence[str]) -> None:
        """Read the files, or make a pair.

        Args:
            settings: Those of the gateway.
            hosts: Names and addresses that a pair of its own is for.

        Raises:
            StartRefused: A file cannot be read, or is none.
        """
        self._files: tuple[Path, Path] | None = None
        self._state: tuple[tuple[int, int], ...] = ()
        self._context: TlsContext | None = None
        self.ends: datetime | None = None
        """When the certificate of the files ends; None without files."""
        certificate, key = settings.front_certificate, settings.front_key
        if certificate is not None and key is not None:
            self._files = certificate, key
            try:
                self._read(self._files)
            except (OSError, ValueError) as error:
                raise StartRefused(f"front_certificate: {error}") from None
        elif not settings.has_tls and settings.self_signed:
            self._context = _own_context(hosts)

    def context(self) -> TlsContext | None:
        """The context of the next connection; None without a certificate for clients."""
        if self._files is not None:
            try:
                self._read(self._files)
            except (OSError, ValueError) as error:
                _log.warning("front_certificate_not_read", cause=str(error))
        return self._context

    def _read(self, files: tuple[Path, Path]) -> None:
        state = tuple((each.stat().st_mtime_ns, each.stat().st_ino) for each in files)
        if state != self._state:
            self._context = server_tls(*files, oldest=OLDEST)
            leaf = x509.load_pem_x509_certificates(files[0].read_bytes())[0]
            self.ends = leaf.not_valid_after_utc
            self._state = state


def _own_context(hosts: Sequence[str]) -> TlsContext:
    """A context with a pair that nobody has seen before."""
    authority = new_authority("ArianeMQ gateway, for trials")
    pair = sign_leaf(authority, "ariane://trial/gateway/self-signed", hosts)
    # Python reads pairs from files only; these live for a moment, for their owner alone.
    with tempfile.TemporaryDirectory(prefix="ariane-gateway-") as folder:
        certificate, key = Path(folder, "pair.pem"), Path(folder, "pair.key")
        certificate.write_bytes(pair.certificate_pem + authority.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)
        return server_tls(certificate, key, oldest=OLDEST)
