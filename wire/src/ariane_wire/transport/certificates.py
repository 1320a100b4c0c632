"""What the certificate of a peer says."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LOOK_S_MAX: Final = 600.0
"""How long nobody looks at the clock of the machine: it may be set meanwhile."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that was checked against the authorities of a context.

    All names are as they stand in it: foreign text.
    """

    der: bytes
    """Its octets."""
    common_names: tuple[str, ...]
    """Of its subject."""
    uris: tuple[str, ...]
    """The alternative names that are URIs; likewise the following, by their kinds."""
    host_names: tuple[str, ...]
    mails: tuple[str, ...]
    addresses: tuple[str, ...]
    alternatives: tuple[str, ...]
    """All of them, in its order."""
    ends_at: float
    """Seconds since 1970 when it ends."""

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of its octets: 32 octets."""
        return sha256(self.der).digest()


def certificate_of(transport: asyncio.BaseTransport | None) -> Certificate | None:
    """The certificate of the peer of a transport; None in plain text, or if it has shown none."""
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None:
        return None
    raw = tls.getpeercert(binary_form=True)
    if not raw:
        return None
    try:
        certificate: dict[str, Any] = tls.getpeercert() or {}
    except ValueError:  # A name that is no text: then it names nobody.
        certificate = {}
    return _certificate(raw, certificate)


def _certificate(raw: bytes, parsed: dict[str, Any]) -> Certificate:
    alternatives = [(str(kind), str(name)) for kind, name, *_ in parsed.get("subjectAltName", ())]

    def of_kind(wanted: str) -> tuple[str, ...]:
        return tuple(name for kind, name in alternatives if kind == wanted)

    return Certificate(
        der=raw,
        common_names=tuple(
            str(pair[1])
            for group in parsed.get("subject", ())
            for pair in group
            if pair[0] == "commonName"
        ),
        uris=of_kind("URI"),
        host_names=of_kind("DNS"),
        mails=of_kind("email"),
        addresses=of_kind("IP Address"),
        alternatives=tuple(name for _, name in alternatives),
        ends_at=ssl.cert_time_to_seconds(parsed["notAfter"]) if "notAfter" in parsed else 0.0,
    )


class CertificateEnd:
    """Calls back when a certificate ends, by the clock of the machine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        certificate: Certificate,
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._ends_at = certificate.ends_at
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None
        self._check()

    def close(self) -> None:
        """Call back no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        left_s = self._ends_at - time.time()
        if left_s <= 0:
            self._timer = self._loop.call_soon(self._ended)  # type: ignore[assignment]  # Can be cancelled, too.
        else:
            self._timer = self._loop.call_later(min(left_s, LOOK_S_MAX), self._check)
