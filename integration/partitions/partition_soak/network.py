r"""A network of this machine's own: each node in a network namespace, all on one bridge.

::

    namespace a        namespace b        namespace c
    10.77.n.1          10.77.n.2          10.77.n.3
        |                  |                  |
    ----+------------------+------------------+----  bridge
        |                  |
    10.77.n.254        10.77.n.253                   this process: clients, the database

A cut drops the packets from one address to another, silently and in that direction only, where they
arrive, or where they leave if they go to this process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Final

CLIENTS: Final = "clients"
DATABASE: Final = "database"
_HOST_NUMBERS: Final = {CLIENTS: 254, DATABASE: 253}
_CHAIN: Final = "CUTS"


def why_not() -> str:
    """Why this machine cannot have such a network; empty when it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "iptables", "nsenter") if not shutil.which(tool)]
    if missing:
        return f"missing: {', '.join(missing)}"
    name = f"try{os.getpid()}"
    tried = _run("ip", "netns", "add", name, check=False)
    _run("ip", "netns", "del", name, check=False)
    return "" if tried == 0 else "no network namespaces can be made here"


class Network:
    """Nodes, and cuts between them."""

    def __init__(self, nodes: Iterable[str]) -> None:
        """Make nothing yet.

        Args:
            nodes: Their names, short.
        """
        self._tag = f"ap{os.getpid()}"
        self._subnet = f"10.77.{os.getpid() % 250 + 1}"
        self._numbers = {name: number for number, name in enumerate(nodes, start=1)}
        self.nodes = tuple(self._numbers)

    def address(self, name: str) -> str:
        """The address of a node, or of one of this process."""
        return f"{self._subnet}.{(_HOST_NUMBERS | self._numbers)[name]}"

    def command_prefix(self, name: str) -> tuple[str, ...]:
        """What goes before a command, so that it runs in a node."""
        # Not "ip netns exec", which gives each command a view of all mounts of its own: a disk that
        # is unmounted here would stay mounted there.
        return ("nsenter", f"--net=/run/netns/{self._space(name)}")

    def make(self) -> None:
        """Make bridge and nodes.

        Raises:
            CalledProcessError: The machine refuses.
        """
        bridge = self._tag
        _run("ip", "link", "add", bridge, "type", "bridge")
        for number in _HOST_NUMBERS.values():
            _run("ip", "addr", "add", f"{self._subnet}.{number}/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for name in self.nodes:
            space, link = self._space(name), f"{bridge}{name}"
            _run("ip", "netns", "add", space)
            peer = ("peer", "name", "eth0", "netns", space)
            _run("ip", "link", "add", link, "type", "veth", *peer)
            _run("ip", "link", "set", link, "master", bridge, "up")
            _run("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            self._tables(name, "-N", _CHAIN)
            for way in ("INPUT", "OUTPUT"):
                self._tables(name, "-A", way, "-j", _CHAIN)

    def remove(self) -> None:
        """Take all of it away; harmless when there is nothing."""
        for name in self.nodes:
            _run("ip", "netns", "del", self._space(name), check=False)
        _run("ip", "link", "del", self._tag, check=False)

    async def cut(self, source: str, target: str) -> None:
        """Lose all packets from one to another; at least one of both is a node."""
        await asyncio.to_thread(self._tables, *self._rule("-A", source, target))

    async def mend(self, source: str, target: str) -> None:
        """Take a cut back."""
        await asyncio.to_thread(self._tables, *self._rule("-D", source, target))

    def _rule(self, order: str, source: str, target: str) -> tuple[str, ...]:
        where = target if target in self._numbers else source
        ends = ("-s", self.address(source), "-d", self.address(target))
        return (where, order, _CHAIN, *ends, "-j", "DROP")

    def _tables(self, name: str, *order: str) -> None:
        _run(*self.command_prefix(name), "iptables", "-w", *order)

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"


def _run(*command: str, check: bool = True) -> int:
    return subprocess.run(command, check=check, capture_output=True).returncode
