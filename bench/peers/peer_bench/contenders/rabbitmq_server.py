"""RabbitMQ's server: Debian's, with its Erlang, run where both were unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ariane_testkit.free_ports import free_port
from peer_bench.errors import PeerUnavailable
from peer_bench.fetched.debian import libraries_of, unpacked
from peer_bench.servers import server

_ERLANG: Final = (
    "asn1", "base", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools",
    "public-key", "runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl",
)  # fmt: skip
_PACKAGES: Final = ("rabbitmq-server", *(f"erlang-{part}" for part in _ERLANG))
_INSTALLED_ROOT: Final = "ROOTDIR=/usr/lib/erlang\n"


@contextmanager
def rabbitmq_server(data_path: Path) -> Iterator[tuple[int, int, str]]:
    """Run it in a folder that is its own; yields its port, its process id and its version.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    root = unpacked("rabbitmq", _PACKAGES)
    erlang = root / "usr/lib/erlang"
    _move(erlang)
    homes = sorted((root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    if not homes:
        raise PeerUnavailable("the package rabbitmq-server holds no server")
    found = homes[-1].name.partition("-")[2]
    port, names_port = free_port(), free_port()
    environment = {
        **libraries_of(root),
        "PATH": f"{erlang}/bin:/usr/bin:/bin",
        "HOME": str(data_path),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bench-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(data_path / "mnesia"),
        "RABBITMQ_LOG_BASE": str(data_path / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(data_path / "plugins"),
        "RABBITMQ_PLUGINS_DIR": str(homes[-1] / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(data_path / "none"),
        "RABBITMQ_ALLOW_INPUT": "1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput",
    }
    # Erlang would leave its name server running behind; so it is given one that ends with us.
    with server(
        "epmd", [str(erlang / "bin/epmd")], port=names_port, home=data_path,
        environment=environment,
    ), server(
        "rabbitmq", [str(homes[-1] / "sbin/rabbitmq-server")], port=port, home=data_path,
        environment=environment,
    ) as pid:  # fmt: skip
        yield port, pid, found


def _move(erlang: Path) -> None:
    """Tell Erlang's starter where it lies now."""
    for path in (erlang / "bin/erl", *erlang.glob("erts-*/bin/erl")):
        text = path.read_text()
        path.write_text(text.replace(_INSTALLED_ROOT, f"ROOTDIR={erlang}\n"))
