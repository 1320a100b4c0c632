"""Cores do not touch the world behind the back of whoever runs them.

Clock, disk, randomness and network are handed in, so that the same code runs in a simulated world
with a seed. The places that touch the world are few and named here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from typing import Final

from tools.tidy.sources import Finding, Sources

CORES: Final = (
    "storage/ordering/src/*",
    "storage/record/src/*",
    "storage/sql92/src/*",
    "storage/src/*",
    "services/*/src/*",
    "sdk/python/src/*",
    "wire/src/*",
)

WORLD: Final = {
    "*/__main__.py": "reads arguments and environment, once",
    "*/app.py": "the parts list: gives the real clock, disk and chance to those that take them",
    "services/broker/src/ariane_broker/replica_app.py": "the parts list of a replica",
    "services/broker/src/ariane_broker/naming/store_host.py": "asks for its own address, once",
    "storage/src/ariane_storage/disk/clock.py": "the real clock",
    "storage/src/ariane_storage/disk/os_disk.py": "the real disk",
    "storage/src/ariane_storage/testing/*": "worlds for tests",
    "storage/src/ariane_storage/commands*": "tools that people run on a closed store",
    "services/filter/src/ariane_filter/catalogue/folder.py": "the catalogue on the disk",
    "services/filter/src/ariane_filter/jail/process.py": "starts workers, and talks to them",
    "services/filter/src/ariane_filter/jail/worker/*": "the jailed process itself",
    "services/gateway/src/ariane_gateway/access_keys.py": "reads the file of keys",
    "services/gateway/src/ariane_gateway/front_tls.py": "reads certificates and keys",
    "services/gateway/src/ariane_gateway/kept_keys.py": "reads and writes the file of told keys",
    "services/admin/src/*": "the command line: a client, run by people",
    "sdk/python/src/ariane_sdk/runtime/clock.py": "the real clock",
    "sdk/python/src/ariane_sdk/runtime/disk.py": "the real disk",
    "sdk/python/src/ariane_sdk/runtime/environment.py": "what the environment says, asked by name",
    "sdk/python/src/ariane_sdk/runtime/fork.py": "which process this is",
    "sdk/python/src/ariane_sdk/security.py": "reads the key of a user; worlds have none",
    "wire/src/ariane_wire/discovery.py": "reads addresses from DNS, files and URLs",
    "wire/src/ariane_wire/transport/certificates.py": "certificates end by the real clock",
    "wire/src/ariane_wire/transport/listening.py": "binds ports, which loops do not",
    "wire/src/ariane_wire/transport/tls.py": "reads certificates and keys; worlds have no TLS",
}
"""Files in cores that are the world, and what each is."""

CLOCK: Final = "ask the Clock that was handed in"
CHANCE: Final = "draw from the random.Random that was handed in"
DISK: Final = "ask the Disk that was handed in"
NETWORK: Final = "take the connection that was handed in"
PROCESS: Final = "ask the Machine or the Disk that was handed in"

BANNED: Final = {
    "time.time": CLOCK,
    "time.time_ns": CLOCK,
    "time.monotonic": CLOCK,
    "time.monotonic_ns": CLOCK,
    "time.sleep": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.date.today": CLOCK,
    "os.urandom": CHANCE,
    "random.*": CHANCE,
    "secrets.*": CHANCE,
    "uuid.uuid1": CHANCE,
    "uuid.uuid4": CHANCE,
    "numpy.random.*": CHANCE,
    "open": DISK,
    "io.open": DISK,
    "mmap.mmap": DISK,
    "os.fdatasync": DISK,
    "os.fsync": DISK,
    "os.ftruncate": DISK,
    "os.listdir": DISK,
    "os.makedirs": DISK,
    "os.mkdir": DISK,
    "os.open": DISK,
    "os.posix_fallocate": DISK,
    "os.remove": DISK,
    "os.rename": DISK,
    "os.replace": DISK,
    "os.scandir": DISK,
    "os.stat": DISK,
    "os.truncate": DISK,
    "os.unlink": DISK,
    "shutil.*": DISK,
    "tempfile.*": DISK,
    "*.read_bytes": DISK,
    "*.read_text": DISK,
    "*.write_bytes": DISK,
    "*.write_text": DISK,
    "asyncio.open_connection": NETWORK,
    "asyncio.start_server": NETWORK,
    "socket.*": NETWORK,
    "subprocess.*": NETWORK,
    "os.getpid": PROCESS,
}
"""Calls by full name, and what to do instead."""

ALLOWED: Final = frozenset({"random.Random", "socket.gethostname", "socket.inet_aton"})
"""Fit a pattern above, but are pure or are how the thing that is handed in is made."""


def world_calls(sources: Sources) -> Iterator[Finding]:
    """No call in a core that reads the clock, the disk, chance or the network by itself."""
    for name in sources.python:
        if not any(fnmatch(name, core) for core in CORES) or _is_world(name):
            continue
        nodes = sources.nodes(name)
        origins = _origins(nodes)
        for node in nodes:
            if isinstance(node, ast.Call):
                called = _full_name(node.func, origins)
                instead = _instead(called)
                if instead:
                    yield Finding(name, node.lineno, "world-call", f"{called}(): {instead}")


def salted_hashes(sources: Sources) -> Iterator[Finding]:
    """No ``hash`` in a core: Python salts it in each process, so it may not leave this one."""
    for name in sources.python:
        if not any(fnmatch(name, core) for core in CORES):
            continue
        nodes = sources.nodes(name)
        stays = {
            inner
            for node in nodes
            if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
            for inner in ast.walk(node)
        }
        for node in nodes:
            if isinstance(node, ast.Name) and node.id == "hash" and node not in stays:
                yield Finding(
                    name,
                    node.lineno,
                    "salted-hash",
                    "hash differs in the next process: use java_string_hash or zlib.crc32",
                )


CALL_ENDS: Final = (
    "servicekit/src/ariane_servicekit/rpc/channels.py",
    "servicekit/src/ariane_servicekit/rpc/server.py",
    "sdk/python/src/ariane_sdk/net/connections.py",
    "sdk/python/src/ariane_sdk/channels.py",
)
"""Where channels and servers are made, all by ``ariane_wire``."""


def channels(sources: Sources) -> Iterator[Finding]:
    """No other place that we ship makes a channel or a server, and none by grpcio's runtime."""
    for name in sources.python:
        if "/src/" not in name or name.startswith("wire/") or "testkit" in name:
            continue
        nodes = sources.nodes(name)
        origins = _origins(nodes)
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            called = _full_name(node.func, origins)
            if not called.endswith(("secure_channel", ".server")):
                continue
            if called.startswith("grpc."):
                instead = "use ariane_wire, whose calls cost a fraction"
                yield Finding(name, node.lineno, "channel", f"{called}(): {instead}")
            elif called.startswith("ariane_wire.") and name not in CALL_ENDS:
                instead = "use open_channel or build_server of ariane_servicekit"
                yield Finding(name, node.lineno, "channel", f"{called}(): {instead}")


def _is_world(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in WORLD)


def _origins(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Where each imported name comes from: ``{"now": "time.time"}``."""
    origins: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origins


def _full_name(function: ast.expr, origins: dict[str, str]) -> str:
    """The dotted name of what is called, as far as the text tells."""
    parts: list[str] = []
    node = function
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (node.id in origins or not parts):
        parts.append(origins.get(node.id, node.id))
    else:
        # Something that was handed in, whatever it is called: only its methods are known.
        parts.append("")
    return ".".join(reversed(parts))


def _instead(called: str) -> str | None:
    """What to do instead of a call; None where it is fine."""
    if called in ALLOWED:
        return None
    for pattern, instead in BANNED.items():
        if fnmatch(called, pattern):
            return instead
    return None
