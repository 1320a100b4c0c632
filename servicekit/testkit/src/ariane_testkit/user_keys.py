"""Keys of users for a test: private halves in files, public ones in rules."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ariane.common.v1 import access_rules_pb2 as rules
from ariane_servicekit import SystemClock
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper


class UserKeys:
    """Of one test."""

    def __init__(self, folder: Path) -> None:
        """Keep files in a folder."""
        self.rules = rules.AccessRules(version=1)
        """What admin would tell."""
        self._folder = folder

    def file_of(
        self,
        user: str,
        *,
        told: bool = True,
        kind: rules.UserKind.ValueType = rules.USER_KIND_NORMAL,
    ) -> Path:
        """The file of a new key, as ``ariane credential create`` writes it."""
        private = Ed25519PrivateKey.generate()
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path = self._folder / f"{user}.key"
        path.write_bytes(f"user: {user}\ncredential: {user}-1\n".encode() + pem)
        if told:
            public = private.public_key().public_bytes_raw()
            key = rules.PublicKey(credential_id=f"{user}-1", public_key=public)
            self.rules.users.add(user=user, kind=kind, keys=[key])
        return path

    def environment(self) -> dict[str, str]:
        """Variables by which processes that are started know the keys."""
        # Each service keeps its rules in a file of its own.
        return {
            f"ARIANE_{service}_ACCESS_RULES_FILE": str(self.save(self._folder / f"rules-{service}"))
            for service in ("BROKER", "NAMESRV", "TXN_CHECKER")
        }

    def save(self, path: Path) -> Path:
        """Write the rules as a process keeps them, for its ``access_rules_file``."""
        keeper = RulesKeeper(Gate(AccessMode.CLOSED, int), path, SystemClock(), hold_s_max=1)
        keeper.save(self.rules)
        return path
