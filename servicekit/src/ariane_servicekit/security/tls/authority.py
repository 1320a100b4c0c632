"""An authority that signs certificates: of members, or of users."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 365
CLOCK_SKEW: Final = timedelta(hours=1)
"""A new certificate holds at once, also where the clock is behind."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    """The certificate."""
    key: ec.EllipticCurvePrivateKey
    """Its key."""

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as a file has it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as a file has it, without a password: a service has nobody to ask."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def new_authority(name: str, now: datetime | None = None) -> Pair:
    """Make an authority that signs leaves and no further authorities.

    Args:
        name: For people, such as ``ArianeMQ main members``.
        now: The present; None for the machine's clock.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(own, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False
        )
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def sign_leaf(
    authority: Pair,
    uri: str,
    hosts: Sequence[str] = (),
    *,
    days: float = LEAF_DAYS,
    now: datetime | None = None,
) -> Pair:
    """Make a leaf with a key of its own.

    Args:
        authority: Signs.
        uri: Its name, ``ariane://CLUSTER/KIND/NAME``.
        hosts: Host names and addresses of a server; none for a mere client.
        days: How long it holds.
        now: The present; None for the machine's clock.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    # For people who list certificates; nothing is decided by it. 64 characters are its limit.
    name = uri.partition("://")[2].partition("/")[2][:64]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri), *map(_host, hosts)]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if hosts:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = authority.certificate
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(subject, issuer.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
            critical=False,
        )
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def names_of(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """The URIs of a certificate, and its hosts: names and addresses."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return uris, [*names.get_values_for_type(x509.DNSName), *addresses]


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime | None,
    days: float,
) -> x509.CertificateBuilder:
    begin = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - CLOCK_SKEW)
        .not_valid_after(begin + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
