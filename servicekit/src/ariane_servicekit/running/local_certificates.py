"""Certificates for a cluster on this machine: each process shows its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.tls.certificate_folder import CertificateFolder
from ariane_servicekit.security.tls.member_names import MemberName, user_uri

_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_DAYS: Final = 30


class LocalCertificates:
    """The certificates of a cluster on this machine, in a folder as ``ariane tls`` keeps it."""

    def __init__(self, path: Path, cluster: str, super_users: Sequence[str] = ()) -> None:
        """Make the authorities.

        Args:
            path: The folder.
            cluster: Name of the cluster.
            super_users: Users that may do everything, and close the cluster to others; none: it is
                open to all who speak TLS.
        """
        self._cluster = cluster
        self.folder = CertificateFolder(path)
        """The folder of certificates and keys."""
        self.folder.make_authorities(cluster)
        closed = ("--access", "closed", "--super-users", ",".join(super_users))
        self._access = closed if super_users else ()

    def flags(self, kind: MemberKind, name: str) -> tuple[str, ...]:
        """Flags of a process; its certificate is made if it is missing."""
        path = self.folder.path
        if not (path / f"{kind.value}-{name}.pem").exists():
            self.folder.sign(str(MemberName(self._cluster, kind, name)), _HOSTS, _DAYS)
        return (
            *("--tls-certificate", str(path / f"{kind.value}-{name}.pem")),
            *("--tls-key", str(path / f"{kind.value}-{name}.key")),
            *("--tls-members", str(path / "members.pem")),
            *("--tls-users", str(path / "users.pem")),
            *self._access,
        )

    def user(self, name: str) -> dict[str, Path]:
        """Files of a user, by the arguments of the SDK's ``Tls``; made if they are missing."""
        path = self.folder.path
        if not (path / f"user-{name}.pem").exists():
            self.folder.sign(user_uri(self._cluster, name), (), _DAYS)
        return {
            "ca": path / "members.pem",
            "certificate": path / f"user-{name}.pem",
            "key": path / f"user-{name}.key",
        }
