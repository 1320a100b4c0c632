"""The folder of ``ariane tls``: two authorities, and the leaves that they have signed.

::

    members.pem   members.key           authority of the processes of the cluster
    users.pem     users.key             authority of people and applications
    broker-b-0.pem   broker-b-0.key     a leaf: KIND-NAME
    user-anna.pem    user-anna.key

``members.pem`` and ``users.pem`` are what others trust. While an authority is replaced, they hold
the new certificate first and the old one behind it. Keys of authorities belong on no machine that
serves. All files are for their owner only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ariane_servicekit.errors import ServicekitError
from ariane_servicekit.security.tls.authority import Pair, names_of, new_authority, sign_leaf
from ariane_servicekit.security.tls.member_names import SCHEME, USER

MEMBERS: Final = "members"
USERS: Final = "users"
AUTHORITIES: Final = (MEMBERS, USERS)


class CertificateFolderRefused(ServicekitError):
    """The folder cannot be read or written, or is none; the text says why."""


@dataclass(frozen=True, slots=True)
class CertificateRow:
    """One certificate of the folder."""

    file: str
    """Its name in the folder."""
    uri: str
    """Its name; of an authority, what it signs."""
    hosts: tuple[str, ...]
    """Host names and addresses."""
    ends: datetime
    """When it ends."""
    fingerprint: str
    """SHA-256 of its octets, in hexadecimal."""
    is_authority: bool
    """Whether it signs others."""

    def left(self, now: datetime) -> timedelta:
        """How long it still holds; negative if it has ended."""
        return self.ends - now


def _machine_now() -> datetime:
    return datetime.now(UTC)


class CertificateFolder:
    """The certificates of one cluster."""

    def __init__(self, path: Path, now: Callable[[], datetime] = _machine_now) -> None:
        """Keep them in a folder.

        Args:
            path: The folder.
            now: The clock; the machine's by default.
        """
        self.path = path
        self._now = now

    def make_authorities(self, cluster: str) -> list[str]:
        """Make the authorities that are missing; return the names of new files.

        Raises:
            CertificateFolderRefused: The folder cannot be written.
        """
        made = []
        for name in AUTHORITIES:
            if not (self.path / f"{name}.pem").exists():
                pair = new_authority(f"ArianeMQ {cluster} {name}"[:64], self._now())
                self._write(f"{name}.key", pair.key_pem)
                self._write(f"{name}.pem", pair.certificate_pem)
                made.append(f"{name}.pem")
        return made

    def sign(self, uri: str, hosts: Sequence[str], days: float) -> str:
        """Make a leaf, or make it anew; return the name of its file.

        Raises:
            CertificateFolderRefused: The authority is missing, or the folder cannot be written.
        """
        _, kind, name = uri.removeprefix(SCHEME).split("/")
        authority = self._authority(USERS if kind == USER else MEMBERS)
        pair = sign_leaf(authority, uri, hosts, days=days, now=self._now())
        stem = f"{kind}-{name}"
        # The key first: whoever reads in between finds that they do not fit, and reads again.
        self._write(f"{stem}.key", pair.key_pem)
        self._write(f"{stem}.pem", pair.certificate_pem)
        return f"{stem}.pem"

    def renew(self, *, days: float, within: timedelta | None) -> list[str]:
        """Make leaves anew, with the same names; return their files.

        Args:
            days: How long the new ones hold.
            within: Only those that end so soon, or that no present authority has signed first;
                None for all.
        """
        now = self._now()
        renewed = []
        for row in self.rows():
            if row.is_authority or not row.uri.startswith(SCHEME):
                continue
            if within is None or row.left(now) <= within or not self._is_of_newest(row):
                renewed.append(self.sign(row.uri, row.hosts, days))
        return renewed

    def replace_authority(self, name: str) -> None:
        """Make a new authority, trusted beside the old ones, that signs from now on."""
        old = self._read(f"{name}.pem")
        subject = x509.load_pem_x509_certificates(old)[0].subject
        common = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
        pair = new_authority(str(common), self._now())
        self._write(f"{name}.key", pair.key_pem)
        self._write(f"{name}.pem", pair.certificate_pem + old)

    def drop_old_authorities(self) -> list[str]:
        """Trust the newest authorities only; return the files that changed.

        Raises:
            CertificateFolderRefused: A leaf is still signed by an old one.
        """
        for row in self.rows():
            if not row.is_authority and not self._is_of_newest(row):
                raise CertificateFolderRefused(
                    f"{row.file} is signed by an old authority; renew it and hand it out first"
                )
        changed = []
        for name in AUTHORITIES:
            certificates = x509.load_pem_x509_certificates(self._read(f"{name}.pem"))
            if len(certificates) > 1:
                newest = certificates[0].public_bytes(serialization.Encoding.PEM)
                self._write(f"{name}.pem", newest)
                changed.append(f"{name}.pem")
        return changed

    def rows(self) -> Iterator[CertificateRow]:
        """All certificates, authorities first.

        Raises:
            CertificateFolderRefused: A file cannot be read, or the folder has no authority.
        """
        names = [f"{name}.pem" for name in AUTHORITIES]
        if not any((self.path / name).exists() for name in names):
            raise CertificateFolderRefused(
                f"{self.path} has no authority; ariane tls init makes one"
            )
        names += sorted({each.name for each in self.path.glob("*-*.pem")})
        for name in names:
            if (self.path / name).exists():
                yield from certificate_rows(name, self._read(name))

    def _is_of_newest(self, row: CertificateRow) -> bool:
        leaf = x509.load_pem_x509_certificate(self._read(row.file))
        name = USERS if row.file.startswith(f"{USER}-") else MEMBERS
        newest = x509.load_pem_x509_certificates(self._read(f"{name}.pem"))[0]
        return is_issued_by(leaf, [newest])

    def _authority(self, name: str) -> Pair:
        try:
            certificate = x509.load_pem_x509_certificates(self._read(f"{name}.pem"))[0]
            key = serialization.load_pem_private_key(self._read(f"{name}.key"), None)
        except (ValueError, TypeError) as error:
            raise CertificateFolderRefused(f"{self.path / name}.key: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CertificateFolderRefused(f"{self.path / name}.key is no key of an elliptic curve")
        return Pair(certificate, key)

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise CertificateFolderRefused(f"{self.path / name}: {error.strerror}") from None

    def _write(self, name: str, content: bytes) -> None:
        """Replace a file; nobody but its owner may read it at any time."""
        fresh = self.path / f"{name}.new"
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:  # noqa: PTH123 - of a handle.
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path / name)
        except OSError as error:
            raise CertificateFolderRefused(f"{self.path / name}: {error.strerror}") from None


def certificate_rows(file: str, content: bytes) -> Iterator[CertificateRow]:
    """The certificates of one file; of a leaf's, the leaf only.

    Raises:
        CertificateFolderRefused: There is none in it.
    """
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CertificateFolderRefused(
            f"{file} has no certificate that can be read, as PEM"
        ) from None
    for certificate in certificates:
        uris, hosts = names_of(certificate)
        yield CertificateRow(
            file=file,
            uri=uris[0] if uris else certificate.subject.rfc4514_string(),
            hosts=tuple(hosts),
            ends=certificate.not_valid_after_utc,
            fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
            is_authority=_is_authority(certificate),
        )
        if not _is_authority(certificate):
            return


def is_issued_by(leaf: x509.Certificate, authorities: Sequence[x509.Certificate]) -> bool:
    """Whether one of the authorities itself has signed a certificate."""
    for authority in authorities:
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
