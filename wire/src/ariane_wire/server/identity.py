"""Who is at the other end of a connection."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Identity:
    """One peer.

    Attributes:
        peer: Its address in the form of grpcio: "ipv4:127.0.0.1:40211", "ipv6:%5B::1%5D:40211". On
            a unix socket, where peers have no address, the connection's number stands for it.
        auth_context: What its certificate says, in grpcio's names.
        key: Which of these says who it is; None without a certificate.
    """

    peer: str
    auth_context: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    key: str | None = None


def identity(transport: asyncio.BaseTransport | None, number: int) -> Identity:
    """The identity of the peer of a transport.

    Args:
        transport: None if it is gone.
        number: Of the connection, unique in its server.
    """
    name = transport.get_extra_info("peername") if transport is not None else None
    own = transport.get_extra_info("sockname") if transport is not None else None
    if isinstance(name, tuple) and len(name) == 4:
        peer = f"ipv6:{quote(f'[{name[0]}]', safe=':')}:{name[1]}"
    elif isinstance(name, tuple):
        peer = f"ipv4:{name[0]}:{name[1]}"
    else:
        path = own if isinstance(own, str) else ""
        peer = f"unix:{path}#{number}"
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None:
        return Identity(peer)
    context, key = _auth_context(tls)
    return Identity(peer, context, key)


def _auth_context(
    tls: ssl.SSLObject | ssl.SSLSocket,
) -> tuple[dict[str, tuple[bytes, ...]], str | None]:
    context: dict[str, tuple[bytes, ...]] = {
        "transport_security_type": (b"ssl",),
        "security_level": (b"TSI_PRIVACY_AND_INTEGRITY",),
    }
    raw = tls.getpeercert(binary_form=True)
    if not raw:
        return context, None
    context["x509_pem_cert"] = (ssl.DER_cert_to_PEM_cert(raw).encode(),)
    told = tls.getpeercert() or {}
    subject = told.get("subject", ())
    names = [str(pair[1]) for group in subject for pair in group if pair[0] == "commonName"]
    alternatives = [str(pair[1]) for pair in told.get("subjectAltName", ())]
    key = None
    if names:
        context["x509_common_name"] = tuple(each.encode() for each in names)
        key = "x509_common_name"
    if alternatives:
        context["x509_subject_alternative_name"] = tuple(each.encode() for each in alternatives)
        key = "x509_subject_alternative_name"
    return context, key
