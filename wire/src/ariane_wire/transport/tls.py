"""Credentials of TLS: contexts, and where the context of the next connection comes from."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

_log: Final = logging.getLogger("ariane_wire.client")

ALPN: Final = "h2"

CIPHERS_1_2: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2; all others are on the black list of HTTP/2 (RFC 9113, appendix A)."""

Credentials: TypeAlias = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""A context; or what gives the context of the next connection, so that it can be replaced."""

Version: TypeAlias = Literal["1.3", "1.2"]

VERSIONS: Final = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}


class TlsContext(ssl.SSLContext):
    """A context that knows its certificate."""

    fingerprint: bytes = b""
    """SHA-256 of the octets of the own certificate; empty without one."""


def server_tls(
    certificate: str | Path,
    key: str | Path,
    *,
    client_authorities: str | Path | None = None,
    requires_client: bool = False,
    oldest: Version = "1.3",
) -> TlsContext:
    """A context for servers, from files in PEM.

    Args:
        certificate: The certificate, and those between it and its authority.
        key: Its private key, without a password.
        client_authorities: Who signs certificates of clients; None: clients are not asked for one.
        requires_client: Whether a client without a certificate is turned away.
        oldest: Version of TLS that is still spoken.

    Raises:
        OSError: A file cannot be read, or is none (``ssl.SSLError``).
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, oldest)
    # No sessions are resumed: a handshake proves who is there, every time.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    _load(context, certificate, key)
    if client_authorities is not None:
        context.load_verify_locations(client_authorities)
        context.verify_mode = ssl.CERT_REQUIRED if requires_client else ssl.CERT_OPTIONAL
    return context


def client_tls(
    authorities: str | Path | None = None,
    *,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    oldest: Version = "1.3",
) -> TlsContext:
    """A context for clients, from files in PEM; names of servers are checked.

    Args:
        authorities: Who signs certificates of servers: a file, or its text; None for those that the
            machine trusts.
        certificate: The own certificate, and those between it and its authority; None for none.
        key: Its private key, without a password.
        oldest: Version of TLS that is still spoken.

    Raises:
        OSError: A file cannot be read, or is none (``ssl.SSLError``).
        ValueError: A certificate without a key, or the reverse.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, oldest)
    if authorities is None:
        context.load_default_certs()
    elif is_pem(authorities):
        context.load_verify_locations(cadata=str(authorities))
    else:
        context.load_verify_locations(authorities)
    if (certificate is None) != (key is None):
        raise ValueError("a certificate and its key belong together")
    if certificate is not None and key is not None:
        _load(context, certificate, key)
    return context


def is_pem(file: str | Path) -> bool:
    """Whether this is the text of a file instead of its path."""
    return isinstance(file, str) and ssl.PEM_HEADER in file


def _context(protocol: int, oldest: Version) -> TlsContext:
    context = TlsContext(protocol)
    context.minimum_version = VERSIONS[oldest]
    context.set_ciphers(CIPHERS_1_2)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def _load(context: TlsContext, certificate: str | Path, key: str | Path) -> None:
    def no_password() -> str:
        raise ValueError("the private key has a password, which nobody could be asked for")

    context.load_cert_chain(certificate, key, no_password)
    first, end, _ = Path(certificate).read_text("ascii").partition(ssl.PEM_FOOTER)
    start = first.index(ssl.PEM_HEADER)
    context.fingerprint = sha256(ssl.PEM_cert_to_DER_cert(first[start:] + end)).digest()


def checked(credentials: Any, holding: str) -> Credentials:
    """Credentials as they are taken.

    Raises:
        TypeError: They are grpcio's, which tell nobody what they hold.
    """
    if isinstance(credentials, ssl.SSLContext):
        credentials.set_alpn_protocols([ALPN])
    elif not callable(credentials):
        raise TypeError(f"credentials are a ssl.SSLContext, with {holding}")
    taken: Credentials = credentials
    return taken


def next_context(credentials: Credentials, protocol: str = ALPN) -> ssl.SSLContext:
    """The context of the next connection, which agrees on a protocol."""
    if isinstance(credentials, ssl.SSLContext):
        return credentials
    context = credentials()
    context.set_alpn_protocols([protocol])
    return context


def speaks_http2(transport: Any) -> bool:
    """Whether a connection is in plain text, or has agreed on HTTP/2."""
    tls = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == ALPN


class ClientTlsFiles:
    """Gives the context of each next connection; see ``client_tls``.

    Files that do not fit, because they are just being replaced, change nothing: they are read again
    for the connection after.
    """

    def __init__(
        self,
        authorities: str | Path | None = None,
        *,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        oldest: Version = "1.3",
    ) -> None:
        """Read the files.

        Raises:
            OSError: A file cannot be read, or is none (``ssl.SSLError``).
            ValueError: A certificate without a key, or the reverse.
        """
        self._authorities = authorities
        self._certificate = certificate
        self._key = key
        self._oldest = oldest
        self._state = self._stat()
        self._context = self._read()

    def __call__(self) -> TlsContext:
        """The context of the next connection."""
        try:
            state = self._stat()
            if state != self._state:
                self._context = self._read()
                self._state = state
        except (OSError, ValueError) as error:
            _log.warning("certificates are not read again: %s", error)
        return self._context

    def _read(self) -> TlsContext:
        return client_tls(
            self._authorities,
            certificate=self._certificate,
            key=self._key,
            oldest=self._oldest,
        )

    def _stat(self) -> list[tuple[int, int, int]]:
        files = (self._authorities, self._certificate, self._key)
        seen = [Path(file).stat() for file in files if file is not None and not is_pem(file)]
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in seen]
