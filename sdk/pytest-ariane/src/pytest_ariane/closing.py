"""What a closed cluster of the tests needs: authorities, certificates, users and their rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ariane.common.v1 import access_pb2 as access
from ariane.common.v1 import access_rules_pb2 as rules
from ariane.common.v1.access_service_pb2 import PushAccessRulesRequest
from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import Tls
from ariane_servicekit import open_channel
from ariane_servicekit.running.local_certificates import LocalCertificates
from ariane_servicekit.running.processes import CLUSTER_NAME
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS, ServiceTls

SUPER_USER: Final = "tester"
"""Who tests are unless they say otherwise."""

VARIABLES: Final = {
    "ca": "ARIANE_TLS_CA",
    "certificate": "ARIANE_TLS_CERTIFICATE",
    "key": "ARIANE_TLS_KEY",
}
"""Of the environment, by the arguments of ``Tls``."""

_FOR_EVER_S: Final = 1e9


class Closing:
    """Certificates and rules, which all clusters of a session share."""

    def __init__(self, path: Path) -> None:
        """Make the authorities in a folder."""
        self._path = path
        self.certificates = LocalCertificates(path, CLUSTER_NAME, (SUPER_USER,))
        """Of members and users."""
        self._rules = rules.AccessRules()

    def settings(self, kind: MemberKind, name: str) -> Mapping[str, Any]:
        """Settings of a process of the cluster."""
        flags = self.certificates.flags(kind, name)
        named = {
            flag.removeprefix("--").replace("-", "_"): value
            for flag, value in zip(flags[::2], flags[1::2], strict=True)
        }
        # Nobody says again and again that the rules hold; a broker has them after its restart.
        kept = {"access_rules_s_max": _FOR_EVER_S, "access_rules_file": self._path / kind.value}
        return {**named, **kept}

    def environment(self) -> dict[str, str]:
        """Variables that make clients the super user."""
        files = self.certificates.user(SUPER_USER)
        return {VARIABLES[argument]: str(path) for argument, path in files.items()}

    async def add(self, name: str, rights: Iterable[str], addresses: Iterable[str]) -> Tls:
        """Give a user rights, in place of those that he had; return what he shows.

        Args:
            name: The user.
            rights: Such as ``PUBLISH topic order-*`` or ``SUBSCRIBE,UPDATE group billing``.
            addresses: Of the processes that are told.

        Raises:
            ValueError: A right is none.
        """
        entries = [_entry(right) for right in rights]
        others = [user for user in self._rules.users if user.user != name]
        users = [*others, rules.UserRights(user=name, entries=entries)]
        self._rules = rules.AccessRules(version=self._rules.version + 1, users=users)
        # In this task only: it speaks as admin does.
        MEMBER_TLS.set(ServiceTls(NamesrvSettings(**self.settings(MemberKind.ADMIN, "pytest"))))
        for address in addresses:
            async with open_channel(address) as channel:
                stream: Any = AccessServiceStub(channel).PushAccessRules()
                await stream.read()
                await stream.write(PushAccessRulesRequest(part=self._rules, last=True))
                await stream.read()
                stream.cancel()
        shown = self.certificates.user(name)
        return Tls(ca=shown["ca"], certificate=shown["certificate"], key=shown["key"])


def _entry(right: str) -> rules.AccessEntry:
    try:
        actions, resource, *names = right.split()
        name = names[0] if names else "*"
        pattern = rules.NAME_PATTERN_LITERAL
        if name.endswith("*"):
            name = name[:-1]
            pattern = rules.NAME_PATTERN_PREFIX if name else rules.NAME_PATTERN_ANY
        return rules.AccessEntry(
            decision=rules.ACCESS_DECISION_ALLOW,
            actions=[access.Action.Value(f"ACTION_{each.upper()}") for each in actions.split(",")],
            resource=access.Resource.Value(f"RESOURCE_{resource.upper()}"),
            pattern=pattern,
            name=name,
        )
    except ValueError:
        raise ValueError(f"{right!r}: such as 'PUBLISH topic order-*' is expected") from None
