"""Who is at the other end of a connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ariane_wire.transport.certificates import Certificate, certificate_of
from ariane_wire.transport.peers import peer_of
from ariane_wire.transport.tls import TlsContext

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Identity:
    """One peer."""

    peer: str
    """Its address in the form of grpcio: "ipv4:127.0.0.1:40211", "ipv6:%5B::1%5D:40211". On a unix
    socket, where peers have no address, the connection's number stands for it."""
    auth_context: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """What its certificate says, in grpcio's names."""
    key: str | None = None
    """Which of these says who it is; None without a certificate."""
    certificate: Certificate | None = None
    """The client's; None in plain text, or if it has shown none."""
    is_proxied: bool = False
    """Whether a proxy in front of the server has given the address."""
    is_encrypted: bool = False
    """Whether the connection is over TLS."""
    own_fingerprint: bytes = b""
    """SHA-256 of the certificate that the server has shown here; empty in plain text, or if its
    context is no ``TlsContext``."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the program knows of the client, for as long as the connection lives."""


def identity(transport: asyncio.BaseTransport | None, number: int, peer: str = "") -> Identity:
    """The identity of the peer of a transport.

    Args:
        transport: None if it is gone.
        number: Of the connection, unique in its server.
        peer: Its address, if that is not the transport's, as behind a proxy.
    """
    is_proxied = bool(peer)
    peer = peer or peer_of(transport, number)
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None:
        return Identity(peer, is_proxied=is_proxied)
    certificate = certificate_of(transport)
    context, key = _auth_context(certificate)
    own = tls.context
    return Identity(
        peer,
        context,
        key,
        certificate,
        is_proxied=is_proxied,
        is_encrypted=True,
        own_fingerprint=own.fingerprint if isinstance(own, TlsContext) else b"",
    )


def _auth_context(
    certificate: Certificate | None,
) -> tuple[dict[str, tuple[bytes, ...]], str | None]:
    context: dict[str, tuple[bytes, ...]] = {
        "transport_security_type": (b"ssl",),
        "security_level": (b"TSI_PRIVACY_AND_INTEGRITY",),
    }
    if certificate is None:
        return context, None
    context["x509_pem_cert"] = (ssl.DER_cert_to_PEM_cert(certificate.der).encode(),)
    key = None
    for name, values in (
        ("x509_common_name", certificate.common_names),
        ("x509_subject_alternative_name", certificate.alternatives),
        ("peer_dns", certificate.host_names),
        ("peer_uri", certificate.uris),
        ("peer_email", certificate.mails),
        ("peer_ip", certificate.addresses),
    ):
        if values:
            context[name] = tuple(each.encode() for each in values)
            key = name if name.startswith("x509") else key
    return context, key
