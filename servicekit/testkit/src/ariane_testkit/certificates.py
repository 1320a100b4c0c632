"""Certificates of a cluster for a test, in the folder that ``ariane tls`` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ariane_servicekit.security.tls.certificate_folder import CertificateFolder
from ariane_servicekit.security.tls.member_names import SCHEME, USER

HOSTS = ("localhost", "127.0.0.1", "::1")


class ClusterCertificates:
    """Of one cluster."""

    def __init__(self, path: Path, cluster: str = "main") -> None:
        self.cluster = cluster
        self.path = path
        """Where they are."""
        self.folder = CertificateFolder(path)
        """The folder, as ``ariane tls`` keeps it."""
        self.folder.make_authorities(cluster)

    def member(self, kind: str, name: str, *, days: float = 365) -> dict[str, Any]:
        """Make a member of this machine; return its settings."""
        file = self.folder.sign(f"{SCHEME}{self.cluster}/{kind}/{name}", HOSTS, days)
        return {
            "tls_certificate": self.path / file,
            "tls_key": (self.path / file).with_suffix(".key"),
            "tls_members": self.path / "members.pem",
            "tls_users": self.path / "users.pem",
        }

    def user(self, name: str, *, days: float = 365) -> tuple[Path, Path]:
        """Make a user; return the files of the certificate and the key."""
        file = self.folder.sign(f"{SCHEME}{self.cluster}/{USER}/{name}", (), days)
        return self.path / file, (self.path / file).with_suffix(".key")
