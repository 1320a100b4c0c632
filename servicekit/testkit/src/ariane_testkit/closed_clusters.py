"""Every cluster of a run closed, and its tests let in as a super user: ``pytest --closed``.

All clusters of the run share one pair of authorities, and what tests start inherits the files of
the super user by its environment: clients of every language, commands, Spark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import grpc
from grpc import aio

from ariane_servicekit import SystemClock
from ariane_servicekit.running.local_certificates import LocalCertificates
from ariane_servicekit.running.processes import CLUSTER_NAME, LocalCluster
from ariane_servicekit.security.caller import MemberKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper
from ariane_testkit.access_rules import rules_of

TESTER: Final = "tester"
"""The super user that tests are."""

APP: Final = "app"
"""A user with rights on all topics and groups, for whom gateways may act."""

APP_KEY: Final = {"key": APP, "secret": "of-tests-only"}
"""What his clients sign with, in the words of the drivers of RocketMQ's clients."""

_KEYS: Final = "access-keys"
_VARIABLES: Final = {
    "ca": "ARIANE_TLS_CA",
    "certificate": "ARIANE_TLS_CERTIFICATE",
    "key": "ARIANE_TLS_KEY",
}


def close_all_clusters(folder: Path) -> None:
    """Close every ``LocalCluster`` that is made from now on, also those of other programs' tests.

    Args:
        folder: For certificates and keys.
    """
    certificates = LocalCertificates(folder, CLUSTER_NAME, (TESTER,))
    LocalCluster.closed_by = certificates
    every = "PUBLISH,SUBSCRIBE,CREATE,UPDATE,DELETE,GET"
    stated = rules_of(1, f"{APP}: allow {every} topic *; allow {every} group *")
    (folder / _KEYS).write_text("{key}:{secret}\n".format(**APP_KEY))
    for service in ("BROKER", "NAMESRV"):
        path = folder / f"rules-{service}"
        RulesKeeper(Gate(AccessMode.CLOSED, int), path, SystemClock(), hold_s_max=1).save(stated)
        os.environ[f"ARIANE_{service}_ACCESS_RULES_FILE"] = str(path)
    for argument, path in certificates.user(TESTER).items():
        os.environ[_VARIABLES[argument]] = str(path)


def all_are_closed() -> bool:
    """Whether every cluster of this run is closed."""
    return LocalCluster.closed_by is not None


def gateway_flags(cluster: LocalCluster, name: str) -> tuple[str, ...]:
    """Flags of a gateway beside a cluster; a closed one lets in who signs with ``APP_KEY``."""
    if LocalCluster.closed_by is None:
        return ()
    keys = LocalCluster.closed_by.folder.path / _KEYS
    # Its clients choose between TLS and plain text.
    options = ("--insecure", "--access-keys", str(keys))
    return (*cluster.shown(MemberKind.GATEWAY, name), *options)


def open_aio_channel(address: object, **options: Any) -> aio.Channel:
    """Open a channel of grpcio to a process of a ``LocalCluster``, for raw stubs on a loop."""
    credentials = _credentials()
    if credentials is None:
        return aio.insecure_channel(str(address), **options)
    return aio.secure_channel(str(address), credentials, **options)


def open_blocking_channel(address: object, member: MemberKind | None = None) -> grpc.Channel:
    """The same for raw stubs without a loop; as a process of the cluster instead of the tester."""
    credentials = _credentials(member)
    if credentials is None:
        return grpc.insecure_channel(str(address))
    return grpc.secure_channel(str(address), credentials)


def _credentials(member: MemberKind | None = None) -> grpc.ChannelCredentials | None:
    certificates = LocalCluster.closed_by
    if certificates is None:
        return None
    if member is None:
        ca, certificate, key = certificates.user(TESTER).values()
    else:
        flags = certificates.flags(member, TESTER)
        shown = dict(zip(flags[::2], map(Path, flags[1::2]), strict=True))
        ca, certificate, key = (
            shown[f"--tls-{each}"] for each in ("members", "certificate", "key")
        )
    return grpc.ssl_channel_credentials(ca.read_bytes(), key.read_bytes(), certificate.read_bytes())
