"""Certificates made for a test: an authority of its own, and leaves with any names and times."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """Signs; writes files in a folder."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._own = self._signed(self._name, self._key, [], 3600, ca=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def leaf(self, name, *, uris=(), hosts=(), mails=(), lasts_s=3600.0):
        """Files of a leaf: certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            *map(x509.UniformResourceIdentifier, uris),
            *(_host(each) for each in hosts),
            *map(x509.RFC822Name, mails),
        ]
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        leaf = self._signed(subject, key, names, lasts_s, ca=False)
        certificate, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, private

    def _signed(self, subject, key, names, lasts_s, *, ca):
        now = datetime.now(UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=2))
            .not_valid_after(now + timedelta(seconds=lasts_s))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)  # noqa: FBT003
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own),
                False,  # noqa: FBT003
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if ca:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)  # noqa: FBT003
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(self._key, hashes.SHA256())


def _host(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
