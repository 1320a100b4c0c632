"""Makes the secrets of the stack: passwords, and a certificate for each process and user.

    python3 compose/make_secrets.py --host 192.0.2.17
    python3 compose/make_secrets.py --kubernetes | kubectl apply -f -

They lie in `compose/secrets`, which is closed to other users of the machine. What is there already
stays. Run it again after `ariane tls renew compose/secrets/authorities`: services read their files
anew, and go on.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CLUSTER: Final = "main"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
GATEWAY: Final = "10.77.0.1"
"""Of the stack's network: where brokers are unless told otherwise."""

BROKERS: Final = ("broker-a", "broker-b")

USERS: Final = ("root", "prometheus", "archive")
"""The super user, and what reads metrics and topics."""

CONTAINERS: Final = {
    **{name: (f"namesrv/{name}", (name,)) for name in ("namesrv-1", "namesrv-2")},
    **{name: (f"broker/{name}", (f"{name}-0", f"{name}-1")) for name in BROKERS},
    **{
        name.replace("broker", "filter"): (
            f"filter/{name.replace('broker', 'filter')}",
            (f"{name}-0", f"{name}-1"),
        )
        for name in BROKERS
    },
    "txn-checker": ("checker/txn-checker", ("txn-checker-1", "txn-checker-2")),
    "gateway": ("gateway/gateway", ("gateway",)),
    "admin": ("admin/admin", ("admin",)),
}
"""Folders of processes in the stack: kind and name in the certificate, and host names."""


def pods(
    namespace: str = "ariane",
    brokers: Sequence[str] = ("a", "b"),
    replicas: int = 2,
    name_servers: int = 2,
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The same for Kubernetes: of a release of the chart with these values."""

    def of_set(kind: str, name: str, service: str, count: int) -> tuple[str, tuple[str, ...]]:
        hosts = (f"{name}-{index}.{service}.{namespace}.svc" for index in range(count))
        return kind, tuple(hosts)

    names = {"txn-checker": "checker", "gateway": "gateway", "admin": "admin"}
    return {
        "namesrv": of_set("namesrv/namesrv", "namesrv", "namesrv", name_servers),
        **{
            f"{kind}-{name}": of_set(f"{kind}/{kind}-{name}", f"broker-{name}", "broker", replicas)
            for kind in ("broker", "filter")
            for name in brokers
        },
        **{name: (f"{uri}/{name}", (f"{name}.{namespace}.svc",)) for name, uri in names.items()},
    }


def main(arguments: Sequence[str]) -> int:
    """Make what is missing; return the exit status."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n", 1)[0],
        epilog="See docs/deployment.md.",
    )
    parser.add_argument("--folder", type=Path, help="Where they lie.")
    parser.add_argument(
        "--host", action="append", default=[], help="Address of this machine; may be repeated."
    )
    parser.add_argument(
        "--kubernetes", action="store_true", help="Write certificates as secrets of Kubernetes."
    )
    chart = parser.add_argument_group("values of the chart, with --kubernetes")
    chart.add_argument("--namespace", default="ariane", help="The release's namespace.")
    chart.add_argument("--brokers", nargs="+", default=("a", "b"), help="brokers.names")
    chart.add_argument("--replicas", type=int, default=2, help="brokers.replicas")
    chart.add_argument("--name-servers", type=int, default=2, help="nameServers.replicas")
    given = parser.parse_args(arguments)
    hosts = (*LOOPBACK, *given.host)
    if given.kubernetes:
        folder = given.folder or HERE / "secrets-kubernetes"
        members = pods(given.namespace, given.brokers, given.replicas, given.name_servers)
        made = certificates(folder, members, hosts)
        listed = as_secrets(folder, made, given.namespace)
        sys.stdout.write(json.dumps(listed, indent=1) + "\n")
        return 0
    folder = given.folder or HERE / "secrets"
    certificates(folder, CONTAINERS, (*hosts, GATEWAY))
    passwords(folder)
    sys.stdout.write(f"{folder} has all that the stack needs\n")
    return 0


def certificates(
    folder: Path, members: dict[str, tuple[str, tuple[str, ...]]], hosts: Sequence[str]
) -> list[str]:
    """Make the certificates that are missing, and a folder of each process and user with its own.

    Returns:
        The names of these folders.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    authorities = folder / "authorities"
    # The environment of a developer has it beside Python.
    ariane = shutil.which("ariane") or str(Path(sys.executable).with_name("ariane"))
    words = [ariane, "tls", "init", str(authorities), "--cluster", CLUSTER]
    for uri, names in members.values():
        words += ["--member", f"{uri}={','.join((*names, *hosts))}"]
    for user in USERS:
        words += ["--user", user]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own words.
    leaves = {name: uri.replace("/", "-") for name, (uri, _) in members.items()}
    leaves |= {f"user-{user}": f"user-{user}" for user in USERS}
    for name, leaf in leaves.items():
        own = folder / name
        own.mkdir(exist_ok=True)
        own.chmod(0o755)
        for file, source in (
            ("certificate.pem", f"{leaf}.pem"),
            ("key.pem", f"{leaf}.key"),
            ("members.pem", "members.pem"),
            ("users.pem", "users.pem"),
        ):
            replace(own / file, (authorities / source).read_bytes())
    # With this admin seals the keys of RocketMQ's clients in the database, where it must not lie.
    seal = folder / "admin" / "secret.key"
    if not seal.exists():
        replace(seal, secrets.token_bytes(32))
    return list(leaves)


def passwords(folder: Path) -> None:
    """Draw the passwords that are missing."""
    for name in ("database_password", "grafana_password"):
        if not (folder / name).exists():
            replace(folder / name, f"{secrets.token_hex(16)}\n".encode())
    password = (folder / "database_password").read_text().strip()
    url = f"postgresql+psycopg://ariane:{password}@postgres/ariane\n"
    replace(folder / "database_url", url.encode())


def replace(path: Path, content: bytes) -> None:
    """Let a file have a content, in one step.

    Services run as users of their own: the folder around is closed to others, and the file is not.
    """
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    os.replace(fresh, path)  # noqa: PTH105 - one word for it.


def as_secrets(folder: Path, names: Sequence[str], namespace: str) -> dict[str, object]:
    """The folders as a list of secrets for Kubernetes."""

    def items() -> Iterator[dict[str, object]]:
        for name in names:
            files = sorted((folder / name).iterdir())
            yield {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"tls-{name}", "namespace": namespace},
                "data": {file.name: base64.b64encode(file.read_bytes()).decode() for file in files},
            }

    return {"apiVersion": "v1", "kind": "List", "items": list(items())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
